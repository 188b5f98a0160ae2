"""Train the graph matcher for the descriptors of a model, on images of track stores and warped copies of them.

No depth is needed. A candidate match of two views of one image is right or wrong by the homography between them. Between two
images of a model, a keypoint that shows a point of the model must be where the camera of the other image sees that point; any
other is wrong where it lies far from its epipolar line, and is left out of the loss elsewhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from patchprint.common import distributed as ranks
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file
from patchprint.features.model import DEFAULT_MODEL, load
from patchprint.matching.candidate_graph import (
    CandidateGraph,
    Frames,
    GraphNetwork,
    GraphOptions,
    build_graph,
    pair_matches,
)
from patchprint.matching.feature_bank import BankImage, BankScene, BankSettings, View, open_bank
from patchprint.matching.matchers import graph
from patchprint.networks.network import TrainingRecord
from patchprint.networks.weights import to_bytes
from patchprint.ops.distances import nearest
from patchprint.ops.geometry import epipolar_errors, fundamental_matrix, project
from patchprint.training import assembly
from patchprint.training.checkpoint import TrainState
from patchprint.training.config import TrainConfig
from patchprint.training.held_out import Measured
from patchprint.training.step import Step
from patchprint.training.task import Task

RECIPE, PRECISION = "matcher", 0.9
RIGHT, WRONG, OFF_LINE = 3.0, 6.0, 12.0  # pixels
SHARED = 30  # points that two images show, for a pair to learn from
FEWEST_KEYPOINTS, MOST_KEYPOINTS = 512, 1024  # the strongest of an image, so many in a step
UNRELATED = 8  # one of so many pairs shows two stores, where all candidates are wrong
HELD_OUT = 8  # one of so many images is held out
MOST_JUDGED = 24  # held-out pairs of each kind


@dataclass(frozen=True, kw_only=True)
class MatcherSettings:
    """How a matcher is trained."""

    # Descriptors whose matches are learned: a name, or a file of weights.
    model: str = DEFAULT_MODEL
    # Training steps.
    steps: int = 1000
    # Pairs of images in a batch.
    batch: int = 4
    # Highest learning rate of the one cycle.
    lr: float = 2e-3
    # Most keypoints described in an image; a step draws 512 or more of them, the strongest.
    max_keypoints: int = 2048
    # Keypoint detector.
    detector: str = "dog"
    # Most images of each store, evenly spread over it.
    images: int = 100
    # Warped copies of each image.
    copies: int = 1
    # Steps between validations and checkpoints.
    validate_every: int = 250
    # Hold one of eight images out, to choose the best weights and the threshold; without it the last weights are taken.
    hold_out: bool = True
    # Images that are left out of every store, by number.
    leave_out: tuple[int, ...] = ()
    # What the network is told, and how large it is.
    network: GraphOptions = dataclasses.field(default_factory=GraphOptions)
    # Weights of a matcher to start from, whose network it then has.
    init: Path | None = None
    # Seed of everything random.
    seed: int = 0
    # cpu, cuda, mps or auto.
    device: str = "auto"

    def config(self, data: Sequence[str | Path]) -> TrainConfig:
        """Return the settings of the run."""
        if not data:
            raise UserError("patchprint train matcher needs --data STORE; patchprint data build makes one")
        bank = {"model": self.model, "detector": self.detector, "keypoints": self.max_keypoints, "images": self.images}
        bank |= {"copies": self.copies, "leave_out": list(self.leave_out)}
        network = graph.read_weights(self.init, torch.device("cpu")).network.options if self.init else self.network
        return TrainConfig(
            RECIPE, "graph", "cross-entropy", network_options=network.changed(), data=tuple(map(str, data)),
            steps=self.steps, batcher="", batch=self.batch, views=1, lr=self.lr,
            optimizer="adamw", weight_decay=0.01, schedule="one-cycle", average=0.95, seed=self.seed, batcher_options=bank,
            hold_out=self.hold_out,
            init=None if self.init is None else str(self.init), validate_every=self.validate_every,
            checkpoint_every=self.validate_every, log_every=max(1, min(50, self.steps // 20)), device=self.device,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class LabeledPair:
    """Two images, and a function that labels pairs of their keypoints: 1 right, 0 wrong, nan where that is unknown."""

    a: Frames
    b: Frames
    homography: np.ndarray | None = None
    model: tuple[np.ndarray, BankImage, BankImage] | None = None  # its points (P, 3), and both images

    def labels(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Label candidates, (M,), (M,) -> (M,)."""
        xy_a, xy_b = self.a.xy.cpu().double().numpy(), self.b.xy.cpu().double().numpy()
        if self.homography is not None:
            return _by_error(np.linalg.norm(project(self.homography, xy_a)[rows] - xy_b[columns], axis=1))
        if self.model is not None:
            return _by_model(*self.model, rows, columns, xy_a, xy_b)
        return np.zeros(len(rows))  # two places


