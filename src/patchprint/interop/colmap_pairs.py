"""Which pairs of photos COLMAP matches: all, those near in sequence, or those that look alike.

COLMAP's own retrieval needs a vocabulary from the internet. Here each photo is summed up by how its SIFT descriptors deviate
from 64 centres learned on the same photos (VLAD), and is paired with the photos whose sums are nearest.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any, Literal

import numpy as np

from patchprint.errors import UserError
from patchprint.extras import require

Matching = Literal["exhaustive", "sequential", "retrieval"]
CENTERS = 64
NEIGHBORS = 30
OVERLAP = 15  # photos before and after, for sequences


def match_images(database: Path, matching: Matching, verification: Any, seed: int = 0) -> None:
    """Match and verify with COLMAP on the CPU; pairs that were matched before are skipped."""
    from patchprint.interop.colmap import pycolmap

    cpu = pycolmap.Device.cpu
    if matching == "exhaustive":
        pycolmap.match_exhaustive(database, verification_options=verification, device=cpu)
    elif matching == "sequential":
        options = pycolmap.SequentialPairingOptions(overlap=OVERLAP, loop_detection=False)
        pycolmap.match_sequential(database, pairing_options=options, verification_options=verification, device=cpu)
    else:
        listing = database.with_name("pairs.txt")
        listing.write_text("".join(f"{a} {b}\n" for a, b in similar_pairs(database, seed=seed)), encoding="utf-8")
        imported = pycolmap.ImportedPairingOptions(match_list_path=str(listing))
        pycolmap.match_image_pairs(database, pairing_options=imported, verification_options=verification, device=cpu)


def similar_pairs(database: Path, neighbors: int = NEIGHBORS, seed: int = 0) -> list[tuple[str, str]]:
    """Each photo with the ``neighbours`` that look most like it, by name, every pair once."""
    names, descriptors = _read_descriptors(database)
    if len(names) < 2:
        raise UserError(f"{database} holds {len(names)} photos with descriptors; pairs need two")
    generator = np.random.default_rng(seed)
    sample = np.concatenate([d[generator.permutation(len(d))[:200]] for d in descriptors])
    cluster = require("sklearn.cluster", extra="sfm")
    kmeans = cluster.MiniBatchKMeans(min(CENTERS, len(sample)), random_state=seed, n_init=1).fit(sample)
    sums = np.stack([_vlad(kmeans, d) for d in descriptors])
    likeness = sums @ sums.T
    np.fill_diagonal(likeness, -np.inf)
    nearest = np.argsort(-likeness, axis=1, kind="stable")[:, : min(neighbors, len(names) - 1)]
    pairs = {tuple(sorted((i, int(j)))) for i, row in enumerate(nearest) for j in row}
    return [(names[a], names[b]) for a, b in sorted(pairs)]


def _vlad(kmeans: Any, descriptors: np.ndarray) -> np.ndarray:
    label = kmeans.predict(descriptors)
    total = np.zeros_like(kmeans.cluster_centers_)
    np.add.at(total, label, descriptors - kmeans.cluster_centers_[label])
    total /= np.linalg.norm(total, axis=1, keepdims=True) + 1e-9
    return (total / (np.linalg.norm(total) + 1e-9)).reshape(-1)


def _read_descriptors(database: Path) -> tuple[list[str], list[np.ndarray]]:
    """Names and RootSIFT-like descriptors (N, 128) of the photos that have any."""
    query = "SELECT name, rows, cols, data FROM images JOIN descriptors USING (image_id) WHERE rows > 0 ORDER BY name"
    with contextlib.closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute(query).fetchall()
    tables = [
        np.frombuffer(data, np.uint8).reshape(count, columns).astype(np.float32) for _, count, columns, data in rows
    ]
    return [row[0] for row in rows], [table / (np.linalg.norm(table, axis=1, keepdims=True) + 1e-9) for table in tables]
