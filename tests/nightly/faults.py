"""Every fault in every writer, at every size and many moments; kills of long work.

``make faults`` does it for the night, with another seed each time, and writes ``results/reliability/faults.json``. Where the
system lets us (``unshare``), disks are also really full and really read-only: a tmpfs in a namespace of its own.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import injection
from faults.injection import Bench, Injected
from faults.writers import NEW, all_writers
from patchprint.common import files, provenance
from patchprint.features.extract import DescribeSettings
from patchprint.networks import weights
from patchprint.pipelines.sfm_folder import SfmFolder
from patchprint.pipelines.structure_from_motion import SfmSettings, sfm
from patchprint.storage.feature_folder import describe_folder
from patchprint.training import checkpoint, resolve
from patchprint.training.loop import train
from support import children, training_data
from support.checkout import ROOT
from support.scenes import THREE_VIEWS

IN_NAMESPACE = "PATCHPRINT_FAULTS_NAMESPACE"
PAGE = 4096
ROOMY = 256 * 2**20


class Tmpfs:
    """A disk of our own, whose size and rights change while it is in use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "tmpfs", folder], check=True)

    @contextmanager
    def with_room_for(self, size: int) -> Iterator[None]:
        used = shutil.disk_usage(self.folder).used
        self._remount(f"size={used + size // PAGE * PAGE or PAGE}")
        try:
            yield
        finally:
            self._remount(f"size={ROOMY}")

    @contextmanager
    def read_only(self, _: Path) -> Iterator[None]:
        self._remount("ro")
        try:
            yield
        finally:
            self._remount("rw")

    def _remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", self.folder], check=True)


