"""``make fuzz``: many damaged files for every reader, in processes that may crash or hang.

    python -m fuzz.nightly --cases 10000 --out results/reliability/fuzz.json

Each reader has a process of its own, whose memory is limited. It says which case it begins; where it dies or says nothing for
a while, that case is a crash or a hang, and another process goes on after it. The seed and the reader make a case again:
``python -m fuzz.nightly --only READER --first SEED --cases 1``.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = 30  # that a case may take
MEMORY = 3 << 30  # bytes that reading may take beyond what the process has when it starts
KEPT = 20  # faults of a reader that are kept in words


def main() -> int:
    from fuzz.readers import READERS
    from patchprint import files, provenance

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="of each reader")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--only", nargs="*", default=list(READERS), choices=list(READERS), metavar="READER")
    parser.add_argument("--seconds", type=float, help="stop a reader after so long and say how many cases it got")
    parser.add_argument("--out", type=Path, help="file for the counts")
    parser.add_argument("--add", action="store_true", help="keep the counts of other readers that are in --out")
    arguments = parser.parse_args()
    started, readers = time.monotonic(), {}
    if arguments.add:
        readers = json.loads(arguments.out.read_text())["scores"]["readers"]
    for name in arguments.only:
        readers[name] = play(name, range(arguments.first, arguments.first + arguments.cases), arguments.seconds)
        print(name, {key: value for key, value in readers[name].items() if key != "faults"}, flush=True)
    names = ("cases", "read", "refused", "crashes", "hangs", "tracebacks")
    total = {key: sum(counts[key] for counts in readers.values()) for key in names}
    settings = {"cases": arguments.cases, "first_seed": arguments.first, "seconds_each": arguments.seconds}
    settings |= {"seconds_a_case": SECONDS, "memory_bytes": MEMORY}
    command: str | None = f"make fuzz CASES={arguments.cases}" + (
        f" SECONDS={arguments.seconds:g}" if arguments.seconds else ""
    )
    if arguments.add:
        command = None  # what was typed
    scores = {"total": total, "readers": readers}
    result = provenance.record("fuzz", settings=settings, scores=scores, started=started, command=command)
    if arguments.out:
        files.write_json(arguments.out, result.to_json())
    print(total)
    return int(any(total[key] for key in ("crashes", "hangs", "tracebacks")))


def play(name: str, seeds: range, seconds: float | None) -> dict[str, Any]:
    """What became of the cases of one reader."""
    counts: dict[str, Any] = dict.fromkeys(("cases", "read", "refused", "crashes", "hangs", "tracebacks"), 0)
    counts["faults"] = []
    following = seeds.start
    while following < seeds.stop:
        command = [
            sys.executable,
            "-m",
            "fuzz.nightly",
            "--worker",
            name,
            str(following),
            str(seeds.stop),
            str(seconds or 1e9),
        ]
        with subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
            following = _listen(worker, following, counts)
    return counts


def _listen(worker: subprocess.Popen[bytes], following: int, counts: dict[str, Any]) -> int:
    """Count what a worker says until it is done, dies or hangs; returns the seed to go on with."""
    assert worker.stdout is not None
    patience = 4 * SECONDS  # for its start
    try:
        while True:
            if not select.select([worker.stdout], [], [], patience)[0]:
                counts["hangs"] += 1
                _keep(counts, following, f"no answer in {SECONDS} s")
                return _counted(counts, following)
            line = worker.stdout.readline()
            if not line:
                if worker.wait() == 0:
                    return sys.maxsize
                counts["crashes"] += 1
                _keep(counts, following, f"the process ended with code {worker.returncode}")
                return _counted(counts, following)
            seed, outcome, why = json.loads(line)
            counts[{"traceback": "tracebacks"}.get(outcome, outcome)] += 1
            if outcome == "traceback":
                _keep(counts, seed, why)
            following, patience = _counted(counts, seed), SECONDS
    finally:
        worker.kill()


def _counted(counts: dict[str, Any], seed: int) -> int:
    counts["cases"] += 1
    return seed + 1


def _keep(counts: dict[str, Any], seed: int, why: str) -> None:
    if len(counts["faults"]) < KEPT:
        counts["faults"].append({"seed": seed, "what": why})


def work(name: str, first: int, stop: int, seconds: float) -> None:
    """One process: every case is a line of JSON on stdout, for at most so many seconds."""
    from fuzz.cases import Bench

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(name, Path(folder) / "sample")
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        ends = time.monotonic() + seconds
        for case in bench.cases(range(first, stop)):
            print(json.dumps(case), flush=True)
            if time.monotonic() > ends:
                break


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
    else:
        sys.exit(main())
