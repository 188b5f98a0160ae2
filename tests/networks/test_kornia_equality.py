"""HardNet, SOSNet, HyNet and TFeat: same state-dict keys and same descriptors as in kornia."""

import pytest
import torch
from torch.nn import functional as F

from patchprint.networks.weights import load_network
from support.network_patches import smooth_patches, trained_looking

kornia = pytest.importorskip("kornia.feature")

PEERS = {"hardnet": kornia.HardNet, "sosnet": kornia.SOSNet, "hynet": kornia.HyNet, "tfeat": kornia.TFeat}


@pytest.mark.parametrize("name", PEERS)
def test_weights_are_the_same_here_and_in_kornia(name):
    torch.manual_seed(5)
    ours, peer = trained_looking(name, seed=9), PEERS[name](pretrained=False).eval()
    ours.load_state_dict(peer.state_dict(), strict=True)
    assert_same_descriptors(ours, peer)
    peer.load_state_dict(trained_looking(name).state_dict(), strict=True)
    assert_same_descriptors(trained_looking(name), peer)


def test_the_published_tfeat_file_gives_kornias_descriptors_on_an_image(shared):
    file = shared("peers/tfeat-liberty.params")
    image = torch.from_numpy(pytest.importorskip("skimage.data").camera())
    patches = image.unfold(0, 32, 32).unfold(1, 32, 32).reshape(-1, 1, 32, 32)
    peer = kornia.TFeat(pretrained=False).eval()
    peer.load_state_dict(torch.load(file, map_location="cpu", weights_only=True), strict=True)
    ours = load_network(file)
    assert ours.info.name == "tfeat.liberty"
    assert_same_descriptors(ours, peer, patches)


@torch.no_grad()
def assert_same_descriptors(ours, peer, patches=None):
    for uint8 in (
        (smooth_patches(8), torch.randint(0, 256, (4, 1, 32, 32), dtype=torch.uint8)) if patches is None else (patches,)
    ):
        expected = F.normalize(peer(uint8.float() / 255), dim=1)
        assert (ours(uint8) - expected).abs().max() < 1e-5
