"""Smaller descriptors keep their neighbors."""

import pytest
import torch.nn.functional as F

from patchprint.features.compress import Pca, compress
from patchprint.matching import match
from support.made_features import descriptors, features


def test_compression_keeps_most_neighbors_and_its_sizes() -> None:
    clean = descriptors(300, 128)
    noisy = F.normalize(clean + 0.03 * descriptors(300, 128, seed=5) * 128**0.5 / 4)
    expected = match(features(clean), features(noisy), "mutual").indices
    pca = Pca.fit(clean, 64)
    sizes = {"fp16": 256, "int8": 128, "bits": 16, pca: 256}
    for how, size in sizes.items():
        a, b = compress(features(clean), how), compress(features(noisy), how)
        assert a.descriptors.element_size() * a.descriptors.shape[1] == size
        kept = {tuple(row) for row in match(a, b, "mutual").indices.tolist()} & {
            tuple(row) for row in expected.tolist()
        }
        assert len(kept) > 0.9 * len(expected)
        with pytest.raises(ValueError, match="two different models"):
            match(a, features(noisy))
    with pytest.raises(ValueError, match="compressed already"):
        compress(compress(features(clean), "bits"), "fp16")
    with pytest.raises(ValueError, match="never negative"):
        compress(features(clean.abs()), "bits")
    with pytest.raises(ValueError, match="unknown compression"):
        compress(features(clean), "zip")
