"""The declared studies: each expands into runs that a recipe knows, shows scores in a table, and has the papers' numbers."""

from pathlib import Path

import pytest

from patchprint.common.errors import UserError
from patchprint.common.table import Table
from patchprint.data import TrackStore
from patchprint.data.builders.homographies import make_tracks
from patchprint.data.builders.hpatches_sequences import RADIUS
from patchprint.studies import STUDIES, Case, Options, run_study
from patchprint.studies._figures import StudyDrawing
from patchprint.studies._learners import learner_of
from patchprint.studies._results import Row, RunRecord, blocks
from patchprint.studies.hynet import largest_slope
from patchprint.studies.sec import LOSSES
from patchprint.training import RECIPES, resolve
from patchprint.training.config import differences
from support import image_sets
from support.benchmark_data import write_store
from support.known_images import texture
from support.slowness import slow_but
from support.toy_studies import reduced

EVERY_STUDY = pytest.mark.parametrize("name", STUDIES)


@EVERY_STUDY
def test_its_runs_are_those_of_a_recipe(name: str) -> None:
    for case in STUDIES[name].cases:
        config = learner_of(case.recipe).config(case.recipe, data=("x",), **case.settings)
        assert config.recipe == case.recipe


@EVERY_STUDY
def test_its_measures_are_benchmarks_or_probes(name: str) -> None:
    study = STUDIES[name]
    for measure in study.measures.values():
        learner_of(study.cases[0].recipe).check(measure)


