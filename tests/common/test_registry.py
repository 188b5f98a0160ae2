"""Names are answered with what was meant, and options are checked before anything is made."""

import sys
from pathlib import Path

import pytest

from patchprint.common.errors import UserError, suggest
from patchprint.common.registry import FileRegistry, LazyRegistry, Registry

COLORS = Registry("color", {"red": lambda shade=0: ("red", shade), "violet": lambda: ("violet",)})


def test_it_is_a_mapping() -> None:
    assert list(COLORS) == ["red", "violet"] and len(COLORS) == 2
    assert "red" in COLORS and "blue" not in COLORS
    assert COLORS["violet"]() == ("violet",)


def test_entries_are_made_with_options_that_they_know() -> None:
    assert COLORS.create("red", shade=3) == ("red", 3)
    with pytest.raises(UserError, match=r"^color 'red' has no option 'shad'; did you mean shade\?$"):
        COLORS.create("red", shad=3)
    with pytest.raises(UserError, match=r"^color 'violet' has no option 'shade'; known are none yet$"):
        COLORS.create("violet", shade=3)


def test_unknown_names_are_the_users_mistake_and_no_missing_key() -> None:
    with pytest.raises(UserError, match=r"^there is no color 'violt'; did you mean violet\?$"):
        COLORS["violt"]
    with pytest.raises(UserError, match=r"there is no color 'xxx'; known are red, violet$"):
        COLORS.create("xxx")


def test_suggestions_are_the_nearest_three_at_most() -> None:
    assert suggest("sdgmnet-2", ["sdgmnet", "sdgmnet-s", "sdgmnet-l2", "sdgmnet-theta"]).count("sdgmnet") == 3


def test_names_are_known_before_their_module_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "xml.sax.handler", raising=False)
    kinds: LazyRegistry[type] = LazyRegistry("handler", "xml.sax", {"any": "handler:ContentHandler", "bad": "no:Such"})
    assert list(kinds) == ["any", "bad"] and len(kinds) == 2 and "any" in kinds and "ani" not in kinds
    assert "xml.sax.handler" not in sys.modules
    assert kinds["any"].__name__ == "ContentHandler" and isinstance(kinds.create("any"), kinds["any"])
    with pytest.raises(UserError, match="there is no handler 'ani'; did you mean any"):
        kinds["ani"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileRegistry[dict[str, int]]:
    """A registry over a package of three files, one of which is none of its entries."""
    folder = tmp_path / "made_shapes"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "_helper.py").write_text("raise AssertionError")
    (folder / "round_one.py").write_text("shape = {'sides': 0, 'large': 9}")
    (folder / "square.py").write_text("shape = {'sides': 4}")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("made_shapes", "made_shapes.round_one", "made_shapes.square"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return FileRegistry(
        "shape",
        "made_shapes",
        [str(folder)],
        "shape",
        variants=lambda shape: {"large": {"sides": shape["large"]}} if "large" in shape else {},
    )


def test_a_file_is_imported_when_its_entry_is_asked_for(files: FileRegistry[dict[str, int]]) -> None:
    assert files["square"] == {"sides": 4}
    assert "made_shapes.square" in sys.modules and "made_shapes.round_one" not in sys.modules
    assert files["round-one-large"] == {"sides": 9}
    assert list(files) == ["round-one", "round-one-large", "square"] and len(files) == 3
    assert "square" in files and "square-large" not in files and 3 not in files
    with pytest.raises(UserError, match="there is no shape 'squar'; did you mean square"):
        files["squar"]
