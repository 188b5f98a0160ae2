"""``patchprint train``: flags, files, suggestions, exit codes, what is printed."""

import dataclasses
import json
import re

import pytest

from patchprint.cli import main
from patchprint.cli.train import FLAGS
from patchprint.data import open_source
from patchprint.training import RECIPES, TrainConfig, resolve
from patchprint.training.recipes import RunFile
from support import labeled_sets
from support.slowness import slow_but

pytestmark = pytest.mark.usefixtures("small_calibration")
SHIPPED = [name for name in RECIPES if name.endswith("-shipped")]


@pytest.fixture
def config_of(monkeypatch, capsys):
    """The config that a command line stands for, without training by it."""

    def read(*arguments):
        seen = []

        def stop(config, source, *, out, **_):
            seen.extend((config, out))
            raise OSError("enough seen")

        monkeypatch.setattr("patchprint.pipelines.training_run.run_training", stop)
        assert main(["train", *arguments]) == 1, capsys.readouterr().err
        return tuple(seen)

    return read


SMALL = ["--steps", "2", "--batch", "8", "--network-options", "width=4", "dim=16", "--device", "cpu"]


def test_trains_and_prints_the_outcome(training_store, tmp_path, capsys):
    run = tmp_path / "run"
    flags = ["--sec", "0.5", "--lr", "0.1", "--loss-settings", "margin=0.5", "--freeze", "features.0", "--json"]
    assert main(["train", "hardnet", "--data", training_store, "--out", str(run), *SMALL, *flags]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["steps"] == 2
    config = json.loads((run / "config.json").read_text())
    assert config["loss_settings"] == {"margin": 0.5}
    assert config["network_options"] == {"dropout": 0.3, "width": 4, "dim": 16}
    assert (config["sec"], config["lr"], config["freeze"]) == (0.5, 0.1, ["features.0"])
    assert main(["train", "hardnet", "--data", training_store, "--out", str(run), *SMALL, *flags, "--resume"]) == 0
    assert main(["train", "hardnet", "--out", str(run), "--resume"]) == 0, "the settings of the run are in its folder"
    assert main(["train", "hardnet", "--out", str(run), "--resume", "--lr", "2"]) == 2, "and are not changed on the way"
    capsys.readouterr()
    assert main(["train", "--out", str(run), "--steps", "3", "--resume", "--json"]) == 0, "its recipe is known too"
    assert json.loads(capsys.readouterr().out)["steps"] == 3
    assert json.loads((run / "config.json").read_text()) == {**config, "steps": 3}
    assert main(["train", "--resume", "--out", str(run), "--steps", "2"]) == 2
    _is_one_sentence(capsys, "was made with steps 3, not 2")


def test_resuming_needs_a_run(tmp_path, capsys):
    assert main(["train", "--out", str(tmp_path), "--resume"]) == 2
    _is_one_sentence(capsys, "holds no run to resume")
    assert main(["train", "hardnet", "--out", str(tmp_path), "--resume"]) == 2
    _is_one_sentence(capsys, "holds no run to resume")
    (tmp_path / "config.json").write_text("{}")
    assert main(["train", "--out", str(tmp_path), "--resume"]) == 2
    _is_one_sentence(capsys, "names no recipe")


@pytest.mark.parametrize("recipe", slow_but({"patchprint-shipped"}, SHIPPED))
def test_shipped_recipes_start_from_the_command_line_alone(recipe, training_store, tmp_path):
    flags = ["--steps", "3", "--batch", "16", "--network-options", "width=4", "--device", "cpu"]
    if resolve(recipe).batcher == "neighbors":
        flags += ["--batcher-options", "run=4"]
    assert main(["train", recipe, "--data", training_store, "--out", str(tmp_path / "run"), *flags]) == 0
    assert (tmp_path / "run" / "best.safetensors").is_file()


# A word for each kind of value; all differ from what the recipe hardnet says.
GIVEN = {
    "network": ("sosnet", "sosnet"), "loss": ("sosnet", "sosnet"), "batcher": ("neighbors", "neighbors"),
    "augmentation": ("wide", "wide"), "network_options": ("dim=64", {"dropout": 0.3, "dim": 64}),
    "loss_settings": ("margin=0.5", {"margin": 0.5}), "batcher_options": ("run=8", {"run": 8}),
    "optimizer": ("adam", "adam"), "schedule": ("cosine", "cosine"), "precision": ("float64", "float64"),
    "acceleration": ("eager", "eager"), "average": ("0.25", 0.25), "sec_momentum": ("0.25", 0.25),
    "warm_up": ("0.25", 0.25),
}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(TrainConfig) if field.name != "recipe"])
def test_every_setting_can_be_given(name, config_of):
    before, spelled = resolve("hardnet"), {"select_on_test": "select-on-test-as-the-papers-did"}
    flag = "--" + spelled.get(name, name.replace("_", "-"))
    value = getattr(before, name)
    arguments = ["--batcher", "neighbors"] if name == "batcher_options" else []
    if name == "loss_weight":
        arguments = ["--teacher", "sdgmnet"]
    words, expected = GIVEN.get(name) or (
        (json.dumps(not value), not value) if isinstance(value, bool) else
        ("7", type(value)(7)) if isinstance(value, int | float) else
        ("7.5", 7.5) if name in ("patch_scale", "first_drop") else
        ("here", ("here",)) if isinstance(value, tuple) else ("here", "here")
    )  # fmt: skip
    if name not in FLAGS:
        text = json.dumps(expected) if isinstance(value, tuple) else words
        arguments += ["--set", f"{name}={text}"]
    elif isinstance(value, bool):
        arguments += [flag]
    else:
        arguments += [flag, words]
    data = [] if name == "data" else ["--data", "somewhere"]
    config, _ = config_of("hardnet", *data, *arguments)
    assert getattr(config, name) == expected != value


