"""What every source of patches can do, whatever it is made of."""

import pytest
import torch

from patchprint.data.patch_source import MinedLabels, PatchSource


class Numbers(PatchSource):
    """Patches that are filled with the number of their observation."""

    is_resident = True

    def __init__(self, part):
        num_views = torch.tensor([2, 3, 2, 4])
        super().__init__(num_views, torch.tensor([0, 0, 1, 1]), part, patch_scale=10.0)

    def sample(self, points, views, size, warp=None):
        return self.observation(points, views)[..., None, None, None].float().expand(-1, -1, 1, size, size)


def first_views(source):
    points = torch.arange(source.num_points)
    return source.sample(points, torch.zeros(len(points), 1, dtype=torch.int64), 1).flatten().tolist()


@pytest.mark.parametrize("chosen", [torch.tensor([3, 1]), torch.tensor([False, True, False, True])])
def test_selected_points_keep_their_patches_and_the_source_stays_whole(chosen):
    source = Numbers(None)
    some = source.select(chosen)
    order = chosen if chosen.dtype == torch.int64 else chosen.nonzero()[:, 0]
    assert some.num_views.tolist() == source.num_views[order].tolist()
    assert first_views(some) == [first_views(source)[i] for i in order]
    assert (source.num_points, some.patch_scale) == (4, 10.0)
    assert first_views(some.select(torch.tensor([1]))) == [first_views(source)[order[1]]]


def test_split_by_the_part_of_each_point():
    source = Numbers(torch.tensor([0, 1, 2, 0], dtype=torch.uint8))
    assert source.split("train").scene.tolist() == [0, 1]
    assert source.split("val").num_views.tolist() == [3]
    with pytest.raises(ValueError, match="not 'exam'"):
        source.split("exam")
    with pytest.raises(ValueError, match="carry no split"):
        Numbers(None).split("train")


def test_all_but_the_test_part_is_learnable():
    source = Numbers(torch.tensor([3, 1, 2, 0], dtype=torch.uint8))
    assert first_views(source.learnable()) == first_views(source)[1:]
    assert Numbers(None).learnable().num_points == 4


def test_moving_takes_everything_along():
    source = Numbers(None)
    source.mined = MinedLabels(torch.zeros(11, dtype=torch.int16), torch.zeros(2, 3, 3, dtype=torch.bool))
    moved = source.to("meta")
    assert moved.device.type == moved.scene.device.type == moved._start.device.type == "meta"
    assert moved.mined.cluster.device.type == "meta"
    assert source.device.type == source.mined.cluster.device.type == "cpu"
