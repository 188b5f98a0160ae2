"""Which photos COLMAP matches with each other."""

import cv2

from patchprint.interop import colmap_sift
from patchprint.interop.colmap_models import pycolmap
from support.small_sfm import wall


def test_retrieval_pairs_images_that_look_alike(tmp_path):
    """Two walls, three images of each."""
    (tmp_path / "images").mkdir()
    for name, seed in (("a", 0), ("b", 1)):
        image = wall(seed)
        for number in range(3):
            cv2.imwrite(str(tmp_path / "images" / f"{name}{number}.png"), image[number * 20 :, number * 20 :])
    database = tmp_path / "database.db"
    options = pycolmap.FeatureExtractionOptions(use_gpu=False)
    pycolmap.extract_features(database, tmp_path / "images", extraction_options=options, device=pycolmap.Device.cpu)
    pairs = colmap_sift.similar_pairs(database, neighbors=2)
    assert {(f"{side}{i}.png", f"{side}{j}.png") for side in "ab" for i, j in ((0, 1), (0, 2), (1, 2))} < set(pairs)
    colmap_sift.match_images(database, "retrieval")
    with pycolmap.Database.open(database) as store:
        assert store.num_matched_image_pairs() == 15, "with 20 neighbors, six images are all matched"