def play_writers(place: Path, chosen: argparse.Namespace, generator: random.Random) -> Iterator[Injected]:
    disk = Tmpfs(place / "tmpfs") if os.environ.get(IN_NAMESPACE) else None
    for writer in all_writers(place / "work").values():
        bench = Bench(writer, place / writer.name)
        bench.start_with(NEW)
        largest = bench.size()
        sizes = sorted({0, 1, largest - 1, *(largest * number // chosen.sizes for number in range(chosen.sizes))})
        yield from injection.full_disk(bench, sizes)
        yield from injection.kills_at_moments(bench)
        yield from injection.kills_at_random(bench, chosen.kills, generator)
        yield from injection.several_writers(bench, max(1, chosen.kills // 4), generator)
        if disk is None:
            yield from injection.read_only(bench, injection.NoRights)
        else:
            bench = Bench(writer, disk.folder / writer.name)
            bench.start_with(NEW)
            whole = sum(path.stat().st_size for path in bench.folder.rglob("*") if path.is_file())
            pages = range(0, 2 * whole + 8 * PAGE, max(1, whole // PAGE // chosen.sizes) * PAGE)
            yield from injection.full_disk(bench, pages, disk.with_room_for, "full tmpfs")
            yield from injection.read_only(bench, disk.read_only)
        print(f"{writer.name} done", flush=True)


@dataclass(frozen=True)
class LongWork:
    """Work of several steps that is killed anywhere and called again, and must end as if it had not been.

    ``run`` begins the work in a folder or goes on with it; ``read`` gives what must not depend on kills.
    """

    name: str
    run: Callable[[Path], object]
    read: Callable[[Path], Any]
    longest: float
    """Seconds within which it is killed."""


def all_works(place: Path) -> list[LongWork]:
    """``place`` is a folder for what they work on."""
    photos, source = place / "photos", training_data.images()
    THREE_VIEWS.write(photos)
    settings = DescribeSettings(model="rootsift", max_keypoints=600)
    steps = {"steps": 12, "checkpoint_every": 2, "validate_every": 3, "average": 0.9}
    config = resolve("hardnet", **{**training_data.SHORT, **steps, "network_options": training_data.narrow("hardnet")})

    def learn(out: Path) -> None:
        resume = checkpoint.any_in(out / "checkpoints")
        train(config, source, out=out, resume=resume, force=not resume)

    return [
        LongWork("describe", lambda out: describe_folder(photos, out, settings), _all_bytes, 0.6),
        LongWork("train", learn, _weights, 1.5),
        LongWork("sfm", lambda out: sfm(photos, out, SfmSettings(describe=settings)), _registered, 6.0),
    ]


def kills(work: LongWork, folder: Path, count: int, generator: random.Random) -> Iterator[Injected]:
    """Up to three kills in a row, then to the end; ``count`` times."""
    out = folder / "out"
    ended = children.run(lambda: work.run(out))
    assert ended.how == "done", ended
    truth = work.read(out)
    for _ in range(count):
        shutil.rmtree(folder)
        folder.mkdir()
        moments = []
        for _ in range(generator.randint(1, 3)):
            seconds = generator.uniform(0, work.longest)
            if children.kill_after(seconds, lambda: work.run(out)).how == "killed":
                moments.append(f"{seconds:.2f} s")
        ended = children.run(lambda: work.run(out))
        if moments:
            problem = f"it cannot go on: {ended}" if ended.how != "done" else ""
            problem = problem or ("" if work.read(out) == truth else "it ended otherwise")
            rubbish = sorted(path.name for path in folder.iterdir() if path != out)
            problem = problem or (f"left behind: {', '.join(rubbish)}" if rubbish else "")
            yield Injected(work.name, "kill of a long work", f"after {', '.join(moments)}", problem)


def _all_bytes(out: Path) -> Any:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def _weights(out: Path) -> Any:
    return [weights.read_info(out / f"{name}.safetensors").sha256 for name in ("last", "best")]


def _registered(out: Path) -> Any:
    return SfmFolder.open(out).model.num_reg_images(), sorted(path.name for path in out.iterdir())


def play_works(place: Path, chosen: argparse.Namespace, generator: random.Random) -> Iterator[Injected]:
    for work in all_works(place):
        yield from kills(work, place / work.name, chosen.works, generator)
        print(f"{work.name} done", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6, help="another one each time")
    parser.add_argument("--sizes", type=int, default=200, help="sizes of the disk for each writer")
    parser.add_argument("--kills", type=int, default=100, help="kills at random moments of each writer")
    parser.add_argument("--works", type=int, default=30, help="killed runs of each long work")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "reliability" / "faults.json")
    chosen = parser.parse_args()
    if IN_NAMESPACE not in os.environ and _has_namespaces():
        command = [sys.executable, "-m", "nightly.faults", *sys.argv[1:], "--seed", str(chosen.seed)]
        return subprocess.run(
            ["unshare", "-rm", *command], env={**os.environ, IN_NAMESPACE: "1"}, check=False
        ).returncode
    started, generator = time.monotonic(), random.Random(chosen.seed)
    place = Path(tempfile.mkdtemp(prefix="patchprint-faults-"))
    place.chmod(0o755)
    try:
        found = [*play_writers(place, chosen, generator), *play_works(place / "works", chosen, generator)]
    finally:
        if os.environ.get(IN_NAMESPACE):
            subprocess.run(["umount", place / "tmpfs"], check=False)
        shutil.rmtree(place)
    scores = injection.tally(found)
    nightly = chosen.sizes >= 200 and chosen.kills >= 100 and chosen.works >= 30
    settings = {
        "sizes": chosen.sizes,
        "kills": chosen.kills,
        "works": chosen.works,
        "real_tmpfs": bool(os.environ.get(IN_NAMESPACE)),
        "size": "nightly" if nightly else "smaller than nightly (200 sizes, 100 kills, 30 works)",
    }
    command = f"make faults SEED={chosen.seed} SIZES={chosen.sizes} KILLS={chosen.kills} WORKS={chosen.works}"
    result = provenance.record(
        "faults", settings=settings, scores=scores, seed=chosen.seed, started=started, command=command
    )
    files.write_json(chosen.out, result.to_json())
    print("\n".join(scores["problems"]))  # type: ignore[arg-type]
    print(f"{scores['injected']} faults, {scores['recovered']} recovered, {scores['lost']} lost; {chosen.out}")
    return 1 if scores["lost"] else 0


def _has_namespaces() -> bool:
    return (
        shutil.which("unshare") is not None and subprocess.run(["unshare", "-rm", "true"], check=False).returncode == 0
    )


if __name__ == "__main__":
    sys.exit(main())