@EVERY_STUDY
def test_its_tables_and_figures_name_what_there_is(name: str) -> None:
    study = STUDIES[name]
    rows = [Row(case, tuple(RunRecord("run", seed) for seed in study.seeds)) for case in study.cases]
    tables = "".join(each.to_markdown() for each in blocks(study, rows, []) if isinstance(each, Table))
    for case in study.cases:
        assert all(
            f"({case.published[c.title]:.{c.digits}f})" in tables for c in study.columns if c.title in case.published
        )
        assert all(f"({value:+.2f})" in tables for value in case.published_gain.values())
    assert StudyDrawing(study, rows).svg().startswith("<svg")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Small data for every study: patches with 16 views and mined labels, and whole images (True) of the same classes in
    training and test."""
    folder = tmp_path_factory.mktemp("sets")
    write_store(folder / "patches", scenes=3, points=12, views=16, size=64, mine_labels=True)
    images = image_sets.write_store(folder / "images", classes=32, count=4, size=(32, 32), same_classes=True)
    return {False: folder / "patches", True: images}


OF_PATCHES = [name for name in STUDIES if name != "matcher"]


@pytest.mark.parametrize("name", slow_but(("hynet-gradients", "sdgmnet-weights", "l2net-sampling"), OF_PATCHES))
def test_it_runs_from_end_to_end(name: str, sets: dict[bool, Path], tmp_path: Path) -> None:
    study = reduced(STUDIES[name])
    of_images = any(RECIPES[case.recipe].config.network == "embedding" for case in study.cases)
    network = {"backbone": "resnet18-narrow", "dim": 16, "input_size": 32} if of_images else {"width": 4}
    # DOAP counts patches, and takes whole groups of 16.
    batch = 32 if name.startswith("doap") else 8
    changes = {"network_options": network, "init": None, "steps": 7, "batch": batch, "validation_pairs": 32}
    given = Options(
        data=dict.fromkeys(study.data, (sets[of_images],)),
        out=tmp_path / name,
        budget=1e-6,
        changes={**changes, "precision": "float32", "acceleration": "eager"} if study.cases else {},
        device="cpu",
    )
    report = run_study(name, study, given)
    assert report.failed == 0, report.table
    for row in report.result["scores"]["rows"]:
        (run,) = row["runs"]
        assert run["config"]["steps"] == 7
        for title, column in row["columns"].items():
            if not title.startswith((row["labels"].get("trained on", "liberty"), "P+ / P-")):
                assert column["mean"] is not None, (row["labels"], title)
    assert (tmp_path / name / f"{name}.svg").is_file()


def test_rows_of_a_loss_have_one_rate_but_for_multi_similarity() -> None:
    rates: dict[tuple[str, ...], set[float]] = {}
    for each in STUDIES["metric-losses"].cases:
        config = resolve(each.recipe, data=("x",), **each.settings)
        rates.setdefault(tuple(each.labels.values())[:2], set()).add(config.lr)
        assert config.weight_decay == 2.5e-3
    assert {labels for labels, found in rates.items() if len(found) > 1} == {
        ("cub", "multi-similarity"), ("cars", "multi-similarity"),
    }  # fmt: skip
    plain = case("metric-losses", "cub", "multi-similarity", "plain").settings
    assert plain["lr"] == resolve("metric-lite0").lr / 5
    assert plain["network_options"] == {"feature_norm": False}
    with_norm = case("metric-losses", "cub", "multi-similarity", "plain, settings of SEC").settings
    sec = case("metric-losses", "cub", "multi-similarity", "SEC").settings
    assert {**with_norm, "sec": sec["sec"]} == sec


def case(name: str, *labels: str) -> Case:
    (found,) = (case for case in STUDIES[name].cases if tuple(case.labels.values()) == labels)
    return found


PRINTED_MEANS = {
    "TFeat": 6.64, "L2-Net": 2.22, "HardNet": 1.51, "CDF": 1.18, "SOSNet": 1.03, "HyNet": 0.84, "HardNet+FRN": 1.04,
    "SDGMNet": 0.76,
}  # fmt: skip


@pytest.mark.parametrize(("method", "mean"), PRINTED_MEANS.items())
def test_table_1_has_the_printed_means(method: str, mean: float) -> None:
    """Where a number stood in another row or column, the mean of six would hardly come out."""
    rows = [case("sdgmnet-table1", method, learned).published for learned in ("liberty", "notredame", "yosemite")]
    assert sum(row["mean FPR95 %"] for row in rows) / 3 == pytest.approx(mean, abs=0.0085)
    assert rows[0].keys() == {"notredame FPR95 %", "yosemite FPR95 %", "mean FPR95 %"}


def test_methods_are_compared_on_equal_terms() -> None:
    """Equal steps, patches in a step, and patch scale in training and test."""
    configs = {c.labels["method"]: resolve(c.recipe, data=("x",), **c.settings) for c in STUDIES["comparison"].cases}
    assert {config.batch * config.views for config in configs.values()} == {2048}
    assert {config.steps for config in configs.values()} == {4000}
    assert {config.patch_scale for config in configs.values()} == {2 * RADIUS}
    tried = STUDIES["comparison-rates"].cases
    for method, config in configs.items():
        rates = {c.settings["lr"]: c.settings for c in tried if c.recipe == method}
        assert rates[config.lr] == case("comparison", method, "liberty").settings


def test_center_surround_starts_from_the_tower_of_its_set() -> None:
    for both in (each for each in STUDIES["l2net-table1"].cases if each.recipe == "l2net-cs"):
        tower = STUDIES["l2net-table1"].case(both.starts_from or "")
        assert (tower.learns, tower.recipe) == (both.learns, "l2net")
        assert tower.settings == both.settings
        assert both.labels["method"] == f"CS {tower.labels['method']}"


def test_margins_of_hynet_are_equal_in_units_of_the_largest_slope() -> None:
    assert largest_slope(2.0) == pytest.approx(2.7358, abs=1e-4)
    assert largest_slope(1.0) == pytest.approx(1.7602, abs=1e-4)
    assert case("hynet-alpha", "2").settings["loss_settings"]["margin"] == pytest.approx(1.2)
    assert case("hynet-alpha", "0").settings["loss_settings"]["margin"] == pytest.approx(1.2 / 2.7358, abs=1e-4)


def test_metric_losses_have_the_papers_batches_and_weights() -> None:
    settings = {tuple(case.labels.values()): case.settings for case in STUDIES["metric-losses"].cases}
    assert settings["cars", "semihard", "SEC"] == {"loss": "semihard", "views": 3, "batch": 40, "sec": 0.5}
    assert settings["cars", "n-pair", "L2 penalty"] == {
        "loss": "n-pair", "views": 2, "batch": 60, "norm_penalty": 0.005,
    }  # fmt: skip
    assert settings["cub", "n-pair", "L2 penalty"]["norm_penalty"] == 1e-4
    assert settings["cub", "triplet", "SEC"]["sec"] == 1
    sizes = {labels[1]: values["views"] * values["batch"] for labels, values in settings.items()}
    assert sizes == dict.fromkeys(LOSSES, 120) | {"tuplet-margin": 128}


def test_the_weight_of_sec_is_chosen_on_classes_that_are_not_learned() -> None:
    study = STUDIES["metric-sec-weight"]
    assert {measure.settings["split"] for measure in study.measures.values()} == {"val"}
    assert all(each.settings["hold_out"] for each in study.cases)
    weights = [float(c.labels["eta"]) for c in study.cases if list(c.labels.values())[:2] == ["cars", "semihard"]]
    assert weights == [0, 0.01, 0.03, 0.1, 0.3, 1]


def test_the_ablation_has_eight_bars_and_two_lines_on_three_sets() -> None:
    cases = STUDIES["sdgmnet-ablation"].cases
    settings = {(c.labels["self weight"], c.labels["power"]): (c.recipe, c.settings["loss_settings"]) for c in cases}
    assert len(cases) == 3 * 10
    assert settings["&l2", "-PA"] == ("sdgmnet", {"self_weight": "l2", "power_adjustment": False})
    assert settings["&AF", "+PA"] == ("sdgmnet", {"self_weight": "auto-focus", "power_adjustment": True})
    assert settings["HardNet+FRN", "none"] == ("hardnet-frn", {})
    assert case("sdgmnet-ablation", "&s", "+PA", "notredame").selects_on == ("liberty", "yosemite")


def test_losses_differ_from_hynets_norms_in_the_norm_alone() -> None:
    one, other = (case("hynet-frn", "HardNet", norm) for norm in ("BN", "FRN"))
    first, second = (resolve(each.recipe, data=("x",), **each.settings) for each in (one, other))
    assert differences(first, second) == ["network"]
    assert [c.recipe for c in STUDIES["hynet-alpha"].cases][-2:] == ["hardnet", "sosnet"]


def test_batch_sizes_of_doap_have_equal_epochs() -> None:
    sizes = [c.settings["batch"] for c in STUDIES["doap-batch"].cases]
    assert sizes == [256, 512, 1024, 2048, 4096]
    assert {c.settings["batch"] * c.settings["steps"] for c in STUDIES["doap-batch"].cases} == {44_000 * 1024}


@pytest.fixture(scope="module")
def textures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images and copies of them."""
    folder = tmp_path_factory.mktemp("textures") / "store"
    images, tracks = make_tracks([texture(150, 150, seed) for seed in range(4)], num_views=1, seed=0, max_keypoints=100)
    TrackStore.from_images(images, tracks).save(folder)
    return folder


