"""What a run writes, how it chooses weights, how it starts from others, and what it says when something is wrong."""

import json
import re

import numpy as np
import pytest
import torch

from patchprint.data import splits
from patchprint.networks import weights
from patchprint.training import resolve, train
from patchprint.training.run_folder import read_lines, read_metrics
from support import training_data
from support.benchmark_data import scores_of, write_store
from support.training_data import images, narrow, short_run
from support.ubc_sets import write_ubc


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "sdgm"
    outcome, losses = short_run("sdgmnet", folder, sec=0.1, log_every=5, tensorboard=True, average=0.9)
    return folder, outcome, losses


def test_run_folder_holds_everything(run):
    folder, outcome, _ = run
    config = json.loads((folder / "config.json").read_text())
    assert config["recipe"] == "sdgmnet"
    assert config["sec"] == 0.1
    assert outcome.best == folder / "best.safetensors"
    assert 0 <= outcome.measured["fpr95"] <= 1
    assert outcome.selected_on == "validation"
    assert len(list((folder / "checkpoints").iterdir())) == 2
    assert list(folder.glob("events.out.tfevents.*"))


def test_metrics_hold_loss_parts_statistics_and_speed(run):
    folder, _, _ = run
    lines = read_metrics(folder / "metrics.jsonl")
    logged = [line for line in lines if "loss/total" in line]
    assert [line["step"] for line in logged] == [5, 10, 15, 20, 25, 30]
    sdgm = [f"{name}{part}" for name in ("positive", "negative", "relative") for part in ("", "_std")]
    sdgm += ["power_positive", "power_negative"]
    wanted = {f"loss/{name}" for name in [*sdgm, "norm_penalty"]}
    wanted |= {"distance/positive", "distance/negative", "norm/mean", "norm/variance", "lr", "patches_per_second"}
    assert wanted <= set(logged[0])
    assert [line["step"] for line in lines if "validation/fpr95" in line] == [15, 30]


def test_what_people_look_at_is_recorded(run):
    folder, _, _ = run
    angles = read_lines(folder / "angles.jsonl", "angles")
    assert [line["step"] for line in angles] == [15, 30]
    batch = json.loads((folder / "config.json").read_text())["batch"]
    assert all(sum(line[name]) == batch for line in angles for name in ("positive", "negative"))
    (call,) = read_lines(folder / "calls.jsonl", "calls")
    assert (call["first_step"], call["last_step"]) == (0, 30) and call["seconds"] > 0 and call["peak_mib"] > 0


def test_weights_carry_recipe_and_config_and_are_the_average(run):
    folder, _, _ = run
    network = weights.load_network(folder / "last.safetensors")
    assert network.info.training.recipe == "sdgmnet"
    assert network.info.training.config["sec"] == 0.1
    assert network.info.patch_scale == 12.0
    from safetensors.torch import load_file

    saved = load_file(folder / "checkpoints" / "step-000000030.safetensors")
    name = [name for name, _ in network.named_parameters()][5]
    assert torch.equal(network.state_dict()[name], saved[f"average.{name}"])
    assert not torch.equal(saved[f"network.{name}"], saved[f"average.{name}"])


def test_starting_from_weights_with_frozen_layers(run, tmp_path):
    folder, _, _ = run
    start = weights.load_network(folder / "last.safetensors")
    changes = {"init": str(folder / "last.safetensors"), "freeze": ("layer1", "layer2"), "lr": 0.01, "steps": 3}
    outcome, _ = short_run("sdgmnet", tmp_path / "tuned", **changes)
    tuned = weights.load_network(outcome.last).state_dict()
    for name, value in start.state_dict().items():
        assert torch.equal(value, tuned[name]) == (name.startswith(("layer1", "layer2")) or name.endswith("eps")), name


def test_frozen_batch_norm_keeps_its_statistics_over_validations(tmp_path):
    short_run("hardnet", tmp_path / "one", steps=2)
    start = weights.load_network(tmp_path / "one" / "last.safetensors").state_dict()
    changes = {"init": str(tmp_path / "one" / "last.safetensors"), "freeze": ("features.0", "features.1")}
    outcome, _ = short_run("hardnet", tmp_path / "two", steps=4, validate_every=2, **changes)
    tuned = weights.load_network(outcome.last).state_dict()
    for name in ("features.0.weight", "features.1.running_mean", "features.1.running_var"):
        assert torch.equal(start[name], tuned[name]), name
    for name in ("features.10.running_mean", "features.12.weight"):
        assert not torch.equal(start[name], tuned[name]), name


def test_center_surround_starts_from_l2net_and_keeps_the_surround(tmp_path):
    short_run("l2net", tmp_path / "one", steps=2)
    start = weights.load_network(tmp_path / "one" / "last.safetensors").state_dict()
    options = {"width": 4, "dim": 64}
    outcome, _ = short_run(
        "l2net-cs", tmp_path / "two", steps=2, network_options=options, init=str(tmp_path / "one" / "last.safetensors")
    )
    both = weights.load_network(outcome.last).state_dict()
    assert torch.equal(both["surround.features.0.weight"], start["features.0.weight"])
    assert torch.equal(both["surround.features.1.running_mean"], start["features.1.running_mean"])
    assert not torch.equal(both["center.features.0.weight"], start["features.0.weight"])


