"""Faults, put into writers one at a time, and what became of each.

After a fault the name must hold the old content or the new one, whole; the error must have named it; the next writer must
succeed; and then nothing else may lie beside it.
"""

import contextlib
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from faults.writers import NEW, OLD, Writer
from support import children
from support.children import Ending
from support.full_disk import files_limited_to

Limit = Callable[[int], AbstractContextManager[None]]


@dataclass(frozen=True)
class Injected:
    """One fault, where it struck, and what was lost by it (nothing, if ``problem`` is empty)."""

    writer: str
    fault: str
    where: str
    problem: str = ""


def tally(found: Iterable[Injected]) -> dict[str, object]:
    """Numbers for a result file."""
    found = list(found)
    return {
        "injected": len(found),
        "recovered": sum(not each.problem for each in found),
        "lost": sum(bool(each.problem) for each in found),
        "by_fault": dict(sorted(Counter(each.fault for each in found).items())),
        "by_writer": dict(sorted(Counter(each.writer for each in found).items())),
        "problems": [f"{each.writer}, {each.fault} {each.where}: {each.problem}" for each in found if each.problem],
    }


class Bench:
    """A folder in which one writer is put to the test; ``truth`` is how its two contents read."""

    def __init__(self, writer: Writer, folder: Path) -> None:
        self.writer, self.folder = writer, folder
        self.out = folder / f"the output{writer.suffix}"
        self.truth = {}
        for which in (OLD, NEW):
            self.start_with(which)
            self.truth[which] = writer.read(self.out)
        assert self.truth[OLD] != self.truth[NEW]

    def start_with(self, which: int | None) -> None:
        """The folder with one of the contents, or with none. Each content is written once, and then copied."""
        shutil.rmtree(self.folder, ignore_errors=True)
        kept = self.folder.with_name(f"{self.folder.name}, {which}")
        if kept.exists():
            shutil.copytree(kept, self.folder)
            return
        self.folder.mkdir(parents=True)
        if which is not None:
            ended = children.run(lambda: self.writer.write(self.out, which))
            assert ended.how == "done", ended
            shutil.copytree(self.folder, kept)

    def size(self) -> int:
        """Bytes of the largest file of what is there."""
        files = [self.out] if self.out.is_file() else [path for path in self.out.rglob("*") if path.is_file()]
        return max(path.stat().st_size for path in files)

    def write_new(self) -> object:
        return self.writer.write(self.out, NEW)

    def judge(self, before: int | None, ended: Ending) -> str:
        """What is wrong after a fault, if anything; leaves the new content there."""
        if ended.how == "crashed":
            return f"it crashed: {ended.said[-400:]}"
        if ended.how == "refused" and self.out.name not in ended.said:
            return f"the error does not name the file: {ended.said}"
        allowed = [self.truth[NEW]] if ended.how == "done" else [self.truth[NEW], self.truth.get(before)]
        # A folder may be a writer's leftover that the next one puts back; a file never leaves its name.
        if self.writer.locks and not self.out.exists() and before is not None:
            back = [path for path in self.folder.iterdir() if path.name.endswith(".old")]
            if not back or self.writer.read(back[0]) != self.truth[before]:
                return "the old folder is gone"
        elif self.out.exists() or before is not None:
            try:
                held = self.writer.read(self.out)
            except Exception as error:
                return f"what is there cannot be read: {error!r}"
            if held not in allowed:
                return "what is there is neither the old nor the new"
        again = children.run(self.write_new)
        if again.how != "done" or self.writer.read(self.out) != self.truth[NEW]:
            return f"the next writer failed: {again}"
        rubbish = sorted({path.name for path in self.folder.iterdir()} - {self.out.name})
        return f"left behind: {', '.join(rubbish)}" if rubbish else ""


def full_disk(
    bench: Bench, sizes: Iterable[int], limit: Limit = files_limited_to, fault: str = "full disk"
) -> Iterator[Injected]:
    """The disk is full when so many bytes were written. Sizes that were enough are no fault."""
    for size in sizes:
        for before in (None, OLD):
            bench.start_with(before)
            with limit(size):
                ended = children.run(bench.write_new)
            if ended.how != "done" or bench.writer.read(bench.out) != bench.truth[NEW]:
                yield Injected(bench.writer.name, fault, f"after {size} bytes", bench.judge(before, ended))


def kills_at_moments(bench: Bench, step: int = 1) -> Iterator[Injected]:
    """A kill before every ``step``-th change of names on the disk."""
    for before in (None, OLD):
        moment = 1
        while True:
            bench.start_with(before)
            ended = children.kill_at(moment, bench.write_new)
            if ended.how != "killed":
                assert ended.how == "done", ended
                break
            yield Injected(bench.writer.name, "kill", f"before change {moment}", bench.judge(before, ended))
            moment += step


def kills_at_random(bench: Bench, count: int, generator: random.Random, longest: float = 0.15) -> Iterator[Injected]:
    """Kills anywhere, also inside of libraries; those that came too late are no fault."""
    for _ in range(count):
        before = generator.choice([None, OLD])
        bench.start_with(before)
        seconds = generator.uniform(0, longest)
        ended = children.kill_after(seconds, bench.write_new)
        if ended.how == "killed":
            problem = bench.judge(before, ended)
            yield Injected(bench.writer.name, "kill at random", f"after {1000 * seconds:.1f} ms", problem)


def read_only(bench: Bench, closed: Callable[[Path], AbstractContextManager[None]]) -> Iterator[Injected]:
    """The folder may be read and not written; ``closed`` makes it so for the child that enters it."""

    def write() -> object:
        with closed(bench.folder):
            return bench.write_new()

    for before in (None, OLD):
        bench.start_with(before)
        ended = children.run(write)
        problem = bench.judge(before, ended)
        if ended.how == "done":
            problem = "it was written all the same"
        yield Injected(bench.writer.name, "read-only folder", "", problem)


def several_writers(bench: Bench, rounds: int, generator: random.Random) -> Iterator[Injected]:
    """Three writers at once; where there is a lock, one may be refused with a sentence about it."""
    for number in range(rounds):
        before = generator.choice([None, OLD])
        bench.start_with(before)
        actions = [lambda which=which: bench.writer.write(bench.out, which) for which in (OLD, NEW, NEW)]
        endings = children.side_by_side(actions, generator)
        refused = [each for each in endings if each.how == "refused"]
        wrong = [each for each in endings if each.how == "crashed"]
        wrong += [each for each in refused if not bench.writer.locks or "another process is writing" not in each.said]
        problem = f"{wrong[0].how}: {wrong[0].said[-400:]}" if wrong else ""
        problem = problem or ("nobody wrote" if len(refused) == len(endings) else "")
        yield Injected(
            bench.writer.name, "three writers", f"round {number}", problem or bench.judge(OLD, Ending("killed"))
        )


class NoRights:
    """A child without the rights of the superuser, in a folder that it may only read; the child ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        self.folder.chmod(0o555)
        if os.geteuid() == 0:
            os.setuid(65534)

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(PermissionError):  # of a child that is no longer the owner
            self.folder.chmod(0o755)