def _by_error(error: np.ndarray) -> np.ndarray:
    return np.where(error < RIGHT, 1.0, np.where(error > WRONG, 0.0, np.nan))


def _by_model(
    xyz: np.ndarray,
    one: BankImage,
    other: BankImage,
    rows: np.ndarray,
    columns: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
) -> np.ndarray:
    """Label candidates by the points that either keypoint shows, and by epipolar lines; all keypoints (N, 2) and (M, 2)."""
    assert one.camera is not None and other.camera is not None
    a, b = one.camera.undistort(a)[rows], other.camera.undistort(b)[columns]
    turn = other.camera.rotation @ one.camera.rotation.T
    shift = other.camera.translation - turn @ one.camera.translation
    lines = fundamental_matrix(turn, shift, one.camera.intrinsics, other.camera.intrinsics)
    label = np.where(epipolar_errors(lines, a, b) > OFF_LINE, 0.0, np.nan)
    found = []
    for image, number, camera, place in ((one, rows, other.camera, b), (other, columns, one.camera, a)):
        point = image.point[number]
        error = np.linalg.norm(camera.project(xyz[np.maximum(point, 0)]) - place, axis=1)
        found.append(np.where(point >= 0, _by_error(np.nan_to_num(error, nan=1e9)), np.nan))
    wrong = (found[0] == 0) | (found[1] == 0) | (label == 0)
    right = (found[0] == 1) | (found[1] == 1)
    return np.where(right & ~wrong, 1.0, np.where(wrong & ~right, 0.0, np.nan))


class PairSource:
    """Pairs of images that a matcher learns from: of one model, and of an image with its warped copies."""

    def __init__(self, scenes: list[BankScene], chosen: list[list[int]], device: torch.device) -> None:
        self.scenes, self.chosen, self.device = scenes, chosen, device
        self.real = [[pair for pair in itertools.combinations(images, 2) if _overlap(scene, *pair)]
                     for scene, images in zip(scenes, chosen, strict=True)]  # fmt: skip
        self.warped = [[(number, first, second) for number in images
                        for first, second in itertools.permutations(range(len(scene.images[number].views)), 2)]
                       for scene, images in zip(scenes, chosen, strict=True)]  # fmt: skip
        if not any(self.warped):
            raise UserError("the stores hold no images for a matcher to learn from; give others, or --no-hold-out")

    def draw(self, generator: np.random.Generator, number: int) -> LabeledPair:
        """Draw the pair ``number`` of a batch: warped and real ones in turn, now and then two stores."""
        count = int(generator.integers(FEWEST_KEYPOINTS, MOST_KEYPOINTS + 1))
        full = [place for place, pairs in enumerate(self.warped) if pairs]
        if len(full) > 1 and generator.integers(UNRELATED) == 0:
            here, there = (self._some_view(generator, place) for place in generator.permutation(full)[:2])
            return LabeledPair(self.frames(here, count), self.frames(there, count))
        shared = [place for place, pairs in enumerate(self.real) if pairs]
        if number % 2 and shared:
            place = _by_size(generator, shared, self.real)
            one, other = self.real[place][generator.integers(len(self.real[place]))]
            if generator.integers(2):
                one, other = other, one
            return self.real_pair(place, one, other, count)
        place = _by_size(generator, full, self.warped)
        return self.warped_pair(place, *self.warped[place][generator.integers(len(self.warped[place]))], count)

    def real_pair(self, place: int, one: int, other: int, count: int) -> LabeledPair:
        scene = self.scenes[place]
        a, b = scene.images[one], scene.images[other]
        assert scene.xyz is not None
        return LabeledPair(self.frames(a.views[0], count), self.frames(b.views[0], count), model=(scene.xyz, a, b))

    def warped_pair(self, place: int, number: int, first: int, second: int, count: int) -> LabeledPair:
        a, b = (self.scenes[place].images[number].views[view] for view in (first, second))
        return LabeledPair(self.frames(a, count), self.frames(b, count), b.homography @ np.linalg.inv(a.homography))

    def frames(self, view: View, count: int) -> Frames:
        """The ``count`` strongest keypoints of a view."""
        parts = (each[:count].to(self.device) for each in (view.xy, view.scale, view.angle, view.descriptors))
        return Frames(*parts)

    def _some_view(self, generator: np.random.Generator, place: int) -> View:
        number, first, _ = self.warped[place][generator.integers(len(self.warped[place]))]
        return self.scenes[place].images[number].views[first]


def _by_size(generator: np.random.Generator, places: list[int], pairs: Sequence[Sequence[object]]) -> int:
    """Draw a store, by the square root of its number of pairs, so that large ones do not decide alone."""
    weight = np.sqrt([len(pairs[place]) for place in places])
    return int(generator.choice(places, p=weight / weight.sum()))


