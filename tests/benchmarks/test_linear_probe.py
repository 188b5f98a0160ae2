"""The linear probe: constants score chance, colors are read off, the learning rate is chosen without the test images."""

from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint.benchmarks import linear_probe
from patchprint.data import splits
from patchprint.data.image_store import ImageStore
from support.benchmark_data import scores_of
from support.fake_models import ColorImages, ConstantImages
from support.image_sets import images_of_class, write_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes, each with 16 images to learn from, 4 for validation and 8 to be classified: three points of one label."""
    folder = tmp_path_factory.mktemp("probe") / "store"
    images = [image for number in range(4) for image in images_of_class(number, 28)]
    point = np.concatenate([np.repeat([number, 4 + number, 8 + number], [16, 4, 8]) for number in range(4)])
    part = np.repeat([splits.TRAIN, splits.VAL, splits.TEST], 4).astype(np.uint8)
    names = [str(number) for number in range(len(images))]
    ImageStore.write(folder, images, point, part, np.tile(np.arange(4), 3), list("abcd"), names)
    return folder


def test_colors_are_read_off_and_constants_score_chance(store: Path) -> None:
    good = scores_of("linear-probe", ColorImages(), store, epochs=20, batch=16)
    assert (good["train_images"], good["test_images"], good["classes"], good["features"]) == (80, 32, 4, 3)
    assert good["chosen"] > 0.9
    assert good["best"] == max(good["accuracy"].values())
    chance = scores_of("linear-probe", ConstantImages(), store, epochs=2, batch=16)
    assert chance["best"] == 0.25


def test_the_length_of_features_plays_no_part(store: Path) -> None:
    one, many = (
        scores_of("linear-probe", ColorImages(scale=scale), store, epochs=3, batch=16) for scale in (1.0, 1000.0)
    )
    assert one["accuracy"] == many["accuracy"]


def test_the_rate_is_chosen_on_held_out_training_images(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the classifiers say of the test images is made to disagree with what they say of held-out ones."""
    seen = []

    def accuracies(train, test, num_classes, settings, seed):
        seen.append((len(train), len(test)))
        return [0.1, 0.9, 0.5] if len(seen) == 1 else [0.6, 0.2, 0.8]

    monkeypatch.setattr(linear_probe, "_accuracies", accuracies)
    scores = scores_of("linear-probe", ColorImages(), store)
    assert seen == [(80, 32), (72, 8)]
    assert (scores["best"], scores["chosen"], scores["chosen_rate"]) == (0.9, 0.5, 10.0)
    assert scores["accuracy"] == {"2.0": 0.1, "5.0": 0.9, "10.0": 0.5}


def test_gradients_go_down_a_loss_with_a_known_minimum() -> None:
    """Two separable classes: the classifier learns them, and its training is a function of the seed."""
    features = torch.tensor([[1.0, 0.2], [0.8, -0.1], [-1.0, 0.1], [-0.9, -0.2]]).repeat(10, 1)
    examples = torch.utils.data.TensorDataset(features, torch.tensor([0, 0, 1, 1]).repeat(10))
    settings = linear_probe.Settings(rates=(2.0, 0.1), epochs=5, batch=8)
    fits = (linear_probe._fit(examples, 2, settings, seed=3) for _ in range(2))
    (fast, slow), (again, _) = ([one.weight.detach() for one in classifiers] for classifiers in fits)
    assert torch.equal(fast, again)
    assert float(fast[0, 0]) > float(slow[0, 0]) > 0 > float(fast[1, 0])
    assert linear_probe._accuracies(examples, examples, 2, settings, 3) == [1.0, 1.0]


def test_classes_that_training_does_not_know_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no test images of the classes that it trains on"):
        scores_of("linear-probe", ColorImages(), write_store(tmp_path / "store"))
