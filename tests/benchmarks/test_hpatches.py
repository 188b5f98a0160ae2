"""The three tasks on made data with 16 views of a point, with drawn and with released task files."""

import json
from pathlib import Path

import numpy as np
import pytest

from patchprint.benchmarks import BENCHMARKS, PredictionCache, hpatches, measure
from support.benchmark_data import run_of, scores_of, write_store
from support.fake_models import BinaryPixels, ConstantModel, CountingPixels

TASKS = ("verification", "matching", "retrieval")


def test_a_good_model_scores_high_and_a_constant_one_chance(hpatches_store: Path) -> None:
    good = scores_of("hpatches", CountingPixels(), hpatches_store)
    chance = scores_of("hpatches", ConstantModel(), hpatches_store)
    for task in TASKS:
        assert good[task]["map"]["matlab"] > 0.9
        assert chance[task]["map"]["matlab"] < 0.35
    # A fifth as many positives as negatives, in any order: a sixth is right. One in 24 neighbours is right by chance.
    assert chance["verification"]["easy"]["inter"]["matlab"] == pytest.approx(1 / 6, abs=0.02)
    assert chance["verification"]["easy"]["inter"]["balanced_roc_auc"] == 0.5
    assert chance["matching"]["map"]["matlab"] == pytest.approx(1 / 24, abs=0.12)
    assert good["counts"] == {"sequences": 3, "points": 72, "positives": 720, "queries": 24, "distractors": 48}


def test_definitions_and_levels_are_kept_apart(hpatches_store: Path) -> None:
    scores = scores_of("hpatches", BinaryPixels(), hpatches_store)
    for task in TASKS:
        easy, tough = scores[task]["easy"], scores[task]["tough"]
        assert scores[task]["easy_minus_tough"]["python"] == pytest.approx(easy["python"] - tough["python"])
        levels = [scores[task][level]["matlab"] for level in ("easy", "hard", "tough")]
        assert scores[task]["map"]["matlab"] == pytest.approx(np.mean(levels))
    assert set(scores["matching"]["easy"]) == {"matlab", "python", "illum", "view"}
    assert scores["published_split"] is None
    for kind in ("illum", "view"):
        levels = [scores["matching"][level][kind]["python"] for level in ("easy", "hard", "tough")]
        assert scores["matching"][kind]["python"] == pytest.approx(np.mean(levels))


def test_one_sequence_has_no_retrieval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store(tmp_path / "one", scenes=1, points=24, views=16, size=32)
    result = measure(run_of("hpatches", CountingPixels(), tmp_path / "one"))
    assert "retrieval" not in result.scores and set(result.scores["matching"]["map"]) == {"matlab", "python"}
    assert "no retrieval" in capsys.readouterr().err
    assert "retrieval" not in BENCHMARKS["hpatches"]().headline(result.scores)


def test_official_ties_are_those_of_the_released_scripts(hpatches_store: Path) -> None:
    """Their stable sort decides for constant descriptors: last in verification, first patch in matching, first in retrieval."""
    scores = scores_of("hpatches", ConstantModel(), hpatches_store, ties="official")
    verification = scores["verification"]["easy"]["inter"]
    assert verification["balanced_roc_auc"] == 0.0
    assert verification["matlab"] == pytest.approx(np.mean([k / (720 + k) for k in range(1, 145)]))
    assert scores["retrieval"]["map"]["python"] == 1.0
    # Every patch finds the first of 24; only for the first itself, which ranks first, that is right.
    assert scores["matching"]["map"]["matlab"] == pytest.approx(1 / 24)
    distinct = [scores_of("hpatches", CountingPixels(), hpatches_store, ties=ties) for ties in ("official", "fair")]
    assert distinct[0] == distinct[1], "without ties there is nothing to decide"


def test_published_numbers_stand_beside_the_published_sequences_only() -> None:
    benchmark = BENCHMARKS["hpatches"]()
    shown = [
        benchmark.published({"scores": {"published_split": split}, "settings": {"tasks": tasks}})
        for split, tasks in ((None, None), ("a", None), ("a", "tasks"))
    ]
    assert shown[0] == {}
    assert shown[1]["HardNet+"] == {"matching": 0.5276}, "other lists than the released ones were drawn"
    assert set(shown[2]["HardNet+"]) == {"verification", "matching", "retrieval"}


def test_splits_choose_sequences(hpatches_store: Path, tmp_path: Path) -> None:
    cache = PredictionCache(tmp_path)
    scores = scores_of("hpatches", CountingPixels(), hpatches_store, cache=cache, split="illum")
    assert scores["counts"]["sequences"] == 2
    with pytest.raises(ValueError, match="split 'a' is empty"):
        scores_of("hpatches", CountingPixels(), hpatches_store, split="a")
    names = ["i_ajuntament", "i_dc", "v_busstop", "v_graffiti", "graf"]
    assert hpatches.test_sequences("a", names) == ["i_ajuntament", "v_busstop"]
    assert hpatches.test_sequences("c", names) == ["i_dc", "v_busstop", "v_graffiti"]
    assert hpatches.test_sequences("full", names) == names


def test_data_of_another_benchmark_is_refused(tmp_path: Path) -> None:
    write_store(tmp_path / "ubc", views=4)
    with pytest.raises(ValueError, match="is not HPatches data"):
        scores_of("hpatches", CountingPixels(), tmp_path / "ubc")
    strips = tmp_path / "released" / "i_dome"
    strips.mkdir(parents=True)
    (strips / "ref.png").write_bytes(b"")
    with pytest.raises(ValueError, match="patchprint data build hpatches"):
        scores_of("hpatches", CountingPixels(), tmp_path / "released")


