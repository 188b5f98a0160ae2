"""The defect L8 of the review of reliability: numbers that are none, or lead nowhere, are refused before the work."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest

from patchprint import cli
from support.known_images import texture


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("data build homographies photos new --strength nan", "--strength"),
        ("data build homographies photos new --strength inf", "--strength"),
        ("data build homographies photos new --strength -1", "--strength"),
        ("data build photos photos new --patch-scale -3", "--patch-scale"),
        ("data build photos photos new --patch-scale nan", "--patch-scale"),
        ("train hardnet --data photos --out new --patch-scale -3", "--patch-scale"),
        ("train hardnet --data photos --out new --patch-scale nan", "--patch-scale"),
        ("train hardnet --data photos --out new --lr nan", "--lr"),
        ("eval bundled --model sift --patch-scale nan", "patch"),
        ("adapt photos --out new.safetensors --held-out nan", "--held-out"),
        ("adapt photos --out new.safetensors --lr nan", "--lr"),
    ],
)
def test_l8_numbers_that_lead_nowhere_are_refused(
    command: str, flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for name in "ab":
        cv2.imwrite(f"photos/{name}.png", texture(60, 80))
    assert cli.main(command.split()) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and flag in message, message
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
