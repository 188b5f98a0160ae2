"""What ``patchprint sfm`` leaves in a folder, opened to add photos to it or to find a photo in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError
from patchprint.features.model import Model, load
from patchprint.interop.colmap_models import read_model
from patchprint.storage.feature_files import MANIFEST, FeatureFolder
from patchprint.storage.feature_folder import DescribeSettings

FEATURES, MODEL = "features", "model"  # folders in it


@dataclass(frozen=True, eq=False)
class SfmFolder:
    """Features of all photos, and the sparse model made of them (a ``pycolmap.Reconstruction``)."""

    folder: Path
    features: FeatureFolder
    model: Any

    @staticmethod
    def open(folder: str | Path) -> SfmFolder:
        """Read a folder that ``patchprint sfm`` finished."""
        root = Path(folder)
        needed = (root / FEATURES / MANIFEST, root / MODEL / "database.db", root / MODEL / "sparse" / "points3D.bin")
        missing = [path.relative_to(root) for path in needed if not path.is_file()]
        if missing:
            raise UserError(f"{root} holds no finished model of patchprint sfm: {missing[0]} is missing")
        return SfmFolder(root, FeatureFolder(root / FEATURES), read_model(root / MODEL / "sparse"))

    def settings(self, device: str = "cpu") -> DescribeSettings:
        """How its photos were described."""
        return DescribeSettings(**self.features.manifest["settings"], device=device)

    def describer(self, device: str = "cpu") -> Model:
        """The model that described its photos; other weights under the same name are refused."""
        settings, known = self.settings(), self.features.manifest["model"]
        model = load(settings.model, device)
        if model.id.sha256 != known["sha256"]:
            raise UserError(
                f"the photos of {self.folder} were described with other weights of the name {known['name']!r} "
                f"({known['sha256'][:12]}) than those that are here ({model.id.sha256[:12]})"
            )
        return model
