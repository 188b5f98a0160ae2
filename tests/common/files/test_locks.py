"""One writer at a time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from patchprint.common.files import only_writer


def test_a_second_writer_waits_or_is_refused(tmp_path: Path) -> None:
    target, order = tmp_path / "store", []

    def second() -> None:
        with only_writer(target, wait=True):
            order.append("second")

    with only_writer(target):
        with pytest.raises(ValueError, match="another process is writing"), only_writer(target):
            pass
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []
