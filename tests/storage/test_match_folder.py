"""Matches in shards are those of each pair alone; only what is missing is matched again."""

from pathlib import Path

import numpy as np
import pytest

from patchprint.common.errors import OtherInputsError
from patchprint.common.safe_io import read_npz
from patchprint.interop.ray_cluster import Cluster
from patchprint.matching.pair_selection import MatchRule, choose_pairs
from patchprint.storage import match_folder as folders
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.match_folder import MatchFolder, match_folder, read_matches
from support.made_features import descriptors, features

STORED = {f"{number}.png": features(descriptors(40, seed=number)) for number in range(4)}


def test_shards_are_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_FEWEST_SHARDS", 3)
    monkeypatch.setattr(folders, "_OPEN", 1)
    pairs = choose_pairs(STORED, "exhaustive")
    rule = MatchRule("mutual")
    found = match_folder(STORED, pairs, tmp_path / "m", rule)
    whole = {(a, b): rule(STORED[a], STORED[b]) for a, b in pairs}
    assert list(found) == pairs and len(found) == 6
    assert sorted(path.name for path in (tmp_path / "m").glob("*.npz")) == ["000000.npz", "000001.npz", "000002.npz"]
    for pair in reversed(pairs):
        assert found[pair].indices.equal(whole[pair].indices) and found[pair].distance.equal(whole[pair].distance)
    assert (tmp_path / "m" / "pairs.txt").read_text().startswith("0.png\t1.png\n0.png\t2.png\n")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "m").glob("*.npz")}
    (tmp_path / "m" / "000001.npz").unlink()
    assert match_folder(STORED, pairs, tmp_path / "m", rule).missing() == []
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "m").glob("*.npz")}
    assert {name for name in after if after[name] != before[name]} == {"000001.npz"}
    assert "points_0" in read_npz(tmp_path / "m" / "000001.npz", "matches")


def test_other_matches_are_refused_or_replaced(tmp_path: Path) -> None:
    pairs = choose_pairs(STORED, "exhaustive")
    match_folder(STORED, pairs, tmp_path / "m")
    with pytest.raises(OtherInputsError):
        match_folder(STORED, pairs[:2], tmp_path / "m")
    assert len(match_folder(STORED, pairs[:2], tmp_path / "m", disposable=True)) == 2
    assert len(match_folder(STORED, pairs, tmp_path / "m", force=True)) == 6
    (tmp_path / "m" / "000000.npz").write_bytes(b"no matches")
    with pytest.raises(ValueError, match=r"000000\.npz is not a file of matches"):
        MatchFolder(tmp_path / "m")[pairs[0]]


def test_a_cluster_needs_a_folder(tmp_path: Path, described: Path) -> None:
    with pytest.raises(ValueError, match="a folder of features"):
        match_folder(STORED, [], tmp_path / "m", cluster=Cluster())
    # Without pairs nobody is asked, so that Ray need not be there.
    assert len(match_folder(FeatureFolder(described), [], tmp_path / "m", cluster=Cluster())) == 0


def test_the_answer_of_earlier_versions_is_read(tmp_path: Path) -> None:
    """They said "different" where nothing was found."""
    match_folder(STORED, [("0.png", "1.png")], tmp_path / "m", MatchRule("mutual", geometry="homography"))
    path = tmp_path / "m" / "000000.npz"
    np.savez(path, **{**read_npz(path, "matches"), "verdict_0": np.array("different")})
    (found,) = read_matches(path).values()
    assert found.verdict is not None and found.verdict.answer == "unsure" and "cannot tell" in str(found.verdict)
