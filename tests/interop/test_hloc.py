"""Features and matches in the files of hloc."""

from pathlib import Path

import numpy as np
import pytest

from patchprint.interop import hloc
from patchprint.matching import match
from support.scenes import MatchedViews


def test_hloc_files_are_read_as_hloc_documents_them(matched_views: MatchedViews, tmp_path: Path) -> None:
    """Names, shapes and dtypes as hloc's own readers use them (get_keypoints, get_matches)."""
    import h5py

    _, features, matches = matched_views
    hloc.write_features(tmp_path / "features.h5", features.items())
    first, second = next(iter(matches))
    found = match(features[first], features[second])
    hloc.write_matches(tmp_path / "matches.h5", {(first, second): found}, {n: len(f) for n, f in features.items()})
    with h5py.File(tmp_path / "features.h5", "r", libver="latest") as store:
        dataset = store[first]["keypoints"]
        points = dataset.__array__()
        assert dataset.attrs.get("uncertainty") is None
        assert np.allclose(points, features[first].keypoints.xy)
        assert store[first]["descriptors"].shape == (128, len(points))
        assert store[first]["image_size"].__array__().tolist() == list(features[first].image_size)
    with h5py.File(tmp_path / "matches.h5", "r", libver="latest") as store:
        group = store["/".join((first.replace("/", "-"), second.replace("/", "-")))]
        target, scores = group["matches0"].__array__(), group["matching_scores0"].__array__()
        rows = np.where(target != -1)[0]
        assert np.array_equal(np.stack([rows, target[rows]], -1), found.indices)
        assert (scores[rows] > 0).all()
    assert np.array_equal(hloc.read_matches(tmp_path / "matches.h5", second, first)[:, ::-1], found.indices)
    back = dict(hloc.read_features(tmp_path / "features.h5"))
    assert back[first].model == features[first].model
    assert np.allclose(back[first].keypoints.frames(), features[first].keypoints.frames())
    (tmp_path / "bad.h5").write_bytes(b"no")
    with pytest.raises(ValueError, match="not an HDF5 file"):
        next(hloc.read_features(tmp_path / "bad.h5"))
