"""Retrieval of whole images: chance is chance, colors find their class, queries ask the gallery, norms are of raw vectors."""

import dataclasses
import math
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint import networks
from patchprint.benchmarks import BENCHMARKS, PredictionCache, _stores, measure, retrieval
from patchprint.benchmarks._stores import for_every_image, open_images
from patchprint.benchmarks.retrieval import Search, clustering_scores, ranking_scores
from patchprint.data import splits
from patchprint.data.image_store import GALLERY, QUERY, ImageStore
from patchprint.metrics import recall_at
from patchprint.networks import weights
from support.benchmark_data import run_of, scores_of
from support.fake_models import ColorImages, ConstantImages, CountingPixels
from support.image_sets import images_of_class, write_store

pytest.importorskip("sklearn")
pytestmark = pytest.mark.filterwarnings("ignore:Number of distinct clusters")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("retrieval") / "store", classes=16, count=6)


def test_colors_find_their_class_and_constants_score_chance(store: Path) -> None:
    good = scores_of("retrieval", ColorImages(), store)
    assert (good["images"], good["classes"], good["queries"], good["queries_without_positive"]) == (48, 8, 48, 0)
    assert good["recall"]["1"] > 0.9
    assert good["nmi"] > 0.8
    assert good["f1"] > 0.7
    chance = scores_of("retrieval", ConstantImages(), store)
    assert chance["recall"]["1"] == pytest.approx(5 / 47)
    assert chance["nmi"] == pytest.approx(0)
    pairs, right = 48 * 47 / 2, 8 * 6 * 5 / 2
    assert chance["f1"] == pytest.approx(2 * (right / pairs) / (right / pairs + 1))


