"""torch.hub loads networks from a copy of the repository in which patchprint is not installed."""

import subprocess
import sys

import pytest
import torch

import patchprint
from support.checkout import ROOT, environment

pytestmark = pytest.mark.skipif(not (ROOT / "hubconf.py").is_file(), reason="hubconf.py is not in this copy")


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_entry_points_give_what_load_gives() -> None:
    network = torch.hub.load(str(ROOT), "network", "patchprint.tiny", source="local")
    size = network.info.input_size
    patches = torch.rand(3, 1, size, size)
    expected = patchprint.load("patchprint.tiny", engine="float32").describe_patches(patches)
    with torch.no_grad():
        assert torch.equal(network(patches), expected)
    descriptor = torch.hub.load(str(ROOT), "descriptor", "patchprint.tiny", source="local")
    lafs = torch.tensor([[[[12.0, 0.0, 50.0], [0.0, 12.0, 50.0]]]])
    assert descriptor(torch.rand(1, 1, 100, 100), lafs).shape == (1, 1, 128)


def test_the_copy_itself_is_imported() -> None:
    script = (
        f"import torch; torch.hub.load({str(ROOT)!r}, 'network', 'patchprint.tiny', source='local')\n"
        "import patchprint; print(patchprint.__file__)"
    )
    variables = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, cwd="/")
    assert done.stdout.strip() == str(ROOT / "src" / "patchprint" / "__init__.py"), done.stderr
