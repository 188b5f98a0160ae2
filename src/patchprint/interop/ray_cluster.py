"""Ray: work in many processes, on this machine or on the nodes of a cluster, that survives the loss of any of them.

A worker is a Ray actor that prepares itself once, as by loading a model, and then does one job after the other. Each holds one
job at a time and its result is taken before the next one is given, so that no more than one result for each worker is ever
on its way. A job that is lost with its worker or node is given to another.

Ray runs what it is sent, with the rights of whoever started it: a cluster without tokens belongs into a network whose members
are trusted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import patchprint
from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.common.progress import note

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

_SHARING_A_GPU = 4  # workers
MOST_LOSSES = 3  # workers that a job may take with it
_PATIENCE = (
    5.0  # seconds after which it is looked whether the cluster has grown or shrunk, and until an address must answer
)


@dataclass(frozen=True)
class Cluster:
    """Where to work: at the address of a cluster ("auto": the one on this machine), or in a Ray of our own on this machine."""

    address: str | None = None


@dataclass(frozen=True)
class Room:
    """What each worker takes of a node."""

    cores: float = 1.0
    gpus: float = 0.0


@dataclass(frozen=True)
class _Failed:
    """What a worker says of a job that it cannot do; others would fail as well."""

    sentence: str
    is_mistake: bool  # of the user; else a fault of a disk or a network


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """Ray, connected to a cluster whose nodes all have this version of patchprint; a Ray of our own ends with this."""
    if "ray" not in sys.modules:  # it reads them when it is imported
        os.environ.update(_environment(cluster))
    ray = require("ray", extra="cluster")
    if ray.is_initialized():
        _refuse_other_versions(ray)
        yield ray
        return
    refuse_silent(cluster.address)
    own: dict[str, Any] = {"include_dashboard": False} if cluster.address is None else {}
    try:
        with _no_dashboard(ray):
            ray.init(cluster.address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())
        if "ersion mismatch" in said:
            raise UserError(
                f"the cluster at {cluster.address} has another version of Ray or Python: {said[:300]}; install the same here"
            ) from error
        raise UserError(_no_cluster(cluster.address)) from error
    try:
        _refuse_other_versions(ray)
        yield ray
    finally:
        ray.shutdown()


def _environment(cluster: Cluster) -> dict[str, str]:
    """Settings of a Ray of our own, whose ports are open to other machines: it answers those who know a word made up here."""
    if cluster.address is not None:
        return {}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextlib.contextmanager
def _no_dashboard(ray: Any) -> Iterator[None]:
    """Start no process of the dashboard: even without pages and reports it asks for the cloud that the machine may be in."""
    services = ray._private.services
    start = services.start_api_server
    services.start_api_server = lambda *_, **__: (None, None)
    try:
        yield
    finally:
        services.start_api_server = start


def nodes(ray: Any) -> list[dict[str, Any]]:
    """The nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def room_for_workers(ray: Any, on_gpu: bool | None = None) -> Room:
    """What a worker takes: a core; where there are GPUs, a share of one with its share of the cores.

    Several share a GPU, since each of them reads photos and finds keypoints too, and it would wait for a single one.

    Args:
        on_gpu: None takes GPUs where the cluster has some.
    """
    there = ray.cluster_resources()
    cores, gpus = there.get("CPU", 0), there.get("GPU", 0)
    if on_gpu and not gpus:
        raise UserError("no node of the cluster has a GPU; leave --device out, or give --device cpu")
    if gpus and on_gpu is not False:
        sharing = max(1, min(_SHARING_A_GPU, int(cores // gpus)))
        return Room(max(1.0, cores // gpus // sharing), 1 / sharing)
    if cores < 1:
        raise UserError(
            "no node of the cluster has a core to spare; start one with ray start --address ... --num-cpus N"
        )
    return Room()


def refuse_unseen(ray: Any, *paths: Path) -> None:
    """Raise UserError where a node does not see one of these files or folders under its name."""
    texts = [str(path) for path in paths]

    def unseen() -> list[str]:
        import os

        return [text for text in texts if not os.path.exists(text)]

    for name, missing in _on_every_node(ray, unseen).items():
        if missing:
            raise UserError(
                f"node {name} does not see {missing[0]}; put it on a disk that all nodes share, under the same name, or give "
                "photos by the URL of an object storage"
            )


def spread(
    ray: Any,
    jobs: Sequence[Job],
    prepare: Callable[[], Callable[[Job], Outcome]],
    room: Room | None = None,
    report: Callable[[str], None] = note,
    on_loss: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Do all jobs on all nodes; gives the number of each job and its outcome, in the order in which they end.

    Args:
        prepare: called once by each worker; gives the function that does a job. What it raises as UserError or OSError ends
            the work with the name of the node; what is lost with a worker is done again.
        on_loss: told the number of a job that took two workers with it, which is then given up; without it the work ends, when
            more were lost.
    """
    return _Spreading(ray, jobs, prepare, room or Room(), report, on_loss).run()


class _Spreading(Generic[Job, Outcome]):
    def __init__(
        self,
        ray: Any,
        jobs: Sequence[Job],
        prepare: Callable[[], Callable[[Job], Outcome]],
        room: Room,
        report: Callable[[str], None],
        on_loss: Callable[[int], None] | None,
    ) -> None:
        self.on_loss = on_loss
        self.ray, self.jobs, self.prepare, self.room, self.report = ray, jobs, prepare, room, report
        self.waiting = deque(range(len(jobs)))
        self.running: dict[Any, tuple[Any, int]] = {}  # by the promise of an outcome: the worker, the job
        self.losses: Counter[int] = Counter()

    def run(self) -> Iterator[tuple[int, Outcome]]:
        try:
            while self.waiting or self.running:
                while self.waiting and len(self.running) < self._most_workers():
                    self._give(self._new_worker())
                ended, _ = self.ray.wait(list(self.running), num_returns=1, timeout=_PATIENCE)
                for promise in ended:
                    yield from self._take(promise)
        finally:
            for worker, _ in self.running.values():
                self.ray.kill(worker)

    def _most_workers(self) -> int:
        there = self.ray.cluster_resources()
        by_cores = there.get("CPU", 0) // self.room.cores
        return max(1, int(min(by_cores, there.get("GPU", 0) // self.room.gpus) if self.room.gpus else by_cores))

    def _new_worker(self) -> Any:
        kind = self.ray.remote(num_cpus=self.room.cores, num_gpus=self.room.gpus, max_restarts=0)(_Worker)
        return kind.remote(self.prepare)  # Ray gives it OMP_NUM_THREADS by its cores

    def _give(self, worker: Any) -> None:
        number = self.waiting.popleft()
        self.running[worker.do.remote(self.jobs[number])] = worker, number

    def _take(self, promise: Any) -> Iterator[tuple[int, Outcome]]:
        worker, number = self.running.pop(promise)
        lost = self.ray.exceptions
        try:
            outcome = self.ray.get(promise)
        except lost.OutOfDiskError as error:
            raise OSError(
                f"the disk of a node is full ({_short(error)}); make room there and run again, {_KEPT}"
            ) from error
        except (lost.RayActorError, lost.ObjectLostError, lost.WorkerCrashedError, lost.OutOfMemoryError) as error:
            self._lose(number, error)
            return
        if isinstance(outcome, _Failed):
            raise (
                UserError(outcome.sentence)
                if outcome.is_mistake
                else OSError(f"{outcome.sentence}; run again, {_KEPT}")
            )
        if self.waiting:
            self._give(worker)
        else:
            self.ray.kill(worker)
        yield number, outcome

    def _lose(self, number: int, error: Exception) -> None:
        self.losses[number] += 1
        if self.losses[number] > 1 and self.on_loss is not None:
            self.on_loss(number)
            return
        if self.losses[number] > MOST_LOSSES:
            raise OSError(
                f"{self.losses[number]} workers were lost with the same job, the last one with: {_short(error)}; most likely "
                f"a node has too little memory for it; run again, {_KEPT}"
            ) from error
        self.report(f"a worker was lost ({_short(error)}); its share of the work is given to another")
        self.waiting.appendleft(number)


_KEPT = "which goes on where this stopped"


class _Worker:
    """The actor; cloudpickle sends it by reference, so that it is this version's on every node."""

    def __init__(self, prepare: Callable[[], Callable[[Any], Any]]) -> None:
        self._prepare = prepare
        self._do: Callable[[Any], Any] | None = None

    def do(self, job: Any) -> Any:
        try:
            if self._do is None:
                self._do = self._prepare()
            return self._do(job)
        except (UserError, OSError) as error:
            return _Failed(f"node {_this_node()}: {error}", isinstance(error, UserError))


def _this_node() -> str:
    ray = require("ray", extra="cluster")
    return f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"


def _on_every_node(ray: Any, function: Callable[[], Any]) -> dict[str, Any]:
    """What a function without arguments says on each node, by the name of the node."""
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    asked = {
        f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        + (f" {node['NodeID'][:8]}" if len(nodes(ray)) > 1 else ""): ray.remote(function)
        .options(num_cpus=0, scheduling_strategy=strategy(node["NodeID"], soft=False))
        .remote()
        for node in nodes(ray)
    }
    answers = {}
    for name, promise in asked.items():
        try:
            answers[name] = ray.get(promise)
        except ray.exceptions.RayTaskError as error:
            answers[name] = error.cause
        except ray.exceptions.RayError as error:
            raise UserError(
                f"node {name} does not answer ({_short(error)}); remove it, or start Ray on it again"
            ) from error
    return answers


def _refuse_other_versions(ray: Any) -> None:
    def version() -> str:  # sent by value: a node may have no patchprint
        import patchprint

        return patchprint.__version__

    for name, found in _on_every_node(ray, version).items():
        if found != patchprint.__version__:
            has = f"patchprint {found}" if isinstance(found, str) else f"no patchprint ({found})"
            raise UserError(
                f"node {name} has {has}, and here it is {patchprint.__version__}; install patchprint=={patchprint.__version__} "
                "there, since other versions may describe photos differently"
            )


def refuse_silent(address: str | None) -> None:
    """Raise UserError where nobody answers at HOST:PORT; Ray itself would try for minutes."""
    if address is None or "://" in address or ":" not in address:
        return
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_PATIENCE):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(_no_cluster(address)) from error


def _no_cluster(address: str | None) -> str:
    where = "on this machine" if address in (None, "auto") else f"at {address}"
    return (
        f"there is no Ray cluster {where}; start one with ray start --head, and give its address as --address HOST:6379, "
        "or leave --address out to work on this machine"
    )


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]
