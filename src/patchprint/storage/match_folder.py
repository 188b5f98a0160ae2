"""Matches of many image pairs on disk, in shards, computed here or on a cluster.

A folder holds ``pairs.txt`` (two names per line with a tab between them, the format of ``--pairs``), ``matches.json`` (how they
were matched), and shards, each an ``.npz`` of matches. The order of the pairs determines the shard of each, so existing shards
are kept when an interrupted call is resumed.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchprint.common import files
from patchprint.common.errors import OtherInputsError, UserError, parsing
from patchprint.common.lru import Lru
from patchprint.common.progress import Progress
from patchprint.common.safe_io import read_json
from patchprint.common.types import Features, Matches
from patchprint.matching.pair_selection import CachedFeatures, MatchRule, Pair
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.match_formats import matches_to_npz, read_matches

if TYPE_CHECKING:
    from patchprint.interop.ray_cluster import Cluster

MADE_BY = "patchprint match"
MANIFEST, PAIRS = "matches.json", "pairs.txt"
_MOST_PAIRS = 4096  # in a shard
_FEWEST_SHARDS = 64
_OPEN = 4  # shards that stay in memory


class MatchFolder(Mapping[Pair, Matches]):
    """Matches by pair of image names, read from a folder one shard at a time."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest: dict[str, Any] = read_json(self.folder / MANIFEST, "the list of a folder of matches")
        listing = self.folder / PAIRS
        with parsing(listing, "a list of pairs by patchprint"):
            lines = listing.read_text(encoding="utf-8").splitlines()
            self.pairs: list[Pair] = [(first, second) for first, second in (line.split("\t") for line in lines)]
            self.size = int(self.manifest["pairs_per_shard"])
            if self.size < 1:
                raise UserError(f"a shard cannot hold {self.size} pairs")
        self._numbers = {pair: place // self.size for place, pair in enumerate(self.pairs)}
        self._open: Lru[dict[Pair, Matches]] = Lru(_OPEN)

    @property
    def num_shards(self) -> int:
        return -(-len(self.pairs) // self.size)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:06}.npz"

    def pairs_of(self, number: int) -> list[Pair]:
        return self.pairs[number * self.size : (number + 1) * self.size]

    def missing(self) -> list[int]:
        """Numbers of the shards that do not exist yet."""
        return [number for number in range(self.num_shards) if not self.path(number).is_file()]

    def __getitem__(self, pair: Pair) -> Matches:
        path = self.path(self._numbers[pair])
        matches = self._open.get(path, lambda: read_matches(path))
        with parsing(path, "a shard of matches by patchprint"):
            return matches[pair]

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


def match_folder(
    features: Mapping[str, Features],
    pairs: Sequence[Pair],
    out: str | Path,
    rule: MatchRule | None = None,
    *,
    device: str = "cpu",
    cluster: Cluster | None = None,
    force: bool = False,
    disposable: bool = False,
) -> MatchFolder:
    """Match pairs of images into a folder.

    Shards that exist are kept, as long as features, pairs and rule are the same.

    Args:
        features: by image name; for a cluster, a folder that all nodes see.
        cluster: Ray cluster to work on.
        force: start again, removing existing matches.
        disposable: the folder is an intermediate result; matches of other inputs in it are removed.

    Raises:
        UserError: where the folder holds other matches, and neither ``force`` nor ``disposable`` is given.
    """
    out, rule = Path(out), rule or MatchRule()
    if cluster is not None and not isinstance(features, FeatureFolder):
        raise UserError("a cluster matches a folder of features (patchprint describe --format npz)")
    try:
        _claim(out, features, pairs, rule, force)
    except OtherInputsError:
        if not disposable:
            raise
        _claim(out, features, pairs, rule, force=True)
    there = MatchFolder(out)
    todo = there.missing()
    work = [there.pairs_of(number) for number in todo]
    if cluster is not None and isinstance(features, FeatureFolder):
        done = _on_cluster(features.folder.resolve(), work, rule, device, cluster)
    else:
        done = enumerate(map(_matcher(features, rule, device), work))
    with Progress("matching", sum(map(len, work)), "pair") as counter:
        for index, made in done:
            with files.atomic_file(there.path(todo[index])) as temporary:
                temporary.write_bytes(made)
            counter.update(len(work[index]))
    return there


def _claim(out: Path, features: Mapping[str, Features], pairs: Sequence[Pair], rule: MatchRule, force: bool) -> None:
    listing = "".join(f"{first}\t{second}\n" for first, second in pairs)
    size = max(1, min(_MOST_PAIRS, -(-len(pairs) // _FEWEST_SHARDS)))
    settings = asdict(rule)
    if rule.tolerance is None:
        del settings["tolerance"]  # folders from before there was one are kept
    plan = {"pairs_per_shard": size, "rule": settings}
    made_of = features.manifest if isinstance(features, FeatureFolder) else sorted(features)
    digest = hashlib.sha256(json.dumps([plan, made_of], sort_keys=True).encode())
    digest.update(listing.encode())
    contents = [MANIFEST, PAIRS, "*.npz"]
    files.claim_folder(out, MADE_BY, contents, digest.hexdigest(), force)
    files.write_json(out / MANIFEST, plan)
    files.write_text(out / PAIRS, listing)


def _on_cluster(
    folder: Path, work: list[list[Pair]], rule: MatchRule, device: str, cluster: Cluster
) -> Iterator[tuple[int, bytes]]:
    if not work:
        return
    from patchprint.interop import ray_cluster

    with ray_cluster.connect(cluster) as ray:
        ray_cluster.check_paths_on_nodes(ray, folder)
        resources = ray_cluster.worker_resources(ray, device)
        prepare = partial(_matcher, folder, rule, "cuda" if resources.gpus else "cpu")
        for index, made in ray_cluster.run_jobs(ray, work, prepare, resources):
            if isinstance(made, OSError):
                raise made
            yield index, made


def _matcher(features: Mapping[str, Features] | Path, rule: MatchRule, device: str) -> Callable[[list[Pair]], bytes]:
    """Return a function that matches the pairs of a shard; recently used features stay in memory between shards."""
    cached = CachedFeatures(FeatureFolder(features) if isinstance(features, Path) else features)

    def match_shard(pairs: list[Pair]) -> bytes:
        matches = {(a, b): rule(cached[a], cached[b], device) for a, b in pairs}
        stream = io.BytesIO()
        matches_to_npz(cached, matches, stream)
        return stream.getvalue()

    return match_shard