def test_the_help_of_a_recipe_is_short_and_the_rest_is_listed(capsys):
    assert main(["train", "hardnet", "--help"]) == 0
    assert len(re.findall(r"^[│|] --", capsys.readouterr().out, re.MULTILINE)) <= 35
    assert main(["train", "--help"]) == 0
    assert "patchprint train --list" in capsys.readouterr().out
    assert main(["train", "--list"]) == 0
    listed = {line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()}
    assert {*RECIPES, *(field.name for field in dataclasses.fields(TrainConfig))} - {"recipe"} <= listed


def test_flags_win_over_the_file_and_the_file_over_the_recipe(tmp_path, config_of):
    path, recipe = tmp_path / "run.json", resolve("hardnet")
    written = {"recipe": "hardnet", "lr": 3, "steps": 77, "data": ["a", "b"], "out": "there", "separate_views": False}
    path.write_text(json.dumps(written | {"network_options": {"width": 8, "dim": 64}, "patch_scale": 24.0}))
    config, out = config_of("hardnet", "--config", str(path))
    assert (config.lr, config.steps, config.data, str(out)) == (3.0, 77, ("a", "b"), "there")
    assert config.batch == recipe.batch and not config.separate_views
    flags = f"--lr {recipe.lr} --set separate_views=true --patch-scale None --data c --data d e".split()
    options = ["--network-options", "width=16", "--network-options", "dropout=0"]
    config, out = config_of("hardnet", "--config", str(path), *flags, *options, "--out", "here")
    assert (config.lr, config.separate_views, config.patch_scale) == (recipe.lr, True, None), "equal to the recipe's"
    assert (config.steps, config.data, str(out)) == (77, ("c", "d", "e"), "here")
    assert config.network_options == {"dropout": 0, "width": 16, "dim": 64}


def test_settings_may_be_toml(tmp_path, config_of, capsys):
    (tmp_path / "run.toml").write_text('lr = 3\ndata = ["a"]\nteacher = ["sdgmnet"]\n')
    config, _ = config_of("hardnet", "--config", str(tmp_path / "run.toml"))
    assert (config.lr, config.data, config.teacher) == (3.0, ("a",), ("sdgmnet",))
    capsys.readouterr()
    (tmp_path / "run.toml").write_text("lr 3")
    assert main(["train", "hardnet", "--config", str(tmp_path / "run.toml")]) == 2
    _is_one_sentence(capsys, "run.toml is not TOML")


