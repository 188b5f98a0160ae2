"""Shipped weights that say something else about themselves; their checksum is right."""

import json
from pathlib import Path

from patchprint.networks import weights


def forged_weights(out: Path, **changes: object) -> None:
    data = (weights.WEIGHTS_FOLDER / "patchprint.tiny.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] |= {name: json.dumps(value) for name, value in changes.items()}
    text = json.dumps(header).encode()
    out.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
