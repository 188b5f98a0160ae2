"""The lease, on a CPU with toy data: packed here, run where few packages are, killed in the middle, unpacked here."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchprint.common.safe_io import read_json
from patchprint.interop.images import encode_image
from patchprint.networks import weights
from perf.lease import gpu, warped
from support import image_sets, known_images, training_data

ROOT = Path(__file__).resolve().parents[2]
STORES = ("liberty", "notredame", "radcliffe", "allsouls", "christchurch", "sequences")
# What the GPU machine does not have.
ABSENT = (
    "tyro", "kornia", "faiss", "pycolmap", "cv2", "matplotlib", "skimage", "jinja2", "h5py", "sklearn",
    "pytorch_metric_learning",
)  # fmt: skip
TOY = {"network_options": {"width": 4}, "steps": 60, "batch": 32, "checkpoint_every": 5, "precision": "float32"}
LIST = [
    {"study": "doap-bins", "only": ["5-*", "10-*"], "changes": TOY, "keep": True},
    {
        "study": "doap-mining", "only": ["doap-st-also-mined-seed0"], "changes": {**TOY, "steps": 3},
        "data": {"train": "warped-sequences", "hpatches": "warped-sequences"},
    },
    {
        "study": "metric-large", "only": ["plain-*"],
        "changes": {**TOY, "steps": 3, "batch": 4, "init": None, "acceleration": "eager",
                    "network_options": {"backbone": "resnet18-narrow", "dim": 8, "input_size": 32}},
    },
]  # fmt: skip


def write_zip(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(16):
            for place, image in enumerate(image_sets.images_of_class(number, 4)):
                archive.writestr(f"class{number:02}/{place}.webp", encode_image(image, ".webp"))


@pytest.fixture
def lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder with toy data, the list of runs, and a stand-in for the packages that are absent there."""
    for name in STORES:
        training_data.images(scenes=3).save(tmp_path / "here/data" / name)
    for source in gpu._IMAGES.values():
        write_zip(tmp_path / "shared" / source)
    (tmp_path / "shared/photos/toy").mkdir(parents=True)
    known_images.write_textures(tmp_path / "shared/photos/toy/images", 2, 200, 240)
    (tmp_path / "list.json").write_text(json.dumps(LIST))
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({ABSENT}))\n")
    monkeypatch.setattr(gpu, "_BACKBONE", "json")  # a small package
    monkeypatch.setattr(warped, "PLACES", {"toy": 2})
    yield tmp_path
    process = gpu._process(tmp_path / "there")
    if process is not None:
        os.kill(process, signal.SIGKILL)


def call(lease: Path, command: str, **flags: object) -> None:
    """A command of `gpu` here."""
    given = {"list": lease / "list.json", "work": lease / "here", "shared": lease / "shared", **flags}
    getattr(gpu, command)(argparse.Namespace(**given))


def run_there(lease: Path, seconds: float, *flags: str) -> str:
    """``run`` as on the GPU machine."""
    words = {"list": "list.json", "work": "there", "out": "out", "carried": "here"}
    command = [word for name, value in words.items() for word in (f"--{name}", str(lease / value))]
    path = os.pathsep.join([str(lease / "absent"), str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "perf.lease.gpu", "run", *command, "--seconds", str(seconds), "--interval", "1", *flags],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip


@pytest.mark.slow
def test_a_lease_loses_nothing(lease: Path) -> None:
    call(lease, "pack")
    run_there(lease, 1, "--jobs", "2")
    process = gpu._process(lease / "there")
    assert process is not None, "it works on between two calls"
    runs = lease / "there/out/doap-bins/runs"
    while len(list(runs.glob("*/checkpoints/*"))) < 2:
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    said = run_there(lease, 300, "--jobs", "2", "--last")
    assert "doap-bins: 2 of 2" in said and "metric-large: 1 of 1" in said and "doap-mining: 1 of 1" in said
    back = {path.name: path.stat().st_size for path in (lease / "out").iterdir()}
    assert len(back) <= 8 and max(back.values()) <= 16 << 20
    call(lease, "unpack", folder=lease / "out", results=lease / "results")
    table = read_json(lease / "results/studies/doap-bins/doap-bins.json", "a result")
    done = [run for row in table["scores"]["rows"] for run in row["runs"] if "error" not in run]
    assert [run["name"] for run in done] == ["5-seed0", "10-seed0"]
    assert any(run["outcome"]["steps"] == 60 for run in done)
    assert (lease / "results/metric-learning/metric-large/metric-large.md").is_file()
    kept = weights.load_network(lease / "here/out/doap-bins/weights/5-seed0.safetensors")
    assert kept.info.training.step == 60
