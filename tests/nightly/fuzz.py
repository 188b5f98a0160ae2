"""``make fuzz``: many damaged files for every reader, in processes that may crash or hang.

    python -m nightly.fuzz --cases 10000 --out results/reliability/fuzz.json

Each reader has a process of its own, whose memory is limited. Where it dies, or gives no answer for long, that case is a crash
or a hang, and another process goes on after it. The seed and the reader make a case again:
``python -m nightly.fuzz --only READER --first SEED --cases 1``.

``--out`` is written after each reader. It keeps what it has of the readers that are not asked now, so that one of them can be
run again.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchprint.common.processes import Worker, WorkerDiedError

SECONDS = 300.0  # that a case may take: most take milliseconds, but a busy machine may give a process no turn for long
MEMORY = 3 << 30  # bytes that reading may take beyond what the process has when it starts
KEPT = 20  # faults of a reader that are kept in words
FAULTS = ("crashes", "hangs", "tracebacks")
KINDS = ("cases", "read", "refused", *FAULTS)
Counts = dict[str, Any]


def main() -> int:
    from fuzz.readers import READERS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="of each reader")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--only", nargs="*", default=list(READERS), choices=list(READERS), metavar="READER")
    parser.add_argument("--seconds", type=float, help="stop a reader after so long and say how many cases it got")
    parser.add_argument("--out", type=Path, help="file for the counts")
    chosen = parser.parse_args()
    started, known = time.monotonic(), {}
    if chosen.out is not None and chosen.out.exists():
        known = json.loads(chosen.out.read_text())["scores"]["readers"]
    found = {name: known[name] for name in READERS if name in known and name not in chosen.only}
    for name in chosen.only:
        found[name] = play(name, range(chosen.first, chosen.first + chosen.cases), chosen.seconds)
        print(name, {kind: found[name][kind] for kind in KINDS}, flush=True)
        if chosen.out is not None:
            write(chosen.out, {name: found[name] for name in READERS if name in found}, started)
    total = sum_of(found)
    print(total)
    return int(any(total[kind] for kind in FAULTS))


def sum_of(readers: dict[str, Counts]) -> dict[str, int]:
    return {kind: sum(counts[kind] for counts in readers.values()) for kind in KINDS}


def write(out: Path, readers: dict[str, Counts], started: float) -> None:
    from patchprint.common import files, provenance

    settings = {"seconds_a_case": SECONDS, "memory_bytes": MEMORY}
    scores = {"total": sum_of(readers), "readers": readers}
    result = provenance.record("fuzz", settings=settings, scores=scores, started=started)
    files.write_json(out, result.to_json())


def play(name: str, seeds: range, seconds: float | None) -> Counts:
    """What became of the cases of one reader; faults are printed at once."""
    counts: Counts = dict.fromkeys(KINDS, 0)
    counts |= {"first_seed": seeds.start, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "faults": []}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(create, name, folder)
        try:
            for seed in seeds:
                kind, why = case(worker, seed)
                counts["cases"] += 1
                counts[kind] += 1
                if kind in FAULTS:
                    print(f"  seed {seed}: {kind}: {why}", flush=True)
                    if len(counts["faults"]) < KEPT:
                        counts["faults"].append({"seed": seed, "what": why})
                if seconds is not None and time.monotonic() > begun + seconds:
                    break
        finally:
            worker.stop()
    counts["seconds"] = round(time.monotonic() - begun, 1)
    return counts


def case(worker: Worker, seed: int) -> tuple[str, str]:
    """What became of a case, and in words why; where it kills its process or hangs, the next case starts another one."""
    try:
        worker.send(seed)
        outcome, why = worker.receive(SECONDS)
        return ("tracebacks" if outcome == "traceback" else outcome), why
    except TimeoutError as error:
        return "hangs", str(error)
    except WorkerDiedError as error:
        return "crashes", str(error)


def create(name: str, folder: str) -> Callable[[int], tuple[str, str]]:
    """Prepare a process: the sample of a reader in a folder of its own, and a limit of memory."""
    from fuzz.cases import Bench

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what libraries say of damaged files
    bench = Bench(name, Path(tempfile.mkdtemp(dir=folder)) / "sample")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    return bench.case


if __name__ == "__main__":
    sys.exit(main())
