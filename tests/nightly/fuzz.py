"""``make fuzz``: many damaged files for every reader, in processes that may crash or hang.

    python -m nightly.fuzz --cases 10000 --out results/reliability/fuzz.json

Each reader has a process of its own, whose memory is limited. It says which case it begins; where it dies, or computes for long
without an answer, that case is a crash or a hang, and another process goes on after it. The seed and the reader make a case
again: ``python -m nightly.fuzz --only READER --first SEED --cases 1``.

``--out`` is written after each reader. It keeps what it has of the readers that are not asked now, so that one of them can be
run again.
"""

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = 30  # of computing that a case may take
LONGEST = 10 * SECONDS  # of waiting, since a process that waits for ever computes nothing
MEMORY = 3 << 30  # bytes that reading may take beyond what the process has when it starts
KEPT = 20  # faults of a reader that are kept in words
WORKER = [sys.executable, "-m", "nightly.fuzz", "--worker"]
KINDS = ("cases", "read", "refused", "crashes", "hangs", "tracebacks")
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
    return int(any(total[kind] for kind in ("crashes", "hangs", "tracebacks")))


def sum_of(readers: dict[str, Counts]) -> dict[str, int]:
    return {kind: sum(counts[kind] for counts in readers.values()) for kind in KINDS}


def write(out: Path, readers: dict[str, Counts], started: float) -> None:
    from patchprint.common import files, provenance

    settings = {"seconds_a_case": SECONDS, "longest_wait": LONGEST, "memory_bytes": MEMORY}
    scores = {"total": sum_of(readers), "readers": readers}
    result = provenance.record("fuzz", settings=settings, scores=scores, started=started)
    files.write_json(out, result.to_json())


def play(name: str, seeds: range, seconds: float | None) -> Counts:
    """What became of the cases of one reader; faults are printed at once."""
    counts: Counts = dict.fromkeys(KINDS, 0)
    counts |= {"first_seed": seeds.start, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "faults": []}
    begun, following = time.monotonic(), seeds.start
    while following < seeds.stop:
        command = [*WORKER, name, str(following), str(seeds.stop), str(seconds or 1e9)]
        with subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
            following = _listen(worker, following, counts)
    counts["seconds"] = round(time.monotonic() - begun, 1)
    return counts


def _listen(worker: subprocess.Popen[bytes], following: int, counts: Counts) -> int:
    """Count what a worker says until it is done, dies or hangs; returns the seed to go on with."""
    assert worker.stdout is not None

    def fault(kind: str, seed: int, why: str) -> None:
        counts["cases"] += 1
        counts[kind] += 1
        if len(counts["faults"]) < KEPT:
            counts["faults"].append({"seed": seed, "what": why})
        print(f"  seed {seed}: {kind}: {why}", flush=True)

    patience = 4 * SECONDS  # for its start
    try:
        while True:
            if waited := _waits_in_vain(worker, patience):
                fault("hangs", following, waited)
                return following + 1
            line = worker.stdout.readline()
            if not line:
                if worker.wait() == 0:
                    return sys.maxsize
                fault("crashes", following, f"the process ended with code {worker.returncode}")
                return following + 1
            seed, outcome, why = json.loads(line)
            if outcome == "traceback":
                fault("tracebacks", seed, why)
            else:
                counts["cases"] += 1
                counts[outcome] += 1
            following, patience = seed + 1, SECONDS
    finally:
        worker.kill()


def _waits_in_vain(worker: subprocess.Popen[bytes], patience: float) -> str:
    """Why nothing more is to come of a worker; empty as soon as it says something.

    Only its computing counts: on a machine with much to do a process may get no turn for longer than a case may take.
    """
    begun, computed = time.monotonic(), _computed(worker.pid)
    while not select.select([worker.stdout], [], [], min(1.0, patience))[0]:
        waited, spent = time.monotonic() - begun, _computed(worker.pid) - computed
        if spent > patience or waited > LONGEST:
            return f"no answer in {waited:.0f} s, of which it computed {spent:.1f} s"
    return ""


def _computed(process: int) -> float:
    """Seconds of processor time of a process and of its children that ended."""
    values = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, values[11:15])) / os.sysconf("SC_CLK_TCK")


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
