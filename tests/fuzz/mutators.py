"""What can be wrong with a file: bytes flipped, cut, moved or made up; numbers, lines and JSON values replaced by odd ones.

Every function takes bytes and a random generator and gives other bytes; the same seed gives the same file again.
"""

import io
import json
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Random = np.random.Generator
Mutator = Callable[[bytes, Random], bytes]

WORDS: list[Any] = [None, True, -1, 0, 2, 2**31, 2**63, 10**30, -0.5, 1e308, float("nan"), float("inf")]
WORDS += ["", "x", "../x", "/etc/passwd", "\0", "é\u2028", [], [1, "a"], [[[]]], {}, {"a": {"b": 1}}]
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**62, 2**63 - 1, 2**64 - 1)
TEXTS = b"nan inf -1 0 1e400 99999999999999999999  \xff\xfe \0 ../../x \xe2\x80\xa8".split(b" ")


def flip_bits(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for place in random.integers(0, max(1, len(data)), random.integers(1, 9)):
        if place < len(changed):
            changed[place] ^= 1 << random.integers(0, 8)
    return bytes(changed)


def cut(data: bytes, random: Random) -> bytes:
    return data[: random.integers(0, len(data) + 1)]


def leave_out(data: bytes, random: Random) -> bytes:
    start, stop = _span(data, random)
    return data[:start] + data[stop:]


def repeat(data: bytes, random: Random) -> bytes:
    start, stop = _span(data, random)
    return data[:stop] + data[start:stop] * int(random.integers(1, 4)) + data[stop:]


def swap_chunks(data: bytes, random: Random) -> bytes:
    a, b, c, d = sorted(random.integers(0, len(data) + 1, 4).tolist())
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def overwrite(data: bytes, random: Random) -> bytes:
    start, stop = _span(data, random)
    filling = random.bytes(stop - start) if random.random() < 0.5 else bytes([random.integers(0, 256)]) * (stop - start)
    return data[:start] + filling + data[stop:]


def make_up(data: bytes, random: Random) -> bytes:
    return random.bytes(int(random.integers(0, 300)))


def header_number(data: bytes, random: Random) -> bytes:
    """A whole number among the first bytes, or anywhere, is another one."""
    width, order = random.choice([1, 2, 4, 8]), random.choice(["<", ">"])
    reach = min(len(data), 256) if random.random() < 0.7 else len(data)
    place = int(random.integers(0, max(1, reach - width + 1)))
    number = NUMBERS[random.integers(0, len(NUMBERS))] % 2 ** (8 * int(width))
    packed = struct.pack(order + {1: "B", 2: "H", 4: "I", 8: "Q"}[int(width)], number)
    return data[:place] + packed + data[place + len(packed) :]


def text_number(data: bytes, random: Random) -> bytes:
    """A number that is written out is another one, or none."""
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", data))
    if not found:
        return flip_bits(data, random)
    chosen = found[random.integers(0, len(found))]
    return data[: chosen.start()] + TEXTS[random.integers(0, len(TEXTS))] + data[chosen.end() :]


def move_lines(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return leave_out(data, random)
    one, other = random.integers(0, len(lines), 2)
    kind = random.integers(0, 3)
    if kind == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 1:
        del lines[one]
    else:
        lines.insert(int(one), lines[other])
    return b"".join(lines)


def json_value(data: bytes, random: Random) -> bytes:
    """A value of a JSON document is gone, of another kind, or nested beyond all measure."""
    try:
        document = json.loads(data)
    except ValueError:
        return flip_bits(data, random)
    places = list(_places(document))
    if not places or random.random() < 0.02:
        return b"[" * 100_000 if random.random() < 0.5 else json.dumps(_word(random)).encode()
    owner, key = places[random.integers(0, len(places))]
    if random.random() < 0.25:
        del owner[key]
    elif isinstance(owner, dict) and random.random() < 0.1:
        owner[str(_word(random))] = owner.pop(key)
    else:
        owner[key] = _word(random)
    return json.dumps(document).encode()


def json_line(data: bytes, random: Random) -> bytes:
    lines = data.splitlines() or [b""]
    place = int(random.integers(0, len(lines)))
    lines[place] = json_value(lines[place], random)
    return b"\n".join(lines) + b"\n"


def arrays(data: bytes, random: Random) -> bytes:
    """Arrays of an .npz, or the one of an .npy, with another shape, type or contents, or missing."""
    is_bundle = data.startswith(b"PK")
    found = np.load(io.BytesIO(data), allow_pickle=False)
    values = dict(found) if is_bundle else {"": found}
    name = list(values)[random.integers(0, len(values))]
    if is_bundle and random.random() < 0.15:
        del values[name]
    else:
        values[name] = odd_array(values[name], random)
    stream = io.BytesIO()
    if is_bundle:
        np.savez(stream, **values)
    else:
        np.save(stream, values[name])
    return stream.getvalue()


def odd_array(array: np.ndarray, random: Random) -> np.ndarray:
    kind = random.integers(0, 7)
    if kind == 0:
        return array.reshape(-1)[: random.integers(0, array.size + 1)]
    if kind == 1:
        return array[None]
    if kind == 2:
        return np.concatenate([np.atleast_1d(array)] * 2)
    if kind == 3:
        return np.array(["a", "../b"])
    if kind == 4 and array.dtype.kind in "iufb":
        return array.astype(random.choice(["u1", "i8", "f8", "?", "f2", "c8"]))
    if kind == 5 and array.dtype.kind in "iuf" and array.size:
        changed = array.copy()
        odd = [np.nan, np.inf, -1.0] if array.dtype.kind == "f" else [-1, np.iinfo(array.dtype).max, 0]
        changed.reshape(-1)[random.integers(0, array.size)] = np.array(random.choice(odd)).astype(array.dtype)
        return changed
    return np.zeros(int(random.integers(0, 3)), array.dtype if array.dtype.kind in "iufb" else "f4")


BYTES: tuple[Mutator, ...] = (flip_bits, cut, leave_out, repeat, swap_chunks, overwrite, make_up, header_number)
TEXT: tuple[Mutator, ...] = (flip_bits, cut, leave_out, repeat, overwrite, text_number, text_number, move_lines)
JSON: tuple[Mutator, ...] = (json_value, json_value, json_value, json_value, cut, flip_bits, text_number)
JSON_LINES: tuple[Mutator, ...] = (json_line, json_line, *TEXT)
ARRAYS: tuple[Mutator, ...] = (arrays, arrays, arrays, *BYTES)


def _span(data: bytes, random: Random) -> tuple[int, int]:
    start, stop = sorted(random.integers(0, len(data) + 1, 2).tolist())
    return start, min(stop, start + 64) if random.random() < 0.5 else stop


def _word(random: Random) -> Any:
    return WORDS[random.integers(0, len(WORDS))]


def _places(value: Any) -> Any:
    for key in range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else ():
        yield value, key
        yield from _places(value[key])
