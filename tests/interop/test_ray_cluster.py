"""Work on a cluster of Ray: the result of one machine, whatever is lost on the way, and sentences where there is none."""

import contextlib
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from patchprint import cli
from patchprint.features.extract import DescribeSettings
from patchprint.interop import ray_cluster
from patchprint.interop.ray_cluster import (
    Cluster,
    WorkerResources,
    check_paths_on_nodes,
    connect,
    run_jobs,
    worker_resources,
)
from patchprint.matching.pair_selection import choose_pairs
from patchprint.storage import describe_jobs, feature_files
from patchprint.storage.describe_jobs import Job
from patchprint.storage.feature_folder import describe_folder
from patchprint.storage.match_folder import match_folder
from support.known_images import texture

ray = pytest.importorskip("ray", reason="a cluster is one of Ray (the extra cluster)")

PHOTOS = 200
SETTINGS = DescribeSettings(model="pixels", max_keypoints=16, engine="float32")


@pytest.fixture(scope="module")
def running_nodes() -> Iterator[Any]:
    """A cluster of three nodes with one core each, on this machine."""
    from ray.cluster_utils import Cluster as LocalCluster

    small = {"num_cpus": 1, "object_store_memory": 80_000_000}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_health_check_period_ms", "500")  # a node that is gone is noticed soon
        nodes = LocalCluster(initialize_head=True, head_node_args=small)
        try:
            for _ in range(2):
                nodes.add_node(**small)
            yield nodes
        finally:
            nodes.shutdown()