@pytest.mark.parametrize("only", slow_but(("as-shipped*",), ("as-shipped*", "*")))
def test_the_study_of_the_matcher_runs_from_end_to_end(
    only: str, textures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))
    changes = {"steps": 4, "batch": 2, "model": "rootsift", "max_keypoints": 100, "validate_every": 4}
    given = Options(
        data={"train": (textures,), "test": (textures,)},
        out=tmp_path / "out",
        only=only,
        changes={**changes, "network": {"width": 8}},
        device="cpu",
    )
    report = run_study("matcher", STUDIES["matcher"], given)
    assert report.failed == 0, report.table
    run = report.result["scores"]["rows"][0]["runs"][0]
    measured = run["measured"]["test"]
    assert measured["scores"]["mutual+ratio"]["warped"] > 10, "right matches"
    assert measured["headline"]["right, warped"] == measured["scores"]["graph"]["warped"]
    assert run["config"]["network_options"] == {"width": 8}
    again = run_study("matcher", STUDIES["matcher"], given)
    assert again.result["scores"]["rows"][0]["runs"][0] == run, "what is done is not done again"


def test_a_setting_that_no_matcher_has_is_named(textures: Path, tmp_path: Path) -> None:
    given = Options(
        data={"train": (textures,), "test": (textures,)}, out=tmp_path / "out", changes={"network": {"candidate": 3}}
    )
    with pytest.raises(UserError, match="has no option 'candidate'; did you mean"):
        run_study("matcher", STUDIES["matcher"], given)
