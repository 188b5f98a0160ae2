"""Whole images as a source: what is read, at which size, from where in the image; on disk and resident."""

import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.data import manifest, open_source, splits
from patchprint.data.image_store import GALLERY, QUERY, ImageStore, central_square
from support.image_sets import images_of_class, write_store


def write(folder, images, **changes):
    count = len(images)
    arguments = {
        "point": np.arange(count),
        "point_part": np.zeros(count, np.uint8),
        "point_label": np.arange(count),
        "class_names": [str(number) for number in range(count)],
        "names": [f"{number}.png" for number in range(count)],
    }
    ImageStore.write(folder, images, **(arguments | changes))
    return ImageStore.open(folder)


def gradient(height, width):
    """Red is the column, green the row."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y, np.zeros_like(x)], -1).astype(np.uint8)


def read(store, point, size, warp=None):
    pixels = store.sample(torch.tensor([point]), torch.tensor([[0]]), size, warp)
    return (pixels[0, 0] * 255).permute(1, 2, 0).numpy()


@pytest.mark.parametrize("shape", [(32, 32), (32, 42), (43, 32)])
def test_the_plain_patch_is_the_central_square(tmp_path, shape):
    image = gradient(*shape)
    store = write(tmp_path / "a", [image, gradient(50, 50)])
    top, left = (shape[0] - 32) / 2, (shape[1] - 32) / 2
    expected = np.stack([image[..., 0] * 0 + np.arange(shape[1]), image[..., 1]], -1)
    found = read(store, 0, 32)
    if top == int(top) and left == int(left):
        rows, columns = slice(int(top), int(top) + 32), slice(int(left), int(left) + 32)
        np.testing.assert_allclose(found[..., :2], expected[rows, columns], atol=1e-2)
    np.testing.assert_allclose(found[0, :, 0], np.arange(32) + left, atol=1e-2)
    np.testing.assert_allclose(found[:, 0, 1], np.arange(32) + top, atol=1e-2)


def test_a_warp_reads_beyond_the_square_and_repeats_the_border_of_the_image(tmp_path):
    store = write(tmp_path / "a", [gradient(32, 48), gradient(60, 60)])
    assert store.extent(torch.tensor([0]), torch.tensor([[0]])).tolist() == [[[1.5, 1.0]]]
    to_the_left = torch.tensor([[[[1.0, 0.0, -0.5], [0.0, 1.0, 0.0]]]])
    np.testing.assert_allclose(read(store, 0, 32, to_the_left)[5, :, 0], np.arange(32), atol=1e-2)
    too_far = torch.tensor([[[[1.0, 0.0, 3.0], [0.0, 1.0, 0.0]]]])
    np.testing.assert_allclose(read(store, 0, 32, too_far)[..., 0], 47, atol=1e-2)
    mirrored = torch.tensor([[[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]])
    np.testing.assert_allclose(read(store, 0, 32, mirrored), read(store, 0, 32)[:, ::-1], atol=1e-2)


def test_shrinking_averages_and_growing_interpolates(tmp_path):
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 200
    store = write(tmp_path / "a", [stripes, stripes])
    np.testing.assert_allclose(read(store, 0, 32), 100, atol=0.5)
    grown = read(write(tmp_path / "b", [gradient(16, 16)] * 2), 0, 32)
    np.testing.assert_allclose(grown[8, 1:-1, 0], np.arange(1, 31) / 2 - 0.25, atol=1e-2)


def test_parts_labels_roles_and_names(tmp_path):
    images = [gradient(8, 8)] * 6
    store = write(
        tmp_path / "a",
        images,
        point=np.array([2, 0, 1, 0, 1, 2]),
        point_part=np.array([splits.TRAIN, splits.TEST, splits.VAL], np.uint8),
        point_label=np.array([0, 0, 1]),
        class_names=["cat", "dog"],
        role=np.array([0, 0, QUERY, 0, GALLERY, 0], np.uint8),
    )
    assert store.num_views.tolist() == [2, 2, 2]
    assert store.observation(torch.tensor([0, 1, 2]), torch.tensor([[0, 1]] * 3)).tolist() == [[1, 3], [2, 4], [0, 5]]
    test = store.split("test")
    assert test.label.tolist() == [0]
    points, views = test.all_views()
    assert test.role[test.observation(points, views[:, None])[:, 0]].tolist() == [QUERY, GALLERY]
    assert store.split("train", "val").num_points == 2
    assert store.names[3] == "3.png"
    facts = manifest.read(tmp_path / "a")
    assert (facts["kind"], facts["train"], facts["val"], facts["test"]) == ("images", 1, 1, 1)


def test_on_disk_and_resident_are_the_same(tmp_path):
    write_store(tmp_path / "a")
    resident, on_disk = ImageStore.open(tmp_path / "a"), ImageStore.open(tmp_path / "a", max_resident_gb=0)
    assert resident.is_resident
    assert not on_disk.is_resident
    points, views = resident.all_views()
    one, other = (store.sample(points, views[:, None], 32) for store in (resident, on_disk))
    assert torch.equal(one, other)


def test_open_source_opens_it_alone(tmp_path):
    write_store(tmp_path / "a")
    assert open_source(tmp_path / "a").channels == 3
    with pytest.raises(UserError, match="alone"):
        open_source([tmp_path / "a", tmp_path / "a"])


def test_fewer_images_than_named_leave_nothing_behind(tmp_path):
    images = images_of_class(0, 3)
    with pytest.raises(UserError, match="names 4 images, but there are 3"):
        write(tmp_path / "a", images, point=np.arange(4), point_part=np.zeros(4, np.uint8), point_label=np.arange(4))
    assert list(tmp_path.iterdir()) == []


def test_a_class_without_images_is_named(tmp_path):
    with pytest.raises(UserError, match="class 1 has no images"):
        write(tmp_path / "a", images_of_class(0, 2), point=np.array([0, 0]))


@pytest.mark.parametrize("shape", [(32, 32), (32, 40), (45, 32)], ids=str)
def test_a_store_reads_the_same_square(tmp_path, shape):
    """Also where the square begins between two pixels."""
    images = images_of_class(3, 2, shape)
    store = write(tmp_path / "store", images)
    stored = store.sample(torch.arange(2), torch.zeros(2, 1, dtype=torch.int64), 32)[:, 0]
    torch.testing.assert_close(torch.stack([central_square(image, 32) for image in images]), stored)


def test_shrinking_smooths():
    """Stripes as fine as pixels become gray, whatever the factor; plain sampling would keep some of them."""
    stripes = np.zeros((90, 120, 3), np.uint8)
    stripes[:, ::2] = 255
    for size in (30, 40, 64):
        inner = central_square(stripes, size)[:, 2:-2, 2:-2]
        assert float(inner.std()) < 0.1
        assert float(inner.mean()) == pytest.approx(0.5, abs=0.02)
