"""A source of points that have views and scenes, but no pixels."""

import torch

from patchprint.data.patch_source import MinedLabels, PatchSource


class Points(PatchSource):
    """Points with ``num_views`` (N,) in one scene, or in those of ``scene`` (N,)."""

    is_resident = True

    def __init__(self, num_views, scene=None):
        num_views = torch.as_tensor(num_views)
        scene = torch.zeros(len(num_views), dtype=torch.int64) if scene is None else torch.as_tensor(scene)
        super().__init__(num_views, scene, None, patch_scale=12.0)

    @property
    def first_image(self):
        # Points of one photo are not numbered one after the other.
        return torch.arange(self.num_points) % 4

    def sample(self, points, views, size, warp=None):
        raise AssertionError("batches look at no pixel")


def ragged_points(points=200, scenes=4, most=9):
    """Points of 1 to ``most`` views in scenes of different size, with mined labels of six clusters."""
    generator = torch.Generator().manual_seed(0)
    num_views = torch.randint(1, most + 1, (points,), generator=generator)
    scene = (torch.arange(points).double().div(points).sqrt() * scenes).long()
    source = Points(num_views, scene)
    cluster = torch.randint(0, 6, (int(num_views.sum()),), generator=generator).to(torch.int16)
    far = torch.rand(scenes, 6, 6, generator=generator) > 0.5
    source.mined = MinedLabels(cluster, far | far.mT)
    return source
