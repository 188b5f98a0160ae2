"""The recipes of whole images have the numbers of the fact sheet, and their runs are runs like others."""

import pytest
import torch

from patchprint import losses, networks
from patchprint.common.errors import UserError
from patchprint.networks import weights
from patchprint.training import RECIPES, assembly, resolve, train
from patchprint.training.assembly import learning_rate
from patchprint.training.recipes import BATCHES, SETS, published
from patchprint.training.run_folder import read_metrics
from support.image_sets import write_store
from support.training_data import SHORT, narrow

SMALL = {**SHORT, "batch": 4, "network_options": narrow("metric-lite0")}


def run(folder, data, recipe="metric-lite0", resume=False, **changes):
    config = resolve(recipe, **{**SMALL, "data": (str(data),), "init": None, **changes})
    return train(config, out=folder, resume=resume)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("images") / "store")


def rates(config, *steps):
    return [pytest.approx(learning_rate(config, step), rel=1e-6) for step in steps]


def test_batches_of_the_losses():
    found = {loss: (published("sop", loss).batch, published("sop", loss).views) for loss in BATCHES}
    few = {"triplet": (40, 3), "semihard": (40, 3), "n-pair": (60, 2)}
    assert found == {**few, "multi-similarity": (24, 5), "tuplet-margin": (32, 4)}


def test_rates_of_head_and_backbone_and_their_drops():
    """Section 8 of the fact sheet: the first rate is the head's."""
    assert rates(published("cub", "semihard"), 0, 4999, 5000) == [5e-6, 5e-6, 5e-7]
    assert published("cub", "semihard").network_options["backbone_rate"] == 0.5
    assert rates(published("cub", "n-pair"), 0, 5000) == [1e-5, 1e-6]
    assert rates(published("cub", "multi-similarity"), 0) == [5e-5]
    assert rates(published("cars", "triplet"), 0, 3999, 4000, 6000) == [1e-5, 1e-5, 5e-6, 2.5e-6]
    assert rates(published("cars", "multi-similarity"), 0, 1999, 2000, 7999) == [4e-5, 4e-5, 4e-6, 4e-6]
    assert rates(published("inshop", "triplet"), 0, 5999, 6000) == [5e-4, 5e-4, 5e-5]
    assert published("sop", "triplet").network_options["backbone_rate"] == pytest.approx(0.2)
    assert [RECIPES[f"metric-{data}"].config.steps for data in SETS] == [8000, 8000, 12_000, 12_000]
    assert [RECIPES[f"metric-{data}"].config.weight_decay for data in SETS] == [2.5e-3, 2.5e-3, 1e-5, 1e-5]
    assert RECIPES["metric-lite0"].config.weight_decay == 2.5e-3


def test_multi_similarity_without_sec_is_the_authors():
    """Lower rates and no batch norm before the head, as their code has it."""
    assert rates(published("cub", "multi-similarity", plain=True), 0, 2999, 3000, 6000) == [1e-5, 1e-5, 1e-6, 1e-7]
    assert rates(published("cars", "multi-similarity", plain=True), 0, 2000, 7999) == [2e-5, 2e-6, 2e-6]
    for data, rate in (("cub", 0.5), ("cars", 1.0)):
        options = published(data, "multi-similarity", plain=True).network_options
        assert (options["backbone_rate"], options["feature_norm"]) == (rate, False)


def test_simclr_is_the_paper_s():
    config = RECIPES["simclr"].config
    network = networks.create(config.network, **config.network_options)
    assert (config.batch, config.views, config.steps, network.dim) == (256, 2, 150 * 195, 128)
    assert losses.create(config.loss).temperature == 0.5
    assert not any(module.training is False for module in network.backbone.modules())


def test_it_learns_to_tell_classes_apart(store, tmp_path):
    outcome = run(tmp_path / "run", store, sec=0.5, lr=1e-3, hold_out=True, steps=40, validate_every=20)
    assert outcome.selected_on == "validation"
    assert outcome.measured["missed"] <= 0.5
    lines = read_metrics(tmp_path / "run/metrics.jsonl")
    first, *_, last = [line["loss/total"] for line in lines if "loss/total" in line]
    assert last < first
    info = weights.read_info(outcome.last)
    assert (info.channels, info.input_size, info.dim, info.training.config["loss"]) == (3, 32, 16, "semihard")


def test_without_a_part_held_out_all_classes_are_learned_and_the_last_weights_taken(store, tmp_path, monkeypatch):
    seen = []
    create = assembly.create_batcher
    monkeypatch.setattr(
        assembly, "create_batcher", lambda run, source: seen.append(source.num_points) or create(run, source)
    )
    kept = run(tmp_path / "kept", store, steps=2, hold_out=True)
    all_of_it = run(tmp_path / "all", store, steps=2)
    assert seen == [4, 6]
    assert (kept.selected_on, all_of_it.selected_on) == ("validation", "nothing")
    assert all_of_it.measured == {}
    assert all_of_it.best_step == 2
    assert weights.read_info(all_of_it.best) == weights.read_info(all_of_it.last)


def test_norms_of_watched_samples_are_followed(store, tmp_path):
    run(tmp_path / "run", store, steps=4, watch=3, log_every=2)
    lines = [line for line in read_metrics(tmp_path / "run/metrics.jsonl") if "loss/total" in line]
    assert [sorted(name for name in line if "sample" in name) for line in lines] == [
        ["norm/sample-0", "norm/sample-1", "norm/sample-2"]
    ] * 2
    assert lines[0]["norm/sample-0"] != lines[1]["norm/sample-0"] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 64}, "the data have 6 classes with two images for training, fewer than --batch 64; give --batch 4"),
        ({"augmentation": "photos"}, "augmentation 'photos' is for gray patches"),
        ({"network": "hardnet", "network_options": {}}, "'hardnet' learns from patches, but the data are whole"),
    ],
)
def test_what_does_not_fit_is_said(changes, message, store, tmp_path):
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", store, **changes)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_weights_of_imagenet_are_for_whole_images():
    with pytest.raises(UserError, match="--init imagenet is for networks of whole images, not for hardnet"):
        assembly.create(resolve("hardnet", init="imagenet"), torch.device("cpu"))
