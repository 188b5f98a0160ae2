"""A program of its own: the annotations of Cars196 from stdin, as JSON to stdout.

scipy's reader of .mat files ends the process (SIGSEGV) on some damaged ones, so it is not let into ours.
"""

from __future__ import annotations

import io
import json
import sys

if __name__ == "__main__":
    import numpy as np
    import scipy.io

    found = scipy.io.loadmat(io.BytesIO(sys.stdin.buffer.read()), squeeze_me=True)
    rows = np.atleast_1d(found["annotations"])
    table = {
        "files": [str(path) for path in rows["relative_im_path"]],
        "labels": [int(label) - 1 for label in rows["class"]],
        "classes": [str(name) for name in np.atleast_1d(found["class_names"])],
    }
    print(json.dumps(table))