@pytest.fixture
def three_nodes(running_nodes: Any) -> Iterator[Any]:
    """That cluster, and this process connected to it for one test: in which order tests run is not known."""
    ray.init(running_nodes.address, log_to_driver=False, logging_level="ERROR")
    yield running_nodes
    ray.shutdown()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "photos"
    folder.mkdir()
    scenes = [texture(150, 190, seed) for seed in range(8)]
    for number in range(PHOTOS):
        left, top = np.random.default_rng(number).integers(0, 90, 2)
        cv2.imwrite(str(folder / f"{number:03}.png"), scenes[number % 8][top : top + 60, left : left + 100])
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_a_lost_worker_and_a_lost_node_cost_nothing_but_time(
    three_nodes: Any, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = describe_folder(photos, tmp_path / "alone", SETTINGS, shards=True)

    fate = threading.Thread(target=_lose_a_worker_and_a_node, args=(three_nodes, tmp_path / "there"))
    fate.start()
    there = describe_folder(photos, tmp_path / "there", SETTINGS, cluster=Cluster())
    fate.join()
    _wait(lambda: len(ray_cluster.nodes(ray)) == 2)  # Ray notices it a moment later
    assert len(ray_cluster.nodes(ray)) == 2
    assert contents(tmp_path / "there") == contents(tmp_path / "alone")

    pairs = choose_pairs(alone, "retrieval", 3)
    match_folder(alone, pairs, tmp_path / "matched alone")
    match_folder(there, pairs, tmp_path / "matched there", cluster=Cluster())
    assert contents(tmp_path / "matched there") == contents(tmp_path / "matched alone")

    monkeypatch.setattr(ray_cluster, "connect", None)  # nobody is asked for what is done
    assert len(describe_folder(photos, there.folder, SETTINGS, cluster=Cluster())) == PHOTOS
    assert match_folder(there, pairs, tmp_path / "matched there", cluster=Cluster()).missing() == []


def test_a_worker_says_what_is_wrong_with_a_photo(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no image")
    jobs = [Job(path, None, tmp_path / "out.npz") for path in (photos / "001.png", tmp_path / "bad.png")]
    good, bad = describe_jobs._describer(SETTINGS, torch.get_num_threads())(jobs)
    assert isinstance(good, bytes) and len(feature_files.load_features("001.png", good)) == 16
    assert str(bad) == f"{tmp_path}/bad.png is not an image that can be read; it is damaged, or of an unknown format"


def _lose_a_worker_and_a_node(nodes: Any, out: Path) -> None:
    """When some shards are there, kill the process of a worker; some shards later, a node with all that is on it."""
    _wait(lambda: _count(out) >= 5)
    os.kill(_a_worker(), signal.SIGKILL)
    _wait(lambda: _count(out) >= 12)
    nodes.remove_node(nodes.list_all_nodes()[-1], allow_graceful=False)


def _count(out: Path) -> int:
    return len(list((out / "shards").glob("*.zip"))) if (out / "shards").is_dir() else 0


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def _a_worker() -> int:
    """A process of Ray, started by this one, that does a job."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if (place / "cmdline").read_bytes().startswith(b"ray::_Worker") and _is_below(int(place.name), os.getpid()):
                return int(place.name)
    raise AssertionError("there is no worker")


def _is_below(process: int, ancestor: int) -> bool:
    while process not in (0, 1, ancestor):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == ancestor


def test_faults_of_workers_name_the_node(three_nodes: Any, tmp_path: Path) -> None:
    def prepare() -> Callable[[str], str]:
        def work(job: str) -> str:
            if job == "full":
                raise OSError(28, "No space left on device", "/there/x")
            return job.upper()

        return work

    host, done = socket.gethostname(), []
    expected = rf"node {host} \(.*No space left on device.*/there/x.*goes on where this stopped"
    with pytest.raises(OSError, match=expected):
        for number, outcome in run_jobs(ray, ["a", "b", "c", "full"], prepare, WorkerResources(0.1)):
            done.append((number, outcome))
    assert done and set(done) <= {(0, "A"), (1, "B"), (2, "C")}, "what was done before is given out"
    with pytest.raises(ValueError, match=rf"node {host} .* does not see {tmp_path}/nowhere; use a shared disk"):
        check_paths_on_nodes(ray, tmp_path, tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no node of the cluster has a GPU"):
        worker_resources(ray, "cuda")


def test_a_job_that_kills_every_worker_is_given_up(three_nodes: Any) -> None:
    def prepare() -> Callable[[int], None]:
        return lambda job: os._exit(1)

    ((number, outcome),) = run_jobs(ray, [0], prepare, retries=1)
    assert number == 0 and isinstance(outcome, ray_cluster.WorkerLostError)
    assert re.search("a worker died 2 times with the same job.*goes on where this stopped", str(outcome))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="reads the memory of this machine as Linux tells it")
def test_a_job_that_takes_all_memory_is_ended_by_ray_and_given_up(tmp_path: Path) -> None:
    """By Ray's memory monitor, whose limit is set 1.5 GB above what this machine uses now."""
    from ray.cluster_utils import Cluster as LocalCluster

    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    memory = {line[0]: int(line[1]) * 1024 for line in lines}
    limit = 1 - (memory["MemAvailable:"] - 1.5e9) / memory["MemTotal:"]
    if limit > 0.95:
        pytest.skip("this machine has no 1.5 GB to spare")

    def prepare() -> Callable[[str], str]:
        def work(job: str) -> str:
            held: list[bytearray] = []
            until = time.monotonic() + 100
            while job == "huge" and time.monotonic() < until:
                if len(held) < 120:  # 6 GB: others on the machine may free some meanwhile
                    held.append(bytearray(b"x" * 50_000_000))
                    (tmp_path / str(os.getpid())).write_text(str(len(held)))
                time.sleep(0.01)
            return job

        return work

    monitor = {"memory_usage_threshold": limit, "memory_monitor_refresh_ms": 100}
    nodes = LocalCluster(True, head_node_args={"num_cpus": 1, "object_store_memory": 8e7, "_system_config": monitor})
    try:
        ray.init(nodes.address, log_to_driver=False, logging_level="ERROR")
        outcomes = dict(run_jobs(ray, ["huge", "small"], prepare, retries=1))
        assert outcomes[1] == "small" and isinstance(outcomes[0], ray_cluster.WorkerLostError)
        assert re.search("a worker died 2 times with the same job.*too little memory", str(outcomes[0]))
        taken = [int(path.read_text()) for path in tmp_path.iterdir()]
        assert len(taken) == 2 and max(taken) < 120, f"ended by something else, with {taken} times 50 MB"
    finally:
        ray.shutdown()
        nodes.shutdown()


def test_workers_share_gpus() -> None:
    class Machines:
        def __init__(self, **there: float) -> None:
            self.there = there

        def cluster_resources(self) -> dict[str, float]:
            return self.there

    assert worker_resources(Machines(CPU=8)) == WorkerResources(1.0)
    assert worker_resources(Machines(CPU=32, GPU=2)) == WorkerResources(4.0, 0.25)
    assert worker_resources(Machines(CPU=4, GPU=2)) == WorkerResources(1.0, 0.5)
    assert worker_resources(Machines(CPU=4, GPU=2), "cpu") == WorkerResources(1.0)
    with pytest.raises(ValueError, match="has a free core"):
        worker_resources(Machines())


def test_a_ray_of_our_own_asks_for_a_token() -> None:
    first, second = (ray_cluster._environment(Cluster()) for _ in range(2))
    assert first["RAY_AUTH_MODE"] == "token" and len(first["RAY_AUTH_TOKEN"]) == 64
    assert first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]
    assert ray_cluster._environment(Cluster("auto")) == {}


def test_other_versions_are_refused(three_nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchprint.__version__", "9.9")
    with (
        pytest.raises(
            ValueError, match=r"node .* has patchprint 0\.\d.*, and here it is 9\.9; install patchprint==9\.9"
        ),
        connect(Cluster()),
    ):
        pass


def test_no_cluster_at_the_address(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = ["describe", str(photos), "--model", "pixels", "--out", str(tmp_path / "out"), "--address", address]
    assert cli.main([*command, "--engine", "ray"]) == 2
    assert f"there is no Ray cluster at {address}; start one with ray start --head" in capsys.readouterr().err
    assert cli.main(command) == 2
    assert "give --engine ray too" in capsys.readouterr().err
    assert cli.main(["match", "a.png", "b.png", "--engine", "ray"]) == 2
    assert "a cluster matches many images" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
