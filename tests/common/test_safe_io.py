"""Sizes and names in files are not believed."""

from pathlib import Path

import numpy as np
import pytest

from patchprint.common.errors import UserError
from patchprint.common.safe_io import escapes_folder, read_json, read_npz, safe_join


def test_json_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text, words in (("[1]", "holds no JSON object"), ("{", "is not JSON"), ("\udc80", "is not JSON")):
        path.write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(UserError, match=words):
            read_json(path, "settings")
    with pytest.raises(UserError, match="is not there"):
        read_json(tmp_path / "none.json", "settings")
    path.write_text('{"a": 1}')
    assert read_json(path, "settings") == {"a": 1}


def test_arrays_come_back_and_are_our_own(tmp_path: Path) -> None:
    given = {
        "a": np.arange(6).reshape(2, 3),
        "f": np.asfortranarray(np.eye(3)),
        "none": np.zeros((0, 4)),
        "text": np.array("x"),
    }
    np.savez(tmp_path / "a.npz", **given)
    np.savez_compressed(tmp_path / "packed.npz", **given)
    assert read_npz(tmp_path / "packed.npz", "arrays").keys() == given.keys()
    found = read_npz(tmp_path / "a.npz", "arrays")
    assert list(found) == list(given)
    for name, array in given.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype and found[name].flags.writeable


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.array([{}], object))
    with pytest.raises(UserError, match=r"a\.npz is not arrays, or damaged \(it holds pickled objects\)"):
        read_npz(tmp_path / "a.npz", "arrays")


def test_names_stay_inside() -> None:
    for name in ("../a", "a/../../b", "/etc/passwd", "C:/x", "..\\a", "a\0b"):
        assert escapes_folder(name)
        with pytest.raises(UserError, match=r"list\.json is refused: the name .* leads out of"):
            safe_join(Path("folder"), name, "list.json")
    assert safe_join(Path("folder"), "sub/a..b.jpg", "list.json") == Path("folder/sub/a..b.jpg")
