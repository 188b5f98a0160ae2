"""A program of its own: the annotations of Cars196 from stdin, as JSON to stdout.

scipy's reader of .mat files ends the process (SIGSEGV) on some damaged ones, and takes all memory for others, so it is not let
into ours.
"""

from __future__ import annotations

import io
import json
import sys

_MEMORY = 1 << 30  # bytes; the annotations of all of Cars196 take far less


def _limit_memory() -> None:
    try:
        import resource

        with open("/proc/self/statm") as stream:
            most = int(stream.read().split()[0]) * resource.getpagesize() + _MEMORY
    except (ImportError, OSError):  # not on Linux
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    import numpy as np
    import scipy.io

    _limit_memory()
    found = scipy.io.loadmat(io.BytesIO(sys.stdin.buffer.read()), squeeze_me=True)
    rows = np.atleast_1d(found["annotations"])
    table = {
        "files": [str(path) for path in rows["relative_im_path"]],
        "labels": [int(label) - 1 for label in rows["class"]],
        "classes": [str(name) for name in np.atleast_1d(found["class_names"])],
    }
    print(json.dumps(table))