def test_weights_say_the_patch_scale_they_were_trained_at(tmp_path):
    """Whatever the source: stored patches, images, or both."""
    write_store(tmp_path / "strips", points=40, patch_scale=10.0)
    images().save(tmp_path / "photos")
    changes = {**training_data.SHORT, "steps": 1, "network_options": narrow("hardnet")}
    for stores, asked, saved in (
        (["strips"], None, 10.0),
        (["photos"], None, 12.0),
        (["photos"], 24.0, 24.0),
        (["strips", "photos"], None, 10.0),
    ):
        data = tuple(str(tmp_path / name) for name in stores)
        config = resolve("hardnet", **changes, data=data, patch_scale=asked)
        outcome = train(config, out=tmp_path / "run", force=True)
        info = weights.read_info(outcome.last)
        assert (info.patch_scale, info.training.data) == (saved, ", ".join(stores)), (stores, asked)


def test_choosing_on_the_test_set_is_possible_and_says_so(tmp_path):
    """All points are learned from, the mean FPR95 over the official pairs of the sets chooses (D4 and D5 of the review)."""
    sets = [tmp_path / name for name in ("liberty", "yosemite")]
    for seed, folder in enumerate(sets):
        write_ubc(folder, seed=seed)
    source = images()
    source._part[:10] = splits.NEITHER
    assert source.split("train").num_points == 86
    flags = {"select_on_test": tuple(map(str, sets)), "batch": 120, "validate_every": 1, "steps": 6}
    outcome, _ = short_run("hardnet", tmp_path / "run", source, **flags)
    assert outcome.selected_on == "test"
    tested = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "test/fpr95" in line]
    assert [line["step"] for line in tested] == [1, 2, 3, 4, 5, 6]
    for line in tested:
        assert line["test/fpr95"] == pytest.approx((line["test/fpr95/liberty"] + line["test/fpr95/yosemite"]) / 2)
    best = min(tested, key=lambda line: line["test/fpr95"])
    assert outcome.best_step == best["step"]
    assert outcome.measured == {name.removeprefix("test/"): best[name] for name in best if name != "step"}
    for folder in sets:
        scored = scores_of("ubc", str(outcome.best), folder)
        assert scored["pair_list"] == "official"
        assert scored["fpr95"] / 100 == pytest.approx(outcome.measured[f"fpr95/{folder.name}"])


def test_the_published_test_part_of_the_training_data_is_never_learned_from(tmp_path):
    source = images()
    source._part[:24] = splits.TEST
    write_ubc(tmp_path / "test")
    for changes in ({}, {"hold_out": False}, {"select_on_test": (str(tmp_path / "test"),)}):
        most = 72 if not changes else 96
        with pytest.raises(ValueError, match=f"{most} points .* fewer than --batch 120"):
            short_run("hardnet", tmp_path / "run", source, batch=120, **changes)


def test_the_best_of_several_are_kept_with_their_mean_and_spread(tmp_path):
    outcome, _ = short_run("hardnet", tmp_path / "run", steps=6, validate_every=1, checkpoint_every=2, keep_best=3)
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    validated = [(sum(v for n, v in line.items() if n[:3] == "val"), line["step"]) for line in lines if len(line) == 3]
    assert len(validated) == 6
    assert [each.step for each in outcome.kept] == [step for _, step in sorted(validated)[:3]]
    assert outcome.best_step == outcome.kept[0].step and outcome.measured == outcome.kept[0].measured
    files = {path.name for path in (tmp_path / "run").glob("best-*")}
    assert files == {f"best-{each.step:09d}.safetensors" for each in outcome.kept}
    for each in outcome.kept:
        assert weights.read_info(tmp_path / "run" / f"best-{each.step:09d}.safetensors").training.step == each.step
    values = [each.measured["fpr95"] for each in outcome.kept]
    written = json.loads(json.dumps(outcome.to_json()))
    assert written["mean"]["fpr95"] == pytest.approx(np.mean(values))
    assert written["spread"]["fpr95"] == pytest.approx(np.std(values, ddof=1))
    assert [each["step"] for each in written["kept"]] == [each.step for each in outcome.kept]


def test_a_loss_that_is_not_a_number_stops_the_run_and_names_the_step(tmp_path):
    # Weight decay blows weights up.
    changes = {"lr": 1e7, "schedule": "constant", "checkpoint_every": 5, "log_every": 30}
    with pytest.raises(ValueError, match=r"infinite at step \d+; the last good checkpoint is .*step-\d+") as error:
        short_run("hardnet", tmp_path / "run", **changes)
    kept = sorted((tmp_path / "run" / "checkpoints").iterdir())
    from safetensors.torch import load_file

    bad_step, good_step = (int(n) for n in re.findall(r"step[ -](\d+)", str(error.value)))
    assert good_step < bad_step <= good_step + 5
    assert all(torch.isfinite(value).all() for value in load_file(kept[-1]).values())


def test_weights_that_do_not_fit(run, tmp_path):
    with pytest.raises(ValueError, match=r"--init .* do not fit hardnet"):
        short_run("hardnet", tmp_path / "run", init=str(run[0] / "last.safetensors"))


def test_weights_for_another_input(run, tmp_path):
    """Standardizing has no weights, so the files would fit; the first layer was trained for other values."""
    with pytest.raises(ValueError, match=r"trained with input_norm=frn, this network has standard; give .*=frn"):
        short_run("sdgmnet-standardized", tmp_path / "run", init=str(run[0] / "last.safetensors"))


def test_freezing_a_layer_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"--freeze conv9 fits no layer .* features\.0"):
        short_run("hardnet", tmp_path / "run", freeze=("conv9",))
