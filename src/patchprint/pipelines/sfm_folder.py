"""The output folder of `patchprint.sfm`, opened to add images to it or to localize an image in it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint.common import files, provenance
from patchprint.common.errors import UserError
from patchprint.common.safe_io import read_json
from patchprint.features.extract import DescribeSettings
from patchprint.features.model import Model, load
from patchprint.interop.colmap_models import read_model
from patchprint.storage.feature_files import MANIFEST, FeatureFolder

FEATURES, MODEL = "features", "model"  # folders in it
CALLS, SUMMARY = "calls.json", "summary.json"
_SECONDS = 5.0  # between updates of CALLS


@dataclass(frozen=True, eq=False)
class SfmFolder:
    """Features of all images, and the sparse model made of them (a ``pycolmap.Reconstruction``)."""

    folder: Path
    features: FeatureFolder
    model: Any

    @staticmethod
    def open(folder: str | Path) -> SfmFolder:
        """Read a folder that `patchprint.sfm` finished."""
        root = Path(folder)
        needed = (root / FEATURES / MANIFEST, root / MODEL / "database.db", root / MODEL / "sparse" / "points3D.bin")
        missing = [path.relative_to(root) for path in needed if not path.is_file()]
        if missing:
            raise UserError(f"{root} holds no finished model of patchprint sfm: {missing[0]} is missing")
        return SfmFolder(root, FeatureFolder(root / FEATURES), read_model(root / MODEL / "sparse"))

    @property
    def summary(self) -> dict[str, Any]:
        """Settings, scores and cost, as in ``summary.json``."""
        summary: dict[str, Any] = read_json(self.folder / SUMMARY, "a summary of patchprint sfm")
        return summary

    def settings(self, device: str = "auto") -> DescribeSettings:
        """How its images were described."""
        made = {name: value for name, value in self.features.manifest["settings"].items() if name != "masks"}
        return DescribeSettings(**made, device=device)

    def describer(self, device: str = "auto") -> Model:
        """Load the model that described its images; raises UserError for other weights under the same name."""
        settings, known = self.settings(device), self.features.manifest["model"]
        model = load(settings.model, device)
        if model.id.sha256 != known["sha256"]:
            raise UserError(
                f"{self.folder} was made with other weights named {known['name']!r} ({known['sha256'][:12]}) than "
                f"the installed ones ({model.id.sha256[:12]}); run patchprint sfm again"
            )
        return model


@contextlib.contextmanager
def recorded_calls(path: Path, started: float) -> Iterator[list[provenance.RunRecord]]:
    """Record in ``path`` what this call costs, beside earlier calls; updated every few seconds, for calls that are killed."""
    calls: list[provenance.RunRecord] = (
        read_json(path, "the calls of patchprint sfm")["calls"] if path.is_file() else []
    )
    calls.append(provenance.run_info(started))
    ended = threading.Event()

    def update() -> None:
        calls[-1] = provenance.run_info(started)
        files.write_json(path, {"calls": calls})

    def update_until_the_end() -> None:
        with contextlib.suppress(OSError):  # a full disk stops the work itself
            while not ended.wait(_SECONDS):
                update()

    thread = threading.Thread(target=update_until_the_end, daemon=True)
    update()
    thread.start()
    try:
        yield calls
    finally:
        ended.set()
        thread.join()
        update()