def test_drawn_tasks_are_what_they_claim() -> None:
    sizes = [5, 9, 1]
    tasks = hpatches.draw_tasks(sizes, [np.full(size, 20.0) for size in sizes], seed=1)
    pos, intra, inter = tasks.positives, tasks.intra, tasks.inter
    assert len(pos) == len(intra) == len(inter) == 150
    assert (pos[:, [0, 2]] == pos[:, [3, 5]]).all()
    for rows in (pos, intra, inter):
        assert (rows[:, 1] != rows[:, 4]).all(), "both patches lie in one image"
    assert (intra[:, 0] == intra[:, 3]).all()
    assert (intra[:, 2] != intra[:, 5]).all()
    assert (inter[:, 0] != inter[:, 3]).all()
    for rows in (pos, intra, inter):
        assert (rows[:, 2] < np.array(sizes)[rows[:, 0]]).all()
        assert (rows[:, 5] < np.array(sizes)[rows[:, 3]]).all()
        assert set(rows[:, [1, 4]].ravel()) <= set(range(5))
    both = {tuple(row) for row in tasks.queries} & {tuple(row) for row in tasks.distractors}
    assert not both
    flat = hpatches.draw_tasks([4], [np.array([0.0, 20.0, 30.0, 40.0])], seed=1)
    assert [0, 0] not in np.concatenate([flat.queries, flat.distractors]).tolist()


def test_sequences_are_drawn_before_patches() -> None:
    """A sequence with nine times the patches takes part as often as the others, and its patches come late in the lists."""
    sizes = [1000, 1000, 9000]
    tasks = hpatches.draw_tasks(sizes, [np.full(size, 20.0) for size in sizes], seed=1)
    for column in (tasks.positives[:, 0], tasks.intra[:, 0], tasks.inter[:, 0], tasks.inter[:, 3]):
        np.testing.assert_allclose(np.bincount(column) / len(column), 1 / 3, atol=0.01)
    np.testing.assert_allclose(np.bincount(tasks.queries[:300, 0]) / 300, 1 / 3, atol=0.1)
    assert len(np.unique(np.concatenate([tasks.queries, tasks.distractors]), axis=0)) == 11_000


def write_tasks(folder: Path, sequence: str = "i_0") -> None:
    folder.mkdir(exist_ok=True)
    pairs = {"pos": (sequence, 1), "neg_intra": (sequence, 2), "neg_inter": ("v_1", 1)}
    for name, (other, patch) in pairs.items():
        lines = [f"{sequence},0,1,{other},{t},{patch}" for t in (1, 2, 3, 4)]
        (folder / f"verif_{name}_split-full.csv").write_text("s1,t1,idx1,s2,t2,idx2\n" + "\n".join(lines) + "\n")
    (folder / "retr_queries_split-full.csv").write_text(f"s,idx\n{sequence},3\n")
    (folder / "retr_distractors_split-full.csv").write_text(f"s,idx\nv_1,0\nv_1,1\n{sequence},4\n")


def test_released_task_files_are_read(hpatches_store: Path, tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks")
    result = measure(run_of("hpatches", CountingPixels(), hpatches_store, tasks=tmp_path / "tasks")).to_json()
    assert json.loads(json.dumps(result, allow_nan=False))["settings"]["tasks"] == str(tmp_path / "tasks")
    scores = result["scores"]
    assert scores["counts"]["positives"] == 4
    assert scores["counts"]["distractors"] == 3
    assert scores["verification"]["map"]["matlab"] == 1.0
    assert scores["retrieval"]["map"]["matlab"] == 1.0


def test_wrong_task_files_are_named(hpatches_store: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"verif_pos_split-full\.csv is missing"):
        scores_of("hpatches", CountingPixels(), hpatches_store, tasks=tmp_path)
    write_tasks(tmp_path, sequence="i_unknown")
    with pytest.raises(ValueError, match="names the sequence 'i_unknown'"):
        scores_of("hpatches", CountingPixels(), hpatches_store, tasks=tmp_path)
    write_tasks(tmp_path)
    (tmp_path / "retr_queries_split-full.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="starts with 'a,b'"):
        scores_of("hpatches", CountingPixels(), hpatches_store, tasks=tmp_path)


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ("i_0,0,-1,i_0,1,1", "idx1 -1, names a patch"),
        ("i_0,0,1,i_0,1,-1", "idx2 -1, names a patch"),
        ("i_0,-1,1,i_0,1,1", "t1 -1, names an image that is none of 0"),
        ("i_0,0,1,i_0,1,99", "idx2 99, names a patch"),
        ("i_0,0,1,i_0,6,1", "t2 6, names an image that is none of 0"),
        ("i_0,0,1,i_0,1", "is damaged"),
        ("i_0,0,one,i_0,1,1", "is damaged"),
    ],
)
def test_lines_that_cannot_be_are_named(hpatches_store: Path, tmp_path: Path, cells: str, complaint: str) -> None:
    """Negative numbers would read patches from the end, images beyond the fifth those of the next level."""
    write_tasks(tmp_path)
    file = tmp_path / "verif_neg_intra_split-full.csv"
    file.write_text(file.read_text() + f"\n{cells}\n")  # after a header, four lines and an empty one
    with pytest.raises(ValueError, match=rf"line 7 of .*verif_neg_intra_split-full\.csv.* {complaint}"):
        scores_of("hpatches", CountingPixels(), hpatches_store, tasks=tmp_path)
