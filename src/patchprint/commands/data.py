"""``patchprint data``: build stores of patches, look into them, download public sets."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any, Literal

import tyro

from patchprint import files
from patchprint.commands.output import emit, say
from patchprint.errors import UserError
from patchprint.patches import manifest, open_source

Source = Literal["phototour", "hpatches", "hpatches-sequences", "rome", "colmap", "photos", "homographies"]


def build(
    source: tyro.conf.Positional[Source],
    src: tyro.conf.Positional[Path],
    out: tyro.conf.Positional[Path],
    images: Path | None = None,
    sparse: Path | None = None,
    database: Path | None = None,
    densify: bool = False,
    patch_scale: float | None = None,
    max_mb: float | None = None,
    matching: Literal["auto", "exhaustive", "sequential", "retrieval"] | None = None,
    single_camera: bool = False,
    work: Path | None = None,
    max_keypoints: int | None = None,
    max_image_size: int | None = None,
    num_views: int | None = None,
    strength: float | None = None,
    max_side: int | None = None,
    split: Literal["a", "b", "c", "full", "illum", "view"] | None = None,
    mine_labels: bool = False,
    seed: int | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Turn photos, models or published patches into a store that training and benchmarks read.

    Args:
        source: what SRC holds.
        src: folder to read. colmap: with images/, sparse/ and, if it can be had, database.db. photos: bare pictures.
        out: folder to write.
        images: colmap: where the photos are, if not in SRC/images.
        sparse: colmap: where the model is, if not in SRC/sparse.
        database: colmap: the database with the keypoints, if not SRC/database.db.
        densify: colmap, photos: add views that SIFT did not match but the model predicts.
        patch_scale: colmap, photos: side of a patch in sigma (12).
        max_mb: colmap, photos, homographies: encode the photos again until they take no more than this.
        matching: photos: which pairs are matched; auto is exhaustive below 150 photos and retrieval above.
        single_camera: photos: one camera took them all, with one zoom.
        work: photos: folder for the reconstruction; the run goes on from there if it was stopped.
        max_keypoints: photos, homographies, hpatches-sequences: keypoints per picture.
        max_image_size: photos: longer sides are reduced for SIFT.
        num_views: homographies: warped copies of each picture.
        strength: homographies: of warps and light changes, 1 is the usual one.
        max_side: homographies: larger pictures are made smaller first.
        split: hpatches: the published test sequences become the held-out part.
        mine_labels: hpatches: mine which patches of a sequence surely differ (DOAP).
        seed: photos, homographies, hpatches-sequences: of everything random.
        force: replace OUT if it exists.
        json: print the facts of the new store as JSON.
    """
    given = {name: value for name, value in locals().items() if value not in (None, False)}
    options = {name: value for name, value in given.items() if name not in ("source", "src", "out", "json")}
    builder = importlib.import_module(f"patchprint.patches.sources.{source.replace('-', '_')}").build
    unknown = [name for name in options if name not in inspect.signature(builder).parameters]
    if unknown:
        flag = "--" + unknown[0].replace("_", "-")
        raise UserError(f"{flag} does not belong to the source {source}")
    for source_path in filter(None, (src, images, sparse, database)):
        files.refuse_overlap(out, source_path)
    manifest.refuse_overwrite(out, force)
    builder(src, out, **options)
    facts = describe(out)
    emit(facts, json, as_text(facts))


def info(
    out: tyro.conf.Positional[Path],
    preview: Path | None = None,
    rows: int = 100,
    verify: bool = False,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Say what a store holds: photos, points, views, views per point, megabytes.

    Args:
        out: folder of the store.
        preview: write a contact sheet here, a PNG with one point per row.
        rows: points on the contact sheet.
        verify: read all files and compare their checksums.
        seed: which points the contact sheet shows.
        json: print JSON.
    """
    facts = describe(out)
    if verify:
        manifest.verify(out)
    if preview is not None:
        from patchprint.patches.codecs import encode_png
        from patchprint.patches.preview import contact_sheet

        sheet = contact_sheet(open_source(out), rows, seed=seed)
        with files.atomic_file(preview) as temporary:
            temporary.write_bytes(encode_png(sheet))
        say(f"wrote {preview}: {rows} points, one per row in each column")
    emit(facts, json, as_text(facts))


def download(
    name: tyro.conf.Positional[str] = "",
    data_dir: Path | None = None,
    json: bool = False,
) -> None:
    """Fetch a public set into the cache, or find a copy of it; without a name, list the sets with their licences.

    Args:
        name: of the set.
        data_dir: folder of a copy that you have already; nothing is downloaded then.
        json: print JSON.
    """
    from patchprint.patches.sources import downloads

    if not name:
        listing = [downloads.describe(each) for each in downloads.SETS]
        emit(listing, json, "\n".join(f"{each['name']}: {each['what']}; {each['license']}" for each in listing))
        return
    folder = downloads.locate(name, data_dir)
    emit({"name": name, "folder": str(folder)}, json, str(folder))


def describe(folder: Path) -> dict[str, Any]:
    """The facts of a store, from its manifest alone."""
    facts = manifest.read(folder)
    return {
        "kind": facts["kind"],
        "photos": facts.get("photos", 0),
        "points": facts["points"],
        "views": facts["views"],
        "views_per_point": round(facts["views"] / max(1, facts["points"]), 3),
        "scenes": len(facts.get("scenes", [])),
        "train_points": facts["train"],
        "val_points": facts["val"],
        "added_views": facts.get("added_views", 0),
        "pairs": facts.get("pairs", []),
        "megabytes": manifest.megabytes(facts),
    }


def as_text(facts: dict[str, Any]) -> str:
    """One line per fact."""
    width = max(map(len, facts))
    shown = {name: ", ".join(value) if isinstance(value, list) else value for name, value in facts.items()}
    return "\n".join(f"{name.replace('_', ' ').ljust(width)}  {value}" for name, value in shown.items() if value != "")


COMMANDS = {"build": build, "info": info, "download": download}
