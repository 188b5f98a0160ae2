"""What importing patchprint may touch, tested in processes of their own."""

import subprocess
import sys

import pytest

OPTIONAL = (
    "cv2", "PIL", "kornia", "pycolmap", "sklearn", "skimage", "scipy", "faiss", "h5py", "onnx", "onnxruntime",
    "matplotlib", "tyro", "pytorch_metric_learning", "tensorboard", "fastapi",
)  # fmt: skip
CORE = ("networks", "networks.weights", "losses", "metrics", "training", "training.loop", "training.recipes", "data")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light_and_opens_no_socket() -> None:
    out = run(
        "import socket, sys\n"
        "def refuse(*a, **k): raise AssertionError('a socket was opened')\n"
        "socket.socket.connect = refuse; socket.getaddrinfo = refuse\n"
        "import patchprint\n"
        f"print([m for m in {OPTIONAL!r} if m in sys.modules], patchprint.networks.create('tfeat', width=4).dim)\n"
    )
    assert out.strip() == "[] 128"


def test_the_core_imports_with_everything_else_blocked_whichever_part_comes_first() -> None:
    """Each part in a fork of one process, so that torch is imported once; at last every module."""
    run(
        "import os, sys, importlib, pkgutil, torch\n"
        f"for name in {OPTIONAL!r}: sys.modules[name] = None\n"
        f"for module in {CORE!r}:\n"
        "    child = os.fork()\n"
        "    if not child: importlib.import_module('patchprint.' + module); os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0, module\n"
        "for part in ('networks', 'losses', 'metrics', 'training', 'data'):\n"
        "    package = importlib.import_module('patchprint.' + part)\n"
        "    for info in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        # The kernel needs Triton, which only PyTorch's GPU builds bring; nothing imports it elsewhere.
        "        unwanted = '.builders' in info.name or '.metric_learning' in info.name\n"
        "        if not unwanted and not info.name.endswith(('__main__', '_kernel')):\n"
        "            importlib.import_module(info.name)\n"
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    import patchprint

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = patchprint.nothing  # type: ignore[attr-defined]
