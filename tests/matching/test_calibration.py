"""The threshold of the ratio test is chosen from true and false matches."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from patchprint.matching.calibration import choose_ratio
from support.made_features import descriptors, features


def test_the_ratio_is_chosen_between_right_and_wrong_matches() -> None:
    """Half of the descriptors change a little; the others are replaced, so that their neighbors are chance."""
    clean = descriptors(400, 64)
    changed = F.normalize(clean + 0.25 * descriptors(400, 64, seed=3))
    changed[200:] = descriptors(200, 64, seed=4)
    xy = torch.rand(400, 2, generator=torch.Generator().manual_seed(1)) * 5000
    choice = choose_ratio([(features(clean, xy), features(changed, xy), xy)])
    assert 0.5 <= choice.ratio < 0.95
    assert choice.right_kept > 0.97
    assert choice.wrong_kept < 0.2
    with pytest.raises(ValueError, match="all right or all wrong"):
        choose_ratio([(features(clean, xy), features(clean, xy), xy)])