def test_config_of_a_finished_run_repeats_it(training_store, tmp_path):
    flags = ["--network", "tfeat", "--loss", "sdgm", "--loss-settings", "margin=0.5", "--set", "tensorboard=false"]
    small = ["--steps", "2", "--batch", "8", "--network-options", "width=4", "--batcher", "neighbors"]
    first, again = tmp_path / "first", tmp_path / "again"
    run = ["train", "sdgmnet", "--data", training_store, "--out", str(first)]
    assert main([*run, *flags, *small, "--batcher-options", "run=4"]) == 0
    assert main(["train", "sdgmnet", "--config", str(first / "config.json"), "--out", str(again)]) == 0
    assert (first / "config.json").read_text() == (again / "config.json").read_text()
    written = json.loads((first / "config.json").read_text())
    assert resolve("sdgmnet", RunFile.read(first / "config.json")).to_json() == written


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hardnet", "--data", "STORE", "--network", "hardnt"], "there is no network 'hardnt'; did you mean hardnet"),
        (["hardnet", "--data", "STORE", "--loss", "sgdm"], "there is no loss 'sgdm'; did you mean sdgm"),
        (["hardnet", "--data", "STORE", "--batcher", "pair"], "there is no batcher 'pair'; did you mean pairs"),
        (["hardnet", "--data", "STORE", "--network", "width=4"], "give --network-options width=4"),
        (["hardnet", "--data", "STORE", "--loss", "margin=4"], "give --loss-settings margin=4"),
        (["hardnet", "--data", "STORE", "--network-options", "wide=4"], "did you mean width"),
        (["hardnet", "--data", "STORE", "--network", "tfeat", "--network-options", "dropout=0"], "no option 'dropout'"),
        (["hardnet", "--data", "STORE", "--loss-settings", "marg=1"], "did you mean margin"),
        (["hardnet", "--data", "STORE", "--batcher-options", "run=8"], "batcher 'pairs' has no option 'run'"),
        (["hardnet", "--data", "STORE", "--schedule", "cubic"], "cubic"),
        (["hardnet", "--data", "STORE", "--set", "momentun=1"], "no setting 'momentun'; did you mean momentum"),
        (["hardnet", "--data", "STORE", "--set", "momentum=much"], "--set: momentum is 'much'"),
        (["hardnet", "--data", "STORE", "--device", "abacus"], "abacus"),
        (["hardnet", "--data", "STORE", "--batch", "100000"], "fewer than --batch 100000; give --batch 32"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(arguments, words, training_store, tmp_path, capsys):
    arguments = [training_store if word == "STORE" else word for word in arguments]
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 2
    _is_one_sentence(capsys, words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"recipe": "hynet", "data": ["x"]}', "is of the recipe hynet, not hardnet"),
        ('{"stepz": 3}', "run.json has no setting 'stepz'; did you mean steps"),
        ('{"steps": "many"}', "run.json: steps is 'many'"),
        ('{"network": "hardnt"}', "did you mean hardnet"),
        ('{"network_options": {"wide": 4}}', "did you mean width"),
        ('{"out": 3}', "out is 3"),
        ("[]", "holds no JSON object"),
    ],
)
def test_wrong_files_are_one_sentence_and_exit_code_2(text, words, tmp_path, capsys):
    (tmp_path / "run.json").write_text(text)
    assert main(["train", "hardnet", "--config", str(tmp_path / "run.json")]) == 2
    _is_one_sentence(capsys, words)


def _is_one_sentence(capsys, words):
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1


def test_archives_of_images_become_stores_of_the_cache(tmp_path, monkeypatch, config_of):
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))
    archive = labeled_sets.pack(labeled_sets.write_cub(tmp_path / "CUB_200_2011"), "zip")
    config, _ = config_of("metric-cub", "--data", str(archive), "--loss", "triplet", "--sec", "0.5")
    assert (config.loss, config.sec, config.network, config.init) == ("triplet", 0.5, "embedding", "imagenet")
    (store,) = config.data
    assert store.startswith(str(tmp_path / "cache"))
    assert open_source(store).channels == 3
    again, _ = config_of("metric-cub", "--data", store)
    assert again.data == (store,)


def test_whole_images_are_learned_described_and_measured_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))
    archive = labeled_sets.pack(labeled_sets.write_cub(tmp_path / "CUB_200_2011", classes=8), "zip")
    small = ["--network-options", "backbone=resnet18-narrow", "dim=16", "input_size=32", "--init", "None"]
    flags = ["--steps", "2", "--batch", "3", "--loss", "semihard", "--sec", "0.5", "--json", "--device", "cpu"]
    run = ["train", "metric-cub", "--data", str(archive), "--out", str(tmp_path / "run")]
    assert main([*run, *small, *flags]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert (outcome["selected_on"], outcome["ratio"]) == ("nothing", None)
    assert main(["eval", "retrieval", "--model", outcome["last"], "--data", str(archive), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert (scores["classes"], scores["images"]) == (4, 12)
    assert 0 <= scores["recall"]["1"] <= 1
