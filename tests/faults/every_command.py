"""Every command, engine and optional package with tiny inputs, in one process and the folder where it is started.

A program of its own, for audits of what is done outside of Python, too. Prints a line for each that was used.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import torch

from patchprint import cli, networks
from patchprint.cli import study
from patchprint.common.errors import require
from patchprint.data import track_files
from patchprint.data.builders import homographies
from patchprint.interop.images import encode_image
from patchprint.networks import engines, weights
from support.known_images import texture, write_textures
from support.scenes import THREE_VIEWS, write_sequence
from support.toy_studies import toy_study

OPTIONAL = (
    "cv2", "faiss", "fastapi", "fsspec", "h5py", "kornia", "matplotlib.pyplot", "onnx", "onnxruntime", "onnxscript", "openvino",
    "pycolmap", "pytorch_metric_learning", "skimage.data", "sklearn", "torch.utils.tensorboard", "tyro", "uvicorn",
)  # fmt: skip
FEW = "--model rootsift --max-keypoints 400"
COMMANDS = (
    "models",
    "data build homographies photos store --views 3 --max-keypoints 100",
    "data info store",
    "train hardnet --data store --out run --steps 2 --batch 8 --set validation_pairs=8 --device cpu --network-options width=4",
    "calibrate start.safetensors --data photos --views 1",
    "adapt photos --model start.safetensors --work work --out tuned.safetensors --steps 1 --batch 8 --device cpu",
    "eval oxford --model pixels --data sequences --out oxford.json",
    "eval bundled --model pixels --max-keypoints 50 --out bundled.json",
    "study toy --data train=store --data test=store --out study --only hardnet-plain-* --seeds 0 --device cpu --set steps=2",
    f"describe views --out features {FEW}",
    f"describe views --out features.h5 --format hloc {FEW}",
    f"describe views --out views.db --format colmap {FEW}",
    f"describe views --out views.yml --format opencv-yml {FEW}",
    f"describe photos --out cluster --engine ray {FEW}",
    "match features --out matches.npz --out matches.db",
    f"match views/view-0.png views/view-1.png --out pair.png --out pair.csv {FEW}",
    f"sfm views --out model {FEW} --single-camera",
    "localize views/view-1.png model",
    "export start.safetensors --out start.onnx",
    "bench --data photos --megapixels 0.03 --max-keypoints 20 --rounds 1 --models hardnet.small --device cpu --stages latency",
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
    write_sequence(Path("sequences/one"), images=2)
    weights.save(narrow(), Path("start.safetensors"))
    images, tracks = homographies.make_tracks([texture(400, 400)], num_views=7, seed=0, max_keypoints=600)
    names = track_files.Names([f"{number}.png" for number in range(len(images))], ["made"])
    track_files.write(Path("work/tracks"), map(encode_image, images), tracks, names)
    study.STUDIES = {"toy": toy_study()}  # type: ignore[assignment]
    study.COMMANDS = {"toy": study._command("toy")}


def narrow() -> networks.PatchNetwork:
    torch.manual_seed(0)
    return networks.create("hardnet", width=8).eval()


def serve() -> None:
    """Started, asked for its page, and stopped."""
    command = [sys.executable, "-m", "patchprint", "serve", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        address = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
        page = urllib.request.urlopen(address, timeout=60).read()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert b"<html" in page.lower()


if __name__ == "__main__":
    main()