def test_map_at_r_needs_its_library_and_says_so(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pytorch_metric_learning")
    good = scores_of("retrieval", ColorImages(), store)
    assert good["map_at_r"] > 0.8
    assert good["precision_at_1"] == pytest.approx(good["recall"]["1"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    without = scores_of("retrieval", ColorImages(), store)
    assert without["map_at_r"] is None
    assert "pytorch-metric-learning is not installed" in without["left_out"]


def test_norms_are_those_before_unit_length_and_change_no_other_score(store: Path) -> None:
    constant = scores_of("retrieval", ConstantImages(), store)
    assert (constant["norm_mean"], constant["norm_variance"]) == (pytest.approx(3), pytest.approx(0, abs=1e-12))
    one, three = (scores_of("retrieval", ColorImages(scale=scale), store) for scale in (1.0, 3.0))
    assert three["norm_mean"] == pytest.approx(3 * one["norm_mean"])
    assert three["norm_variance"] == pytest.approx(9 * one["norm_variance"])
    assert three["recall"] == one["recall"]


def test_clusters_are_optional_and_images_are_described_once(store: Path, tmp_path: Path) -> None:
    model, cache = ColorImages(), PredictionCache(tmp_path)
    without = measure(run_of("retrieval", model, store, cache=cache, clusters=False))
    assert without.scores["nmi"] is None
    assert BENCHMARKS["retrieval"]().headline(without.scores) == {"R@1": without.scores["recall"]["1"]}
    assert model.asked == 48
    measure(run_of("retrieval", model, store, cache=cache, kmeans_starts=2))
    assert model.asked == 48
    measure(run_of("retrieval", model, store, cache=cache, split="val"))
    assert model.asked == 48 + 12
    assert "patch_scale" not in without.model


def test_queries_ask_the_gallery_alone(tmp_path: Path) -> None:
    """Two images of a class are queries, four are the gallery; one class is a query only."""
    images = [image for number in range(5) for image in images_of_class(number, 6)]
    role = np.array(([QUERY] * 2 + [GALLERY] * 4) * 4 + [QUERY] * 6, np.uint8)
    point = np.repeat(np.arange(5), 6)
    ImageStore.write(
        tmp_path / "store",
        images,
        point,
        np.full(5, splits.TEST, np.uint8),
        np.arange(5),
        list("abcde"),
        [str(number) for number in range(30)],
        role=role,
    )
    model = ColorImages()
    scores = scores_of("retrieval", model, tmp_path / "store")
    assert set(scores["recall"]) == {"1", "10", "20", "30", "40", "50"}
    assert (scores["queries"], scores["queries_without_positive"]) == (8, 6)
    opened = ImageStore.open(tmp_path / "store")
    points, views = opened.all_views()
    raw = model.raw(opened.sample(points, views[:, None], model.input_size)[:, 0])
    unit = torch.nn.functional.normalize(raw, dim=1)
    asks, answers = torch.from_numpy(role == QUERY), torch.from_numpy(role == GALLERY)
    wanted = recall_at(unit[asks], torch.from_numpy(point)[asks], (1,), unit[answers], torch.from_numpy(point)[answers])
    assert scores["recall"]["1"] == pytest.approx(wanted.at[1])


def test_published_numbers_stand_beside_the_same_test_set_alone(store: Path) -> None:
    result = measure(run_of("retrieval", ColorImages(), store, clusters=False)).to_json()
    benchmark = BENCHMARKS["retrieval"]()
    assert benchmark.published(result) == {}
    same = {**result, "scores": {**result["scores"], "images": 5924, "classes": 100}}
    rows = benchmark.published(same)
    assert len(rows) == 14
    assert all("BN-Inception at 227 px" in name and "CUB" in name for name in rows)
    (row,) = (values for name, values in rows.items() if name.startswith("semihard + SEC"))
    assert row == {"NMI": pytest.approx(0.7162), "F1": pytest.approx(0.4205), "R@1": pytest.approx(0.6735)}
    assert benchmark.published({**same, "settings": {**same["settings"], "split": "train"}}) == {}
    shop = {**result, "scores": {**result["scores"], "images": 26830, "classes": 3985}}
    assert all(set(row) == {"R@1"} for row in benchmark.published(shop).values())


def test_a_file_has_the_descriptor_that_the_benchmark_gives_it(tmp_path: Path) -> None:
    """An image of 128 pixels, read from a file and from a store that kept its size, between two pixels too."""
    torch.manual_seed(0)
    network = networks.create("embedding", backbone="resnet18-narrow", dim=16, input_size=128)
    weights.save(network, tmp_path / "model.safetensors")
    images = images_of_class(1, 2, (128, 151)) + images_of_class(2, 2, (140, 128))
    for number, image in enumerate(images):
        cv2.imwrite(str(tmp_path / f"{number}.png"), image[..., ::-1])
    test = np.full(2, splits.TEST, np.uint8)
    names = [f"{number}.png" for number in range(4)]
    ImageStore.write(tmp_path / "store", images, np.repeat([0, 1], 2), test, np.arange(2), ["a", "b"], names)
    run = run_of("retrieval", tmp_path / "model.safetensors", tmp_path / "store", clusters=False)
    computed = torch.from_numpy(retrieval._embed(run, run.settings)["raw"])
    described = run.image_model.describe_images([tmp_path / name for name in names])
    torch.testing.assert_close(described, torch.nn.functional.normalize(computed, dim=1), atol=1e-5, rtol=1e-4)
    assert float((described[0] - described[2]).norm()) > 1e-3, "the network tells them apart"


def test_models_and_benchmarks_of_other_kinds_are_refused(store: Path) -> None:
    with pytest.raises(ValueError, match="describes patches"):
        measure(run_of("retrieval", CountingPixels(), store))
    with pytest.raises(ValueError, match="describes whole images, not keypoints"):
        measure(run_of("ubc", ColorImages(), store))
    run = run_of("retrieval", ColorImages(), store, split="val")
    with pytest.raises(ValueError, match="one --data at a time"):
        measure(dataclasses.replace(run, data=(store, store)))


def test_clusters_counted_by_hand() -> None:
    """Perfect ones; all in one, which says nothing, and guesses 6 pairs, of which 2 are right; one image in the wrong one."""
    assert clustering_scores(np.array([7, 7, 3, 3, 5]), np.array([0, 0, 1, 1, 2])) == {"nmi": pytest.approx(1), "f1": 1}
    one = clustering_scores(np.zeros(4, int), np.array([0, 0, 1, 1]))
    assert one == {"nmi": pytest.approx(0), "f1": pytest.approx(0.5)}
    # Clusters {a a a b} {b b}: 3 + 1 of 6 + 1 guessed pairs are right, of 6 to be found.
    scores = clustering_scores(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 1]))
    assert scores["f1"] == pytest.approx(2 * (4 / 7) * (4 / 6) / (4 / 7 + 4 / 6))
    h_label, h_cluster = math.log(2), -(4 / 6) * math.log(4 / 6) - (2 / 6) * math.log(2 / 6)
    shared = h_label + h_cluster + sum(p * math.log(p) for p in (3 / 6, 1 / 6, 2 / 6))
    assert scores["nmi"] == pytest.approx(2 * shared / (h_label + h_cluster))


def test_map_at_r_by_hand() -> None:
    """Two positives each for the a's: precision is summed over the first two places alone."""
    pytest.importorskip("pytorch_metric_learning")
    angle = torch.tensor([0.0, 10, 30, 16, 200]).deg2rad()
    vectors = torch.stack([angle.cos(), angle.sin()], 1)
    labels = torch.tensor([0, 0, 0, 1, 2])
    # 0: a, b -> (1 + 0) / 2. 10: b, a -> (0 + 1/2) / 2. 30: b, a -> (0 + 1/2) / 2. The other two have no positive.
    scores = ranking_scores(Search(vectors, labels))
    assert scores["map_at_r"] == pytest.approx((1 / 2 + 1 / 4 + 1 / 4) / 3)
    assert scores["precision_at_1"] == pytest.approx(1 / 3)


def test_every_image_comes_once_in_the_order_of_its_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("retrieval", ColorImages(), write_store(tmp_path / "store", classes=6, count=5))
    store = open_images(run)
    model = run.image_model
    whole = for_every_image(run, store, model.raw)
    assert whole.shape == (30, 3)
    for row, (point, view) in enumerate(zip(*store.all_views(), strict=True)):
        square = store.sample(point[None], view[None, None], model.input_size)[:, 0]
        torch.testing.assert_close(model.raw(square)[0], whole[row])
    monkeypatch.setattr(_stores, "_IMAGES", 7)
    torch.testing.assert_close(for_every_image(run, store, model.raw), whole)
