"""No file that is read runs code, and nothing but a download that was asked for reaches for the network."""

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import patchprint
from patchprint.common.errors import UserError
from patchprint.storage import feature_files
from patchprint.storage.match_folder import read_matches
from support.checkout import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))


class Intruder:
    """Whoever unpickles it creates a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def test_the_intruder_would_be_seen(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Intruder(tmp_path / "trace")))
    assert (tmp_path / "trace").exists()


@pytest.mark.parametrize("legacy", [False, True])
def test_weights_of_strangers_run_no_code(legacy: bool, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save({"features.0.weight": Intruder(tmp_path / "trace")}, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(UserError, match=r"weights\.pth"):
        patchprint.load(path)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("read", [feature_files.load_features, read_matches])
def test_features_and_matches_of_strangers_run_no_code(read: Any, tmp_path: Path) -> None:
    names = ("model", "names")  # what the readers ask for first
    intruder = np.array([Intruder(tmp_path / "trace")], dtype=object)
    np.savez(tmp_path / "given.npz", **dict.fromkeys(names, intruder))
    with pytest.raises(UserError, match=r"given\.npz"):
        read(tmp_path / "given.npz")
    assert not (tmp_path / "trace").exists()


def calls() -> Iterator[tuple[str, str, set[str]]]:
    """File, dotted name and keywords of every call in the package."""
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield (
                    file.name,
                    ast.unparse(node.func),
                    {f"{each.arg}={ast.unparse(each.value)}" for each in node.keywords},
                )


def test_loaders_that_could_unpickle_are_told_not_to() -> None:
    loaders = {"np.load": "allow_pickle=False", "torch.load": "weights_only=True"}
    seen = [(file, name, loaders[name] in keywords) for file, name, keywords in calls() if name in loaders]
    assert {name for _, name, _ in seen} == set(loaders) and [each for each in seen if not each[2]] == []


def imported() -> Iterator[tuple[str, str]]:
    """File and module of every import in the package, optional ones included."""
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((file.name, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield file.name, node.module.partition(".")[0]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "require":
                yield file.name, ast.unparse(node.args[0]).strip("'").partition(".")[0]


def test_nothing_is_unpickled_or_evaluated() -> None:
    assert [each for each in imported() if each[1] in ("pickle", "marshal", "shelve", "dill", "joblib")] == []
    assert [(file, name) for file, name, _ in calls() if name in ("eval", "exec")] == []


def test_only_downloads_know_the_network() -> None:
    network = {"urllib", "http", "socket", "socketserver", "ssl", "ftplib", "requests", "httpx", "aiohttp", "pooch"}
    # One calls, one asks whether there is a cluster at the address it was given, one listens.
    assert {file for file, module in imported() if module in network} == {
        "downloads.py",
        "server.py",
        "ray_cluster.py",
    }
