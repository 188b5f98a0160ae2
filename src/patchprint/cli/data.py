"""``patchprint data``: build stores of patches and images, look into them, download public sets."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from patchprint.cli import emit, say
from patchprint.common import files
from patchprint.data import manifest, open_source, splits
from patchprint.data.builders import BUILDERS


def _build_command(kind: str) -> Callable[..., None]:
    """Return a typed function for tyro: the parameters of a builder."""
    build = BUILDERS[kind]

    def command(src: Path, out: Path, *, force: bool, **options: Any) -> None:
        for read in filter(None, (src, *map(options.get, ("images", "sparse", "database")))):
            files.refuse_overlap(out, read)
        files.check_output_folder(out, manifest.MADE_BY, force)
        build(src, out, force=force, **options)
        facts = describe(out)
        emit(facts, as_text(facts))

    signature = inspect.signature(build, eval_str=True)
    parameters = [
        each.replace(annotation=tyro.conf.Positional[Path]) if each.name in ("src", "out") else each
        for each in signature.parameters.values()
    ]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__doc__ = build.__doc__
    return command


def info(
    store: tyro.conf.Positional[Path],
    preview: Path | None = None,
    rows: int = 100,
    verify: bool = False,
    seed: int = 0,
) -> None:
    """Print what a store holds: images, points, views, views per point, megabytes; or images and classes.

    Args:
        store: its folder.
        preview: write a contact sheet here, a PNG with one point per row.
        rows: points on the contact sheet.
        verify: read all files and compare their checksums.
        seed: which points the contact sheet shows.
    """
    facts = describe(store)
    if verify:
        manifest.verify(store)
    if preview is not None:
        from patchprint.data.preview import contact_sheet
        from patchprint.interop.images import encode_image

        sheet = contact_sheet(open_source(store), rows, seed=seed)
        with files.atomic_file(preview) as temporary:
            temporary.write_bytes(encode_image(sheet))
        say(f"wrote {preview}: {rows} points or classes, one per row in each column")
    emit(facts, as_text(facts))


def download(
    name: tyro.conf.Positional[str] = "",
    data_dir: Path | None = None,
) -> None:
    """Fetch a public set into the cache, or find a copy of it; without a name, list the sets with their licenses.

    Args:
        name: of the set.
        data_dir: folder of a copy that you have already; nothing is downloaded then.
    """
    from patchprint.data.builders import downloads

    if not name:
        listing = [downloads.describe(each) for each in downloads.SETS]
        emit(listing, "\n".join(f"{each['name']}: {each['what']}; {each['license']}" for each in listing))
        return
    folder = downloads.locate(name, data_dir)
    emit({"name": name, "folder": str(folder)}, str(folder))


def describe(folder: Path) -> dict[str, Any]:
    """Return the facts of a store from its manifest, or those of a folder of planes."""
    from patchprint.data.builders.planes import read_planes

    if (planes := read_planes(folder)) is not None:
        return {"kind": "planes", "images": len(planes.names), "planes": len(planes)}
    facts = manifest.read(folder)
    if facts["kind"] == "images":
        return {
            "kind": facts["kind"],
            "images": facts["views"],
            "classes": len(facts["classes"]),
            **{f"{part}_classes": facts[part] for part in splits.PARTS},
            "single_image_classes": facts.get("single_image_classes", 0),
            "megabytes": manifest.megabytes(facts),
        }
    return {
        "kind": facts["kind"],
        "images": facts.get("photos", 0),
        "points": facts["points"],
        "views": facts["views"],
        "views_per_point": round(facts["views"] / max(1, facts["points"]), 3),
        "scenes": len(facts.get("scenes", [])),
        **{f"{part}_points": facts[part] for part in splits.PARTS},
        "added_views": facts.get("added_views", 0),
        "patch_scale": facts["patch_scale"],
        "pairs": facts.get("pairs", []),
        "megabytes": manifest.megabytes(facts),
    }


def as_text(facts: dict[str, Any]) -> str:
    """Return one line per fact."""
    width = max(map(len, facts))
    shown = {name: ", ".join(value) if isinstance(value, list) else value for name, value in facts.items()}
    return "\n".join(f"{name.replace('_', ' ').ljust(width)}  {value}" for name, value in shown.items() if value != "")


COMMANDS = {"build": {kind: _build_command(kind) for kind in BUILDERS}, "info": info, "download": download}