def _overlap(scene: BankScene, one: int, other: int) -> bool:
    images = scene.images[one], scene.images[other]
    return all(image.camera for image in images) and len(np.intersect1d(images[0].shown, images[1].shown)) >= SHARED


class MatcherTask(Task):
    """Learns which candidates are right."""

    counted = "pairs"

    def __init__(self, config: TrainConfig) -> None:
        if ranks.world_size() > 1:
            raise UserError("a matcher is trained by one process; start it without torchrun")
        self.config, self.device = config, choose_device(config.device)
        options = dict(config.batcher_options)
        self.model = load(options.pop("model"), self.device)
        settings = BankSettings(**options, seed=config.seed)
        scenes = [scene.to(self.device) for scene in open_bank(config.data, self.model, settings)]
        every = [list(range(len(scene.images))) for scene in scenes]
        held_out = [images[HELD_OUT // 2 :: HELD_OUT] if config.hold_out else [] for images in every]
        learned = [sorted(set(images) - set(out)) for images, out in zip(every, held_out, strict=True)]
        self.source = PairSource(scenes, learned, self.device)
        self.judge = self.pairs = HeldOutImagePairs(scenes, held_out, learned, self.device)
        self.selected_on = "validation" if len(self.judge) else "nothing"

    def create_state(self) -> TrainState:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.config.seed)
            network = GraphNetwork(**self.config.network_options).to(self.device)
        if self.config.init:
            start = graph.read_weights(Path(self.config.init), self.device)
            network.load_state_dict(start.network.state_dict())
        average = {name: value.clone() for name, value in network.state_dict().items()} if self.config.average else None
        optimizer = assembly.create_optimizer(self.config, network)
        return TrainState(network.train(), nn.Identity(), optimizer, average, data=self._fingerprint())

    def create_step(self, state: TrainState) -> Step:
        return _MatcherStep(self.config, state, self.source)

    def save(self, network: nn.Module, path: Path, name: str, record: TrainingRecord) -> None:
        about = {
            "format": graph.FORMAT,
            "name": name,
            "model": self.model.info.name,
            "model_sha256": self.model.info.sha256,
            "threshold": f"{self.pairs.threshold:.4f}",
            "training": json.dumps(dataclasses.asdict(record)),
        }
        if isinstance(network, GraphNetwork) and network.options.changed():
            about["options"] = json.dumps(network.options.changed())
        state = {key: value.detach().cpu().contiguous() for key, value in network.state_dict().items()}
        with atomic_file(path) as temporary:
            temporary.write_bytes(to_bytes(state, about))

    def _fingerprint(self) -> str:
        images = [len(scene.images) for scene in self.source.scenes]
        total = sum(float(image.views[0].xy.double().sum()) for scene in self.source.scenes for image in scene.images)
        return f"{self.model.info.name} {self.model.info.sha256} {images} {total:.3f}"


class _MatcherStep(Step):
    """Cross-entropy of the candidates whose label is known, mean over the pairs of a batch."""

    def __init__(self, config: TrainConfig, state: TrainState, source: PairSource) -> None:
        super().__init__(config, state, source.device)
        self.source = source

    def compute_losses(self) -> dict[str, Tensor]:
        generator = np.random.default_rng([self.config.seed, int(self.step)])
        pairs = [self.source.draw(generator, number) for number in range(self.config.batch)]
        network = cast(GraphNetwork, self.state.network)
        built = build_graph([(pair.a, pair.b) for pair in pairs], network.options)
        label = label_candidates(pairs, built)
        known = label.isfinite() & (built.index >= 0)
        logits, wanted = network(built).masked_fill(~known, 0), label.masked_fill(~known, 0)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none") * known
        sizes = [one + other for one, other in built.pair_sizes]
        of_pairs = zip(loss.split(sizes), known.split(sizes), strict=True)
        return {"total": torch.stack([each.sum() / there.sum().clamp(min=1) for each, there in of_pairs]).mean()}


def label_candidates(pairs: Sequence[LabeledPair], built: CandidateGraph) -> Tensor:
    """Label the candidates of the graph of some pairs, (N, K) float32, nan where that is unknown."""
    index = built.index.cpu().numpy()
    labels, start = [], 0
    for pair, (one, other) in zip(pairs, built.pair_sizes, strict=True):
        middle, end = start + one, start + one + other
        here, there = index[start:middle], index[middle:end]
        rows = np.arange(one).repeat(here.shape[1]), np.arange(other).repeat(there.shape[1])
        first = np.concatenate([rows[0], np.maximum(there.ravel() - start, 0)])
        second = np.concatenate([np.maximum(here.ravel() - middle, 0), rows[1]])
        labels.append(pair.labels(first, second))
        start = end
    label = np.concatenate(labels).reshape(index.shape)
    return torch.from_numpy(np.where(index < 0, np.nan, label)).float().to(built.index.device)


class HeldOutImagePairs:
    """Pairs of which at least one image is held out: how many right matches are lost where nine of ten are right."""

    def __init__(
        self,
        scenes: list[BankScene],
        held_out: list[list[int]],
        learned: list[list[int]],
        device: torch.device,
        most: int = MOST_JUDGED,
    ) -> None:
        self.kinds: dict[str, list[LabeledPair]] = {"warped": [], "real": []}
        self.threshold = 0.5
        if not any(held_out):
            return
        source = PairSource(scenes, held_out, device)
        for place, unseen in enumerate(held_out):
            self.kinds["warped"] += [
                source.warped_pair(place, *which, MOST_KEYPOINTS) for which in source.warped[place]
            ]
            pairs = source.real[place] or [
                (one, other) for one in unseen for other in learned[place] if _overlap(scenes[place], one, other)
            ]
            self.kinds["real"] += [source.real_pair(place, *which, MOST_KEYPOINTS) for which in pairs]
        generator = np.random.default_rng(0)
        for kind, every in self.kinds.items():
            chosen = generator.permutation(len(every))[:most]
            self.kinds[kind] = [every[number] for number in sorted(chosen)]

    def __len__(self) -> int:
        return sum(map(len, self.kinds.values()))

    def measure(self, network: nn.Module) -> Measured:
        """The part of the right matches that is lost at precision ``PRECISION``, the mean of both kinds of pairs.

        ``threshold`` becomes the mean of the smallest probabilities at which each kind has that precision.
        """
        lost, thresholds = {}, []
        for kind, pairs in self.kinds.items():
            if pairs:
                score, label, possible = scored_matches(cast(GraphNetwork, network), pairs)
                kept, threshold = _kept(score, label)
                thresholds.append(threshold)
                lost[f"lost/{kind}"] = 1 - float(kept.sum() / max(possible, 1))
        self.threshold = float(np.mean(thresholds))
        return {"lost": float(np.mean(list(lost.values()))), **lost}

    def right_matches(self, network: GraphNetwork) -> dict[str, float]:
        """The right matches of a pair where all matches of a kind of pairs together have precision ``PRECISION``."""
        scored = {kind: scored_matches(network, pairs)[:2] for kind, pairs in self.kinds.items() if pairs}
        return {kind: float(_kept(*found)[0].sum() / len(self.kinds[kind])) for kind, found in scored.items()}

    def right_by_ratio(self) -> dict[str, float]:
        """The same of mutual nearest neighbors with the threshold of the ratio test that has this precision."""
        right = {}
        for kind, pairs in self.kinds.items():
            if pairs:
                score, label = (np.concatenate(each) for each in zip(*map(_by_ratio, pairs), strict=True))
                right[kind] = float(_kept(score, label)[0].sum() / len(pairs))
        return right


def _by_ratio(pair: LabeledPair) -> tuple[np.ndarray, np.ndarray]:
    """Return minus the ratio and the label of each mutual match whose label is known."""
    distance, index = nearest(pair.a.descriptors, pair.b.descriptors, 2)
    _, back = nearest(pair.b.descriptors, pair.a.descriptors)
    rows = torch.nonzero(back[index[:, 0], 0] == torch.arange(len(index)))[:, 0]
    ratio = (distance[rows, 0] / distance[rows, 1].clamp(min=1e-9)).numpy()
    label = pair.labels(rows.numpy(), index[rows, 0].numpy())
    known = np.isfinite(label)
    return -ratio[known], label[known]


def _kept(score: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the labels of as many of the most probable matches as have precision `PRECISION`, and their least score."""
    order = np.argsort(-score, kind="stable")
    ranked = label[order]
    enough = np.flatnonzero(np.cumsum(ranked) >= PRECISION * np.arange(1, len(ranked) + 1))
    count = int(enough[-1]) + 1 if len(enough) else 0
    return ranked[:count], float(score[order[count - 1]]) if count else 0.5


@torch.no_grad()
def scored_matches(network: GraphNetwork, pairs: Sequence[LabeledPair]) -> tuple[np.ndarray, np.ndarray, int]:
    """Match pairs: probability and label of each match whose label is known, and how many right ones there could be."""
    scores, labels, possible = [], [], 0
    for pair in pairs:
        built = build_graph([(pair.a, pair.b)], network.options)
        possible += int((label_candidates([pair], built)[: len(pair.a)] == 1).any(1).sum())
        matched, logit, _ = pair_matches(network(built), built, network.options.one_sided)
        label = pair.labels(*matched.cpu().numpy().T)
        known = np.isfinite(label)
        scores.append(torch.sigmoid(logit).cpu().numpy()[known])
        labels.append(label[known])
    return np.concatenate(scores), np.concatenate(labels), possible
