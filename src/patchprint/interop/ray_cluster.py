"""Run jobs on a Ray cluster, or on all cores of this machine, and survive the loss of workers and nodes.

A worker is a Ray actor that prepares itself once, as by loading a model, and runs one job after the other. The scheduler is our
own: Ray Data's ``map_batches`` with an actor pool (Ray 2.60) retries a job that kills its worker for ever, computes results far
ahead of a slow consumer (21 of 24), and waits for ever on a cluster of one core.

Ray runs what it is sent, with the rights of whoever started it: a cluster without tokens must be in a network whose members
are trusted.
"""

import contextlib
import logging
import os
import secrets
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import patchprint
from patchprint.common.errors import UserError, require

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

_WORKERS_PER_GPU = 4
MAX_RETRIES = 3  # per job, after its worker died
_POLL_SECONDS = 5.0  # between looks at the size of the cluster, and until an address must answer


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster by address ("auto": the one on this machine), or without address a local Ray instance of our own."""

    address: str | None = None


@dataclass(frozen=True)
class WorkerResources:
    """CPU cores and GPUs (or a fraction of one) that each worker takes of its node."""

    cores: float = 1.0
    gpus: float = 0.0


class WorkerLostError(OSError):
    """A job killed its worker each time that it was tried."""


@contextlib.contextmanager
def connect(cluster: Cluster) -> Iterator[Any]:
    """Connect Ray to a cluster whose nodes all have this version of patchprint; a local instance is shut down at the end."""
    if "ray" not in sys.modules:  # it reads them when it is imported
        os.environ.update(_environment(cluster))
    ray = require("ray", extra="cluster")
    if ray.is_initialized():
        _refuse_other_versions(ray)
        yield ray
        return
    check_address(cluster.address)
    own: dict[str, Any] = {"include_dashboard": False} if cluster.address is None else {}
    # Even without pages and reports, the process of the dashboard asks for the cloud that the machine may be in.
    no_dashboard = patch.object(ray._private.services, "start_api_server", lambda *_, **__: (None, None))
    try:
        with no_dashboard:
            ray.init(cluster.address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())
        if "ersion mismatch" in said:
            raise UserError(
                f"the cluster has another version of Ray or Python: {said[:300]}; install the same here"
            ) from error
        raise UserError(_no_cluster(cluster.address)) from error
    try:
        _refuse_other_versions(ray)
        with contextlib.redirect_stdout(sys.stderr):  # where Ray reports dead workers: stdout is for results
            yield ray
    finally:
        ray.shutdown()


def _environment(cluster: Cluster) -> dict[str, str]:
    """Settings of a local Ray instance, whose ports are open to other machines: it requires a random auth token."""
    return {} if cluster.address else {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def nodes(ray: Any) -> list[dict[str, Any]]:
    """The nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def worker_resources(ray: Any, device: str = "auto") -> WorkerResources:
    """What a worker takes: one core, or a share of a GPU with its share of the cores.

    Several workers share a GPU, since each of them also reads images and detects keypoints, while a GPU would wait for one.

    Args:
        device: auto takes GPUs where the cluster has some; cpu leaves them alone.
    """
    there = ray.cluster_resources()
    cores, gpus = there.get("CPU", 0), there.get("GPU", 0)
    if device not in ("auto", "cpu") and not gpus:
        raise UserError("no node of the cluster has a GPU; leave --device out, or give --device cpu")
    if gpus and device != "cpu":
        sharing = max(1, min(_WORKERS_PER_GPU, int(cores // gpus)))
        return WorkerResources(max(1.0, cores // gpus // sharing), 1 / sharing)
    if cores < 1:
        raise UserError("no node of the cluster has a free core; start one with ray start --address ... --num-cpus N")
    return WorkerResources()


def check_paths_on_nodes(ray: Any, *paths: Path) -> None:
    """Raise UserError where a file or folder does not exist on a node."""
    for name, missing in _on_every_node(ray, lambda: [str(path) for path in paths if not path.exists()]).items():
        if missing:
            raise UserError(f"node {name} does not see {missing[0]}; use a shared disk or a URL of object storage")


def run_jobs(
    ray: Any,
    jobs: Sequence[Job],
    prepare: Callable[[], Callable[[Job], Outcome]],
    resources: WorkerResources | None = None,
    retries: int = MAX_RETRIES,
) -> Iterator[tuple[int, Outcome | WorkerLostError]]:
    """Run jobs on all nodes and yield the number and the outcome of each, as they finish.

    A worker gets its next job when the outcome of the last one was taken, so that a slow consumer slows workers down.
    Ray restarts a worker that died, with its job, up to ``retries`` times; the outcome of such a job is the error.

    Args:
        prepare: called once by each worker; returns the function that runs a job.

    Raises:
        UserError or OSError: that ``prepare`` or a job raised, with the name of the node.
    """
    resources = resources or WorkerResources()
    create = ray.remote(num_cpus=resources.cores, num_gpus=resources.gpus, max_restarts=-1, max_task_retries=retries)(
        _Worker
    ).remote
    waiting = deque(enumerate(jobs))
    running: dict[Any, tuple[Any, int]] = {}  # by the future of an outcome: the worker, the number of its job

    def submit(worker: Any) -> None:
        number, job = waiting.popleft()
        running[worker.run.remote(job)] = worker, number

    try:
        while waiting or running:
            while waiting and len(running) < _max_workers(ray, resources):
                submit(create(prepare))  # Ray sets OMP_NUM_THREADS to its cores
            ended, _ = ray.wait(list(running), num_returns=1, timeout=_POLL_SECONDS)
            for future in ended:
                outcome = _outcome(ray, future, retries)
                worker, number = running.pop(future)
                if waiting:
                    submit(worker)
                else:
                    ray.kill(worker)
                yield number, outcome
    finally:
        for worker, _ in running.values():
            ray.kill(worker)


def _max_workers(ray: Any, resources: WorkerResources) -> int:
    """How many workers the cluster has resources for now; it may grow and shrink."""
    there = ray.cluster_resources()
    by_cores = there.get("CPU", 0) // resources.cores
    return max(1, int(min(by_cores, there.get("GPU", 0) // resources.gpus) if resources.gpus else by_cores))


def _outcome(ray: Any, future: Any, retries: int) -> Any:
    """Return the outcome of a job, a WorkerLostError among them; raises the error that ends the work."""
    errors = ray.exceptions
    try:
        return ray.get(future)
    except errors.RayTaskError as error:  # it would fail on other nodes as well
        raise error.cause if isinstance(error.cause, UserError | OSError) else error from None
    except errors.OutOfDiskError as error:
        raise OSError(f"the disk of a node is full ({_short(error)}); make room and run again, {_RESUMES}") from error
    except (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
        return WorkerLostError(
            f"a worker died {retries + 1} times with the same job, the last time with: {_short(error)}; most likely a node "
            f"has too little memory for it; run again, {_RESUMES}"
        )


_RESUMES = "which goes on where this stopped"


class _Worker:
    """The actor; cloudpickle sends it by reference, so that it is this version's on every node."""

    def __init__(self, prepare: Callable[[], Callable[[Any], Any]]) -> None:
        self._prepare = prepare
        self._run_job: Callable[[Any], Any] | None = None

    def run(self, job: Any) -> Any:
        try:
            if self._run_job is None:
                self._run_job = self._prepare()
            return self._run_job(job)
        except (UserError, OSError) as error:
            address = require("ray", extra="cluster").util.get_node_ip_address()
            message = f"node {socket.gethostname()} ({address}): {error}"
            raise (
                UserError(message) if isinstance(error, UserError) else OSError(f"{message}; run again, {_RESUMES}")
            ) from None


def _on_every_node(ray: Any, function: Callable[[], Any]) -> dict[str, Any]:
    """The result of a function without arguments on each node, by node name; an error is a result, too."""
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    asked, alive = {}, nodes(ray)
    for node in alive:
        name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        name += f" {node['NodeID'][:8]}" if len(alive) > 1 else ""
        place = {"num_cpus": 0, "scheduling_strategy": strategy(node["NodeID"], soft=False)}
        asked[name] = ray.remote(function).options(**place).remote()
    answers = {}
    for name, promise in asked.items():
        try:
            answers[name] = ray.get(promise)
        except ray.exceptions.RayTaskError as error:
            answers[name] = error.cause
        except ray.exceptions.RayError as error:
            raise UserError(f"node {name} does not answer ({_short(error)}); remove it or restart Ray on it") from error
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
                "there, since other versions may describe images differently"
            )


def check_address(address: str | None) -> None:
    """Raise UserError where no server answers at HOST:PORT; Ray itself would try for minutes."""
    if address is None or "://" in address or ":" not in address:
        return
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_POLL_SECONDS):
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
