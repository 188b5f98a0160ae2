"""Every engine agrees with the network, alone and in a batch, from several threads, and is refused where it cannot work."""

import functools
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint import networks
from patchprint.benchmarks import bundled
from patchprint.common.errors import UserError
from patchprint.data.builders.homographies import ImagePair
from patchprint.features import load
from patchprint.features.model import NetworkModel
from patchprint.networks import PatchNetwork, engines
from patchprint.networks.engines import Float32Engine, inference_copy, int8, multiplies_in_bfloat16
from patchprint.networks.network import CHUNK_ON_CPU
from patchprint.ops.distances import pair_distances
from support import children
from support.children import Ending
from support.full_disk import files_limited_to

# How far a component of a unit descriptor may be from the one in float32.
TOLERANCE = {"float32": 1e-6, "bfloat16": 1e-2, "int8": 0.1}
CPU = torch.device("cpu")
NETWORKS = ("hardnet", "sosnet", "hynet", "sdgmnet", "tfeat", "doap-st", "l2net-cs")


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(autouse=True)
def own_cache(exports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for these tests: a network, which is known there by its weights, is exported once."""
    monkeypatch.setenv("PATCHPRINT_CACHE", str(exports))


@functools.cache
def stereo_pair(keypoints: int) -> ImagePair:
    """Two images of scikit-image."""
    return bundled.stereo_pair(bundled.Settings(keypoints=keypoints))


def narrow(name: str) -> PatchNetwork:
    """A network with random weights and batch statistics that do something."""
    torch.manual_seed(0)
    network = networks.create(name) if name == "tfeat" else networks.create(name, width=8)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.5, 2.0)
    return network.eval()


def patches(network: PatchNetwork, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    size = (count, 1, network.input_size, network.input_size)
    return torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)


needs_openvino = pytest.mark.skipif("int8" not in engines.available(CPU), reason="needs OpenVINO")


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        *((name, engine) for name in NETWORKS for engine in ("float32", "bfloat16")),
        pytest.param("hynet", "int8", marks=needs_openvino),
    ],
)
def test_it_says_what_the_network_says(name: str, engine: str) -> None:
    network = narrow(name)
    model = NetworkModel(network, engine)
    given = patches(network, 70)
    found = model.describe_patches(given)
    assert (found - network.describe(given)).abs().max() <= TOLERANCE[engine]
    assert found.dtype == torch.float32
    assert model.describe_patches(given[:0]).shape == (0, model.dim)
    as_floats = model.describe_patches(given.float() / 255)
    assert (as_floats - found).abs().max() <= TOLERANCE[engine]


@pytest.mark.parametrize("engine", engines.available(CPU))
def test_patches_cut_on_the_way_are_described_as_others(engine: str) -> None:
    made = engines.create(narrow("hynet"), engine)
    given = patches(narrow("hynet"), 100)
    cuts = [lambda part=part: part for part in given.split(CHUNK_ON_CPU)]
    assert (made.describe_cut(cuts) - made.describe(given)).abs().max() <= (0 if engine == "float32" else 1e-2)


def test_what_is_cached_is_known_by_network_and_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path))
    network = narrow("hynet")
    assert int8.cached(network, "x", lambda: b"first") == b"first"
    assert int8.cached(network, "x", lambda: b"second") == b"first"
    assert int8.cached(narrow("hardnet"), "x", lambda: b"second") == b"second"
    assert int8.cached(network, "y", lambda: b"third") == b"third"
    monkeypatch.setattr(int8, "_code", lambda: "other layers")
    assert int8.cached(network, "x", lambda: b"fourth") == b"fourth"


def test_m2_m3_a_changed_or_cut_file_of_the_cache_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path))
    network, content = narrow("hynet"), bytes(range(200))
    int8.cached(network, "x", lambda: content)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    whole = file.read_bytes()
    for damaged in (b"", whole[:10], whole[:-1], whole + b"!", whole[:100] + b"?" + whole[101:], b"?" + whole[1:]):
        file.write_bytes(damaged)
        assert int8.cached(network, "x", lambda: content) == content
        assert file.read_bytes() == whole


def test_m3_on_a_full_disk_nothing_is_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path))
    for _ in range(2):
        with files_limited_to(1000):
            assert int8.cached(narrow("hynet"), "x", lambda: bytes(5000)) == bytes(5000)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@needs_openvino
def test_m2_m3_changed_bytes_do_not_reach_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path))
    network = narrow("tfeat")
    given = patches(network, 70)
    expected = engines.create(network, "int8").describe(given)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 1
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert torch.equal(engines.create(network, "int8").describe(given), expected)


@needs_openvino
def test_m3_without_a_place_for_the_cache_an_engine_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder can be made below a file, whoever asks")
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "file" / "cache"))
    network = narrow("tfeat")
    given = patches(network, 70)
    found = engines.create(network, "int8").describe(given)
    assert (found - network.describe(given)).abs().max() <= TOLERANCE["int8"]
    assert "the engine is not kept for the next time" in capfd.readouterr().err


@pytest.mark.parametrize("engine", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["hardnet", "sdgmnet"])
def test_a_patch_has_the_same_descriptor_alone_and_among_others(name: str, engine: str) -> None:
    model = NetworkModel(narrow(name), engine)
    given = patches(model.network, 131)
    together = model.describe_patches(given)
    for count in (1, 2, 3, 64, 65):
        difference = (model.describe_patches(given[-count:]) - together[-count:]).abs().max()
        assert difference <= (0 if engine == "float32" else 1e-2), count


def test_bits_are_nearly_the_same() -> None:
    network = networks.create("doap", width=8, dim=64, kind="binary").eval()
    given = patches(network, 64)
    exact, fast = (NetworkModel(network, engine).describe_patches(given) for engine in ("float32", "bfloat16"))
    assert pair_distances(exact, fast).mean() < 2  # of 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "keypoints", "tolerance"),
    # The smallest network is rounded most, and the average precision of few matches shows each that changes.
    [
        ("patchprint", 400, 0.002),
        ("sosnet", 200, 0.002),
        ("patchprint.tiny", 2000, 0.002),
        ("patchprint.bits", 400, 0.005),
    ],
)
def test_matching_is_as_good_as_in_float32(model: str, keypoints: int, tolerance: float) -> None:
    """On two images of scikit-image; results/engines has the same of all Oxford sequences."""
    pair = stereo_pair(keypoints)

    def describe(engine: str) -> list[Tensor]:
        loaded = load(model, engine=engine)
        return [loaded.describe_keypoints(i, k) for i, k in zip(pair.images, pair.keypoints, strict=True)]

    def quality(*descriptors: Tensor) -> float:
        made = iter(descriptors)
        return bundled.matching(SimpleNamespace(describe_keypoints=lambda *_: next(made)), pair)["ap"]  # type: ignore[arg-type]

    exact = describe("float32")
    expected = quality(*exact)
    for engine in set(engines.available(CPU)) - {"float32"}:
        allowed = max(tolerance, 0.005) if engine == "int8" else tolerance
        found = describe(engine)
        assert quality(*found) == pytest.approx(expected, abs=allowed), engine
        assert quality(exact[0], found[1]) == pytest.approx(expected, abs=allowed), f"float32 against {engine}"


def test_all_cores_work_and_pytorch_keeps_its_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        names: set[str] = set()
        meet = threading.Barrier(3, timeout=30)
        network = narrow("hardnet")
        alone = network.raw(patches(network, 200))
        computing = network.forward_features

        def forward_features(given: Tensor, with_maps: bool) -> tuple[Tensor, object]:
            if len(names) < 3:
                names.add(threading.current_thread().name)
                meet.wait()  # passes only when three threads are here at once
            assert torch.get_num_threads() == 1
            return computing(given, with_maps)

        monkeypatch.setattr(network, "forward_features", forward_features)
        found = engines.create(network, "float32").raw(patches(network, 200))
        assert len(names) == 3
        assert torch.equal(found, alone)
        assert torch.get_num_threads() == 3
        seen: list[int] = []
        later = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        later.start()
        later.join()
        assert seen == [3]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("engine", engines.available(CPU))
def test_wrong_patches_are_one_sentence(engine: str) -> None:
    with pytest.raises(UserError, match="must have shape"):
        NetworkModel(narrow("hardnet"), engine).describe_patches(torch.zeros(3, 32, 32))


def test_bfloat16_is_left_alone_where_pytorch_may_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not multiplies_in_bfloat16()


def test_a_learning_network_is_described_as_it_is_now() -> None:
    network = narrow("hardnet").train()
    model = load(network)
    assert model.engine == "float32"
    given = patches(network, 4)
    first = model.describe_patches(given)
    assert network.training
    with torch.no_grad():
        next(network.parameters()).mul_(-1)
    assert not torch.equal(model.describe_patches(given), first)


def test_a_copy_for_use_leaves_the_network_alone() -> None:
    network = narrow("hardnet")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    copied = inference_copy(network)
    assert sum(isinstance(module, torch.nn.BatchNorm2d) for module in copied.modules()) == 1
    assert copied.in_evaluation() is copied, "no chunk of patches makes another copy"
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_auto_depends_on_the_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATCHPRINT_ENGINE", raising=False)
    for has_openvino in (True, False):
        monkeypatch.setattr(engines, "is_installed", lambda name, has=has_openvino: has)
        for has_bfloat16, name in ((True, "bfloat16"), (False, "float32")):
            monkeypatch.setattr(engines, "multiplies_in_bfloat16", lambda has=has_bfloat16: has)
            assert engines.unprepared(torch.device("cpu")) == name
            assert engines.chosen(torch.device("cpu")) == ("int8" if has_openvino else name)
    monkeypatch.setenv("PATCHPRINT_ENGINE", "bfloat16")
    assert engines.chosen(torch.device("cpu")) == "bfloat16"
    for has_bfloat16, name in ((True, "cuda"), (False, "float32")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda has=has_bfloat16, **_: has)
        assert engines.chosen(torch.device("cuda")) == name
    assert engines.chosen(torch.device("mps")) == "float32"
    monkeypatch.setenv("PATCHPRINT_ENGINE", "slow")
    with pytest.raises(UserError, match="there is no engine 'slow'"):
        engines.chosen(torch.device("cpu"))


def test_wrong_engines_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="there is no engine 'float23'; did you mean float32"):
        load("hardnet", engine="float23")
    with pytest.raises(UserError, match="the engine bfloat16 computes on cpu, and the model is on cuda"):
        engines.check("bfloat16", torch.device("cuda"))
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)
    with pytest.raises(UserError, match="patchprint\\[fast\\]"):
        load("hardnet", engine="int8")


@needs_openvino
def test_a_network_is_prepared_once_on_a_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path))
    monkeypatch.delenv("PATCHPRINT_ENGINE", raising=False)
    network = narrow("hardnet")
    given = patches(network, 70)
    first = engines.create(network)
    assert first.name == "int8" and "preparing hardnet in 8 bits" in capfd.readouterr().err
    second = engines.create(narrow("hardnet"))
    assert torch.equal(second.describe(given), first.describe(given))
    assert "preparing" not in capfd.readouterr().err
    monkeypatch.setenv("PATCHPRINT_ENGINE", "float32")
    assert engines.create(network).name == "float32"


@needs_openvino
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_can_be_prepared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "_CALIBRATION_PATCHES", 64)
    monkeypatch.setattr(int8, "_LEAST_AGREEMENT", 0.9)  # weights are random
    network = narrow(name)
    given = patches(network, 20)
    found = F.normalize(engines.create(network, "int8").raw(given), dim=1)
    assert (found * F.normalize(network.raw(given), dim=1)).sum(1).mean() > 0.9


@needs_openvino
def test_a_network_that_loses_too_much_in_8_bits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = narrow("hardnet")
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path))  # what was rounded before is not looked at again
    monkeypatch.setattr(int8, "_LEAST_AGREEMENT", 1.1)
    with pytest.raises(UserError, match=r"hardnet loses too much: .*; take the engine float32"):
        engines.create(network, "int8")
    monkeypatch.delenv("PATCHPRINT_ENGINE", raising=False)
    assert engines.create(network).name == engines.unprepared(torch.device("cpu"))


@needs_openvino
def test_a_forked_child_computes() -> None:
    """As a worker of multiprocessing: it has none of the threads with which its parent computed."""
    network = narrow("hardnet")
    model, given = NetworkModel(network, "int8"), patches(network, 70)
    model.describe_patches(given)
    expected = network.describe(given)

    def describe_again() -> None:
        signal.alarm(30)  # ends a child that waits for ever
        assert (model.describe_patches(given) - expected).abs().max() < 1e-6

    assert children.run(describe_again) == Ending("done")


CTRL_C = """
import gc, os, signal, threading, time, torch
from patchprint.features import load
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test that runs in the background inherits that it is ignored
patches = torch.rand(8, 1, 32, 32)
models = [load("patchprint.tiny", engine="int8") for _ in range(2)]
for model in models:
    model.describe_patches(patches)
while models:
    models.pop(0)
    model = None
    gc.collect()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("stopped by Ctrl-C")
"""


@pytest.mark.slow
@needs_openvino
def test_ctrl_c_after_openvino_is_no_crash() -> None:
    """OpenVINO gives the thread a stack for its signals, which must not be gone while the process lives."""
    done = subprocess.run([sys.executable, "-c", CTRL_C], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "stopped by Ctrl-C"), done.stderr[-500:]


def test_convolutions_off_the_cpu_keep_all_bits(monkeypatch):
    network = networks.create("hardnet", width=4, dim=32).eval()
    engine, seen = Float32Engine(network), []
    patches = torch.rand(2, 1, 32, 32)

    def raw(given):
        seen.append(torch.backends.cudnn.allow_tf32)
        return given

    monkeypatch.setattr(network, "raw", raw)
    monkeypatch.setattr(network, "parameters", lambda: iter([torch.empty(0, device="meta")]))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    engine.raw(patches)
    assert seen == [False]
    assert torch.backends.cudnn.allow_tf32
