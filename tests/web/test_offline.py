"""The page of ``patchprint export --out try.html``, opened from disk: its keypoints, descriptors and matches are Python's."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pytest
import torch

from patchprint import cli
from patchprint.common.errors import UserError
from patchprint.common.types import Features, Keypoints
from patchprint.features import extract, load
from patchprint.interop.images import read_gray
from patchprint.matching import match
from patchprint.networks import create
from patchprint.web import offline
from support.browser import CHROMIUM, DESK, FLAGS, PHONE, Visits, overflow, pixels, serious_violations
from support.checkout import SHARED
from support.known_images import texture
from support.network_patches import smooth_patches, trained_looking

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
MODEL = "patchprint.tiny"
LARGEST = 1_500_000  # bytes, promised in issue 38
GRAF = SHARED / "data" / "oxford" / "graf"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "try.html"
    assert cli.main(["export", MODEL, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of the worker's functions alone."""
    out = tmp_path_factory.mktemp("library") / "library.html"
    out.write_text(f'<!doctype html><meta charset="utf-8"><script>{offline.worker_source()}</script>', "utf-8")
    return out


@pytest.fixture(scope="module")
def browser_with_gpu(browser: Browser, library: Path) -> Iterator[Browser]:
    """Chromium with an emulated GPU for WebGPU, which the other tests' browser does not have."""
    flags = (*FLAGS, "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
    other = browser.browser_type.launch(executable_path=CHROMIUM, args=list(flags))
    try:
        page = other.new_page()
        page.goto(library.as_uri())
        if not page.evaluate("async () => Boolean(await navigator.gpu?.requestAdapter())"):
            pytest.skip("this Chromium has no emulated adapter for WebGPU")
        yield other
    finally:
        other.close()


@pytest.fixture
def open_page_with_gpu(browser_with_gpu: Browser) -> Iterator[Callable[..., Page]]:
    visits = Visits(browser_with_gpu)
    try:
        yield visits.open
        visits.check()
    finally:
        visits.close()


def give(page: Page, *paths: Path) -> None:
    for side, path in zip("ab", paths, strict=False):
        page.locator(f'[data-side="{side}"] input').set_input_files(path)


def wait(page: Page) -> None:
    page.locator("#result").wait_for(timeout=120_000)
    page.locator("#status:empty").wait_for(state="attached", timeout=120_000)


def features_of(page: Page, side: str) -> tuple[np.ndarray, np.ndarray]:
    """Keypoints (x, y, scale, angle, score), (N, 5), and descriptors (N, D) of an image on the page."""
    rows = page.evaluate(f"features.{side}.points.map((p) => [p.x, p.y, p.scale, p.angle, p.score])")
    values = page.evaluate(f"Array.from(features.{side}.descriptors)")
    return np.array(rows), np.array(values).reshape(len(rows), -1)


def table(contents: str) -> np.ndarray:
    """Places of matches in both images and whether they are inliers, (M, 5)."""
    names = ("x_a", "y_a", "x_b", "y_b", "inlier")
    return np.array([[float(row[name]) for name in names] for row in csv.DictReader(contents.splitlines())])


def downloaded(page: Page) -> str:
    with page.expect_download() as download:
        page.get_by_text("Download matches").click()
    return download.value.path().read_text()


def matches_of_command(page: Page, files: tuple[Path, Path], folder: Path, *more: str) -> str:
    """What the command line that the page shows writes, computed in float32."""
    words = page.locator("#command").inner_text().replace("'", "").split()
    assert words[:4] == ["patchprint", "match", *(path.name for path in files)]
    out = folder / "m.csv"
    asked = [*map(str, files), *words[4 : words.index("--out")], "--engine", "float32", "--out", str(out), "--force"]
    assert cli.main(["match", *asked, *more]) == 0
    return out.read_text()


def assert_same_matches(page: Page, files: tuple[Path, Path], folder: Path) -> None:
    ours, theirs = table(downloaded(page)), table(matches_of_command(page, files, folder))
    assert len(theirs) > 40 and abs(len(ours) - len(theirs)) <= 0.01 * len(theirs)
    off = np.abs(ours[:, None, :4] - theirs[None, :, :4]).max(2)
    assert (off.min(1) < 0.05).mean() >= 0.99 and (off.min(0) < 0.05).mean() >= 0.99
    # Another robust estimator, so inliers near the limit may differ.
    assert abs(ours[:, 4].sum() - theirs[:, 4].sum()) <= max(3, 0.05 * theirs[:, 4].sum())


def assert_same_features(page: Page, side: str, expected: Features) -> None:
    points, descriptors = features_of(page, side)
    ours = expected.keypoints
    table = torch.cat([ours.xy, torch.stack([ours.scale, ours.angle], 1)], 1).numpy()
    assert len(points) == len(table)
    off = np.abs(points[:, None, :4] - table[None])
    off[..., 3] = np.minimum(off[..., 3], 2 * np.pi - off[..., 3])
    rank, same = off.sum(2).argmin(1), off.max(2).min(1) < 0.003
    # One keypoint more or less, at the limit of the contrast, moves all that come after it.
    assert same.mean() >= 0.995 and np.abs(rank - np.arange(len(rank)))[same].max() <= 3
    assert np.abs(descriptors - expected.descriptors.numpy()[rank])[same].max() < 2e-3


def test_keypoints_descriptors_and_matches_of_two_views(
    page_file: Path, open_page: Callable[..., Page], real_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    page = open_page(page_file)
    assert page.locator("#invitation").is_visible()
    give(page, *real_pair)
    wait(page)
    for side, path in zip("ab", real_pair, strict=True):
        expected = extract(path, load(MODEL, engine="float32"), max_keypoints=1024, max_size=1200)
        assert_same_features(page, side, expected)
    assert_same_matches(page, real_pair, tmp_path)
    assert page.locator("#verdict").inner_text() == "Both images show the same place."
    assert page.locator("#lines g.agrees").count() > 10
    assert serious_violations(page) == []

    page.get_by_label("Matcher").select_option("graph")
    page.locator("#command").filter(has_text="--matcher graph").wait_for()
    wait(page)
    assert_same_matches(page, real_pair, tmp_path)
    page.get_by_label("Matcher").select_option("mutual+ratio")

    # Fewer pixels, fewer keypoints and another ratio.
    page.get_by_label("Longer side").select_option("640")
    for label, value in (("Keypoints per image as a number", "300"), ("Ratio as a number", "0.9")):
        page.get_by_label(label).fill(value)
        page.get_by_label(label).press("Enter")
    page.locator("#command").filter(has_text=re.compile("ratio 0.9 .*300 .*640")).wait_for()
    wait(page)
    assert_same_features(
        page, "a", extract(real_pair[0], load(MODEL, engine="float32"), max_keypoints=300, max_size=640)
    )
    assert_same_matches(page, real_pair, tmp_path)


@pytest.mark.skipif(not GRAF.is_dir(), reason="needs ../shared/data/oxford/graf")
def test_graf_and_its_turned_copy(page_file: Path, open_page: Callable[..., Page], tmp_path: Path) -> None:
    page = open_page(page_file)
    give(page, GRAF / "img1.png")
    page.get_by_role("button", name="Turned copy").click()
    wait(page)
    data = page.evaluate("async () => Array.from(new Uint8Array(await files.b.arrayBuffer()))")
    copy = tmp_path / "turned-img1.png"
    copy.write_bytes(bytes(data))
    assert_same_matches(page, (GRAF / "img1.png", copy), tmp_path)
    assert int(page.locator("#counts").inner_text().split()[0]) > 400
    give(page, GRAF / "img1.png", GRAF / "img3.png")
    page.locator("#command").filter(has_text="img3.png").wait_for()
    wait(page)
    assert_same_matches(page, (GRAF / "img1.png", GRAF / "img3.png"), tmp_path)


def test_a_large_jpeg_that_exif_turns(
    page_file: Path, open_page: Callable[..., Page], real_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """The page decodes with the browser's decoder, applies the orientation, and shrinks as OpenCV does."""
    from PIL import Image

    image = Image.open(real_pair[0])
    exif = image.getexif()
    exif[0x0112] = 6  # turned by a quarter
    large = image.resize((1500, round(1500 * image.height / image.width)), Image.Resampling.BICUBIC)
    large.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    page = open_page(page_file)
    give(page, tmp_path / "turned.jpg", real_pair[1])
    wait(page)
    assert page.evaluate("features.a.size") == [large.height, large.width]
    assert_same_matches(page, (tmp_path / "turned.jpg", real_pair[1]), tmp_path)


def test_on_a_phone_in_the_dark_with_the_example(page_file: Path, open_page: Callable[..., Page]) -> None:
    page = open_page(page_file, PHONE, dark=True)
    page.get_by_role("button", name="Example").press("Enter")
    wait(page)
    assert page.locator("#verdict").inner_text() == "Both images show the same place."
    assert overflow(page) == 0 and serious_violations(page) == []
    above, below = (page.locator(f"#image-{side}").bounding_box() for side in "ab")
    assert above and below and below["y"] > above["y"] + above["height"], "too small beside each other"
    assert page.locator("input[capture]").count() == 1
    # The lines end where the keypoints are.
    many = int(page.locator("#counts").inner_text().split()[0])
    page.get_by_label("Ratio", exact=True).press("Home")
    page.locator("#command").filter(has_text="--ratio 0.5").wait_for()
    wait(page)
    assert int(page.locator("#counts").inner_text().split()[0]) < many
    assert len(np.unique(pixels(page.locator("#images")).reshape(-1, 3), axis=0)) > 1000


def test_files_that_are_no_images_and_names_that_are_text(
    page_file: Path, open_page: Callable[..., Page], images: tuple[Path, Path], tmp_path: Path
) -> None:
    page = open_page(page_file)
    (tmp_path / "notes.jpg").write_text("These are notes.\n" * 50)
    give(page, images[0], tmp_path / "notes.jpg")
    page.get_by_role("alert").filter(has_text="notes.jpg is not an image").wait_for()
    name = "<img src=x onerror=alert(1)>${value}`&.png"
    (tmp_path / name).write_bytes(images[1].read_bytes())
    give(page, images[0], tmp_path / name)
    wait(page)
    assert page.get_by_role("alert").count() == 0
    assert name in page.locator("#command").inner_text() and page.locator("img[src=x]").count() == 0
    page.get_by_label("Remove second image").click()
    page.locator("#invitation").wait_for()


def test_files_can_be_dropped_and_pasted(
    page_file: Path, open_page: Callable[..., Page], images: tuple[Path, Path]
) -> None:
    page = open_page(page_file)
    send = """([kind, contents, ...names]) => {
        const data = new DataTransfer();
        for (const name of names) data.items.add(new File([Uint8Array.from(contents)], name));
        const [make, more] = kind === "paste" ? [ClipboardEvent, {clipboardData: data}] : [DragEvent, {dataTransfer: data}];
        document.body.dispatchEvent(new make(kind, {...more, bubbles: true, cancelable: true}));
    }"""
    contents = list(images[0].read_bytes())
    page.evaluate(send, ["drop", contents, "one.png", "other.png"])
    page.locator("#command").filter(has_text="match one.png other.png").wait_for()
    page.evaluate(send, ["paste", contents, "third.png"])
    page.locator("#command").filter(has_text="match one.png third.png").wait_for()
    assert len(table(downloaded(page))) > 100


def test_different_things_and_images_without_keypoints(
    page_file: Path, open_page: Callable[..., Page], images: tuple[Path, Path], tmp_path: Path
) -> None:
    for name, pixels_of in (("other", texture(200, 240, 9)), ("flat", np.full((90, 120), 80)), ("tiny", texture(3, 9))):
        cv2.imwrite(str(tmp_path / f"{name}.png"), pixels_of.astype(np.uint8))
    page = open_page(page_file)
    for name in ("other", "flat", "tiny"):
        give(page, images[0], tmp_path / f"{name}.png")
        page.locator("#command").filter(has_text=f"{name}.png").wait_for()
        wait(page)
        assert page.locator("#verdict").inner_text().startswith("Cannot tell")
        assert name == "other" or page.locator("#counts").inner_text().startswith("0 matches;")


@pytest.mark.parametrize("kind", ["simd", "javascript"])
def test_kernels_without_fused_simd_and_without_webassembly(
    kind: str, page_file: Path, open_page: Callable[..., Page], images: tuple[Path, Path]
) -> None:
    page = open_page(f"{page_file.as_uri()}?kernels={kind}")
    give(page, *images)
    wait(page)
    assert {"simd": "WebAssembly with SIMD", "javascript": "plain JavaScript"}[kind] in page.locator(
        "#about"
    ).inner_text()
    assert_same_features(page, "a", extract(images[0], load(MODEL, engine="float32"), max_keypoints=1024))


def test_descriptors_with_webgpu(
    page_file: Path, open_page_with_gpu: Callable[..., Page], images: tuple[Path, Path]
) -> None:
    page = open_page_with_gpu(f"{page_file.as_uri()}?kernels=webgpu")
    give(page, *images)
    wait(page)
    assert "computed with WebGPU in" in page.locator("#about").inner_text()
    assert_same_features(page, "a", extract(images[0], load(MODEL, engine="float32"), max_keypoints=1024))
    # An emulated GPU is slower than WebAssembly, so it is taken on request only.
    page = open_page_with_gpu(page_file)
    page.locator("#about").filter(has_text="computed with WebAssembly").wait_for()


def test_without_webgpu_where_it_is_asked_for(
    page_file: Path, open_page: Callable[..., Page], images: tuple[Path, Path]
) -> None:
    page = open_page(f"{page_file.as_uri()}?kernels=webgpu")
    give(page, *images)
    wait(page)
    assert "computed with WebAssembly" in page.locator("#about").inner_text()
    assert_same_features(page, "a", extract(images[0], load(MODEL, engine="float32"), max_keypoints=1024))


# Runs calls of the worker; `before` may break the GPU between them.
ON_DEVICE = """async ([model, patches, count, before]) => {
    const verdict = {}, given = Float32Array.from(patches);
    const kinds = [(await calls.start({data: {model, verdict}, kind: "webgpu"})).kind];
    if (before) (0, eval)(before);
    const found = Array.from(await describePatches(given, count));
    return [[...kinds, kindNow()], found];
}"""


@pytest.mark.parametrize(
    ("name", "options", "before", "kinds"),
    [
        ("hardnet", {"width": 4}, "", ["webgpu", "webgpu"]),
        ("sosnet", {"width": 4}, "", ["webgpu", "webgpu"]),
        ("strided", {"width": 6, "dim": 20, "fovea": 2}, "", ["webgpu", "webgpu"]),
        ("strided", {"width": 6, "dim": 20, "fovea": 2}, "onDevice.batch = 16", ["webgpu", "webgpu"]),
        ("strided", {"width": 6, "dim": 20, "fovea": 2}, "onDevice.device.destroy()", ["webgpu", "relaxed"]),
        ("strided", {"width": 6, "dim": 20, "fovea": 2}, "onDevice.steps[0].blocks = 1e6", ["webgpu", "relaxed"]),
        ("hynet", {"width": 4, "input_norm": "standard", "extra": 1}, "", ["relaxed", "relaxed"]),
    ],
    ids=["hardnet", "sosnet", "strided", "batches", "lost device", "invalid command", "layers it lacks"],
)
def test_networks_with_webgpu_and_what_it_cannot_do(
    name: str,
    options: dict[str, Any],
    before: str,
    kinds: list[str],
    library: Path,
    open_page_with_gpu: Callable[..., Page],
) -> None:
    network = trained_looking(name, **options)
    with torch.no_grad():
        network.half().float()  # as weights are stored
    patches = smooth_patches(37, network.input_size).float() / 255
    given = [offline.pack_network(network), patches.flatten().tolist(), len(patches), before]
    used, found = open_page_with_gpu(library).evaluate(ON_DEVICE, given)
    assert used == kinds
    expected = network.describe(patches).numpy()
    assert np.abs(np.array(found).reshape(expected.shape) - expected).max() < 1e-4


def test_shader_that_does_not_compile_and_wrong_numbers(library: Path, open_page_with_gpu: Callable[..., Page]) -> None:
    """Drivers with faults: the page computes without them."""
    network = trained_looking("strided", width=6)
    patches = smooth_patches(2, network.input_size).float() / 255
    given = [offline.pack_network(network), patches.flatten().tolist(), len(patches), ""]
    for old, broken in (("vec4f(low));", "vec4f(low)) * 1.1 + 0.1;"), ("{ return; }", "{ x }")):
        page = open_page_with_gpu(library)
        page.evaluate(
            """([old, broken]) => {
                const own = GPUDevice.prototype.createShaderModule;
                GPUDevice.prototype.createShaderModule = function ({code}) {
                    if (!code.includes(old)) throw new Error("nothing to break");
                    return own.call(this, {code: code.replaceAll(old, broken)});
                };
            }""",
            [old, broken],
        )
        used, _ = page.evaluate(ON_DEVICE, given)
        assert used == ["relaxed", "relaxed"], (old, broken)


def test_time_beside_python(page_file: Path, open_page: Callable[..., Page], tmp_path: Path) -> None:
    """A megapixel and 1000 keypoints; in seconds, results/speed/page.json has it."""
    cv2.imwrite(str(tmp_path / "a.png"), texture(860, 1200, 1))
    cv2.imwrite(str(tmp_path / "b.png"), texture(860, 1200, 2))
    page = open_page(page_file)
    page.get_by_label("Keypoints per image as a number").fill("1000")
    took = []
    for _ in range(2):
        give(page, tmp_path / "a.png", tmp_path / "b.png")
        wait(page)
        seconds: dict[str, float] = page.evaluate("features.a.seconds")
        took.append(sum(seconds.values()))
        page.get_by_label("Remove first image").click()
        page.locator("#invitation").wait_for()
    model, started = load(MODEL, engine="float32"), time.perf_counter()
    extract(tmp_path / "a.png", model, max_keypoints=1000)
    assert min(took) < 8 * (time.perf_counter() - started)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hardnet", {"width": 4}),
        ("sosnet", {"width": 4}),
        ("l2net", {"width": 4, "learned_norm": True}),
        ("desdis", {"width": 4, "extra": 1}),
        ("strided", {"width": 6, "dim": 20, "fovea": 2}),
        ("hynet", {"width": 4, "input_norm": "standard", "extra": 1}),
        ("hynet", {"width": 4, "input_norm": "standard", "fovea": 3}),
    ],
)
def test_layers_of_other_networks(
    name: str, options: dict[str, Any], library: Path, open_page: Callable[..., Page]
) -> None:
    network = trained_looking(name, **options)
    with torch.no_grad():
        network.half().float()  # as weights are stored
    patches = smooth_patches(19, network.input_size).float() / 255
    page = open_page(library)
    script = """([model, kind, patches, count]) =>
        Array.from(new Network(new Kernels(kind), model).describe(Float32Array.from(patches), count))"""
    expected = network.describe(patches).numpy()
    for kind in ("simd", "javascript"):
        given = [offline.pack_network(network), kind, patches.flatten().tolist(), len(patches)]
        found = np.array(page.evaluate(script, given)).reshape(expected.shape)
        assert np.abs(found - expected).max() < 1e-4
    coarse = [offline.pack_network(network, bits=8), "simd", patches.flatten().tolist(), len(patches)]
    found = np.array(page.evaluate(script, coarse)).reshape(expected.shape)
    assert 1e-6 < np.abs(found - expected).max() < 0.05


def test_tuned_weights_and_networks_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from patchprint.networks import weights

    weights.save(trained_looking("strided", width=8), tmp_path / "mine.safetensors")
    out = tmp_path / "mine.html"
    assert cli.main(["export", str(tmp_path / "mine.safetensors"), "--out", str(out)]) == 0
    assert "mutual+ratio" in capsys.readouterr().out and out.stat().st_size < LARGEST
    for name, words in (
        ("patchprint", "the page would have"),
        ("patchprint.bits", "plain chains of layers with float descriptors only"),
    ):
        assert cli.main(["export", name, "--out", str(tmp_path / "no.html")]) == 2
        assert words in capsys.readouterr().err and not (tmp_path / "no.html").exists()
    assert (
        cli.main(["export", "tfeat", "--untrained", "--matcher", "x.safetensors", "--out", str(tmp_path / "no.onnx")])
        == 2
    )
    assert "--matcher belongs to pages" in capsys.readouterr().err
    with pytest.raises(UserError, match="plain chains of layers"):
        offline.pack_network(create("doap-st"))
    with pytest.raises(UserError, match="standardizes patches first"):
        offline.pack_network(create("hynet"))


def test_size_and_that_nothing_is_asked_for(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    assert page_file.stat().st_size <= LARGEST
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text) and "fetch(" not in text and "import(" not in text
    assert "default-src 'none'" in text and DESK > PHONE


def test_graph_matcher_with_its_weights(
    open_page: Callable[..., Page], real_pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a page whose weights are int8, since the network is larger; the keypoints' descriptors are those of the page."""
    out = tmp_path / "try.html"
    assert cli.main(["export", "patchprint.fast", "--out", str(out)]) == 0
    assert "mutual+ratio and graph" in capsys.readouterr().out and out.stat().st_size <= LARGEST
    page = open_page(out)
    page.get_by_label("Keypoints per image as a number").fill("500")
    page.get_by_label("Matcher").select_option("graph")
    give(page, *real_pair)
    wait(page)
    assert page.get_by_label("Ratio", exact=True).is_disabled()
    model, described = load("patchprint.fast"), []
    for side, path in zip("ab", real_pair, strict=True):
        points, descriptors = features_of(page, side)
        keypoints = Keypoints(points[:, :2], points[:, 2], points[:, 3], points[:, 4])
        exact = load("patchprint.fast", engine="float32").describe_keypoints(read_gray(path), keypoints)
        assert (exact * torch.from_numpy(descriptors)).sum(1).min() > 0.99
        described.append(Features(keypoints, torch.from_numpy(descriptors).float(), (800, 640), path, model.id))
    expected = match(*described, "graph")
    found = {
        tuple(pair): score
        for pair, score in page.evaluate("matches.pairs.map((pair, row) => [pair, matches.score[row]])")
    }
    theirs = {(i, j): score for (i, j), score in zip(expected.indices.tolist(), expected.score.tolist(), strict=True)}
    both = found.keys() & theirs.keys()
    assert len(theirs) > 100 and len(both) >= 0.99 * max(len(theirs), len(found))
    # Of neighbors at the same distance either may be taken.
    assert np.quantile([abs(found[pair] - theirs[pair]) for pair in both], 0.9) < 0.005
    words = page.locator("#command").inner_text()
    assert "--matcher graph" in words and "--ratio" not in words


@pytest.mark.parametrize("kind", ["relaxed", "javascript"])
@pytest.mark.parametrize("name", ["blobs", "texture", "turned"])
def test_conformance_corpus(name: str, kind: str, library: Path, open_page: Callable[..., Page]) -> None:
    conformance = pytest.importorskip("tools.conformance")
    if not conformance.FOLDER.is_dir():
        pytest.skip("docs/ is not in this copy of the repository")
    about = json.loads((conformance.FOLDER / "corpus.json").read_text())
    image, points, patches, descriptors = conformance.read_corpus(name)
    allowed, model = about["tolerances"], load(about["model"]["name"], engine="float32")
    frames = torch.cat([points.xy, torch.stack([points.scale, points.angle], 1)], 1)
    script = """([model, kind, pixels, width, height, count, frames]) => {
        const kernels = new Kernels(kind), network = new Network(kernels, model);
        const gray = Uint8Array.from(pixels), {size} = network;
        const found = findKeypoints(kernels, gray, width, height, count).map(({x, y, scale, angle}) => [x, y, scale, angle]);
        const levels = pyramid(gray, width, height), patches = new Float32Array(frames.length * size * size);
        frames.forEach(([x, y, scale, angle], row) =>
            samplePatch(levels, {x, y, scale, angle}, model.patch_scale, size, patches, row * size * size));
        return [found, Array.from(patches), Array.from(network.describe(patches, frames.length))];
    }"""
    height, width = image.shape
    most = about["detector"]["max_keypoints"]
    given = [offline.pack_network(model.network), kind, image.flatten().tolist(), width, height, most, frames.tolist()]
    found, cut, described = (torch.tensor(each) for each in open_page(library).evaluate(script, given))
    assert found.shape == frames.shape
    assert (found[:, :2] - points.xy).abs().max() < allowed["position"]
    assert (found[:, 2] / points.scale - 1).abs().max() < allowed["scale"]
    assert torch.sin(found[:, 3] - points.angle).abs().max() < allowed["angle"]
    assert (cut.view(patches.shape) - patches).abs().mean((1, 2, 3)).max() < allowed["patch"] / 10
    assert (described.view(descriptors.shape) - descriptors).abs().max() < allowed["descriptor"]
