"""Image sequences that stand in for the training sequences of HPatches, small enough to be carried to a GPU machine.

    python -m perf.lease.warped make --photos ../shared/data/photos --out data/lease/warped

Each photo becomes a sequence of six images with known homographies, of two kinds: ``i_``, where only the light changes, and
``v_``, where the view changes too. ``make`` writes images as WebP, places of the regions, and all of the stores but the
patches, with labels mined as DOAP mines them. ``build`` cuts the patches, on the GPU machine, which has neither OpenCV nor
scikit-learn. It computes in float64, so that they are the same to the byte on any machine: runs are named after their data.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from patchprint.common import files
from patchprint.data import manifest
from patchprint.data.builders import hpatches_patches, hpatches_sequences
from patchprint.data.builders.homographies import random_homography, relight
from patchprint.data.patch_store import PatchStore
from patchprint.interop.images import limit_size, read_gray, readable_images
from patchprint.interop.sequences import ImageSequence, find_sequences
from patchprint.matching.calibration import spread_over
from patchprint.ops.geometry import jacobian, project
from patchprint.ops.sampling import ImagePyramids, sample_patches

# Places of which no study has test images, and how many photos of each become sequences.
PLACES = {"castle": 12, "entry": 5, "sceaux": 7, "oxford-landmarks/bodleian": 10}
MAX_SIZE, QUALITY, MAX_KEYPOINTS = 640, 75, 180  # pixels; of WebP; in an image, of each of three detectors
STORES: dict[str, tuple[hpatches_patches.Level, ...]] = {
    "warped-sequences": hpatches_patches.LEVELS,
    "warped-easy-hard": ("easy", "hard"),  # from which L2-Net learned
}
MINED = "warped-sequences"
_PATCHES = f"{PatchStore.kind}.npy"


def make(photos: Path, out: Path, places: dict[str, int]) -> None:
    """Write images, regions and stores without patches to ``out``."""
    images, regions = out / "images", out / "regions"
    chosen = [
        (place, photos / place / "images" / names[number])
        for place, count in places.items()
        for names in [readable_images(photos / place / "images", strict=True)]
        for number in spread_over(len(names), count)
    ]
    regions.mkdir(parents=True)
    for number, (place, path) in enumerate(chosen):
        kind = "iv"[number % 2]
        _write_sequence(path, images / f"{kind}_{Path(place).name}_{number:02d}", kind, number)
    for sequence in find_sequences(images):
        keypoints = hpatches_sequences.find_regions(sequence, MAX_KEYPOINTS, seed=0)
        frames = keypoints.frames() * hpatches_sequences.RADIUS
        np.savez(regions / f"{sequence.name}.npz", xy=keypoints.xy.numpy(), frames=frames.numpy())
    names, counts = _sequences(out)
    for store, levels in STORES.items():
        whole, bare = out.with_name(f"{out.name}-{store}"), out / "stores" / store
        mined = store == MINED
        hpatches_patches.write(whole, _cut(out), names, counts, levels=levels, mine_labels=mined, force=True)
        shutil.copytree(whole, bare, ignore=shutil.ignore_patterns(_PATCHES))
        shutil.rmtree(whole)


def build(carried: Path, data: Path) -> None:
    """Write the stores of what ``make`` wrote, which are complete, to ``data``."""
    _, counts = _sequences(carried)
    for store, levels in STORES.items():
        if (data / store).exists():
            continue
        with files.atomic_folder(data / store, manifest.MADE_BY) as temporary:
            shutil.copytree(carried / "stores" / store, temporary, dirs_exist_ok=True)
            kept = [place for place, name in enumerate(hpatches_patches.STRIPS) if _is_of(name, levels)]
            blocks = (block[kept].reshape(-1, *block.shape[2:]) for block in _cut(carried))
            manifest.save_blocks(temporary, PatchStore.kind, blocks, sum(counts) * len(kept))
        try:
            manifest.verify(data / store)
        except ValueError as error:
            print(f"other patches than where the images were made, by rounding: {error}")


def _is_of(strip: str, levels: tuple[hpatches_patches.Level, ...]) -> bool:
    return strip == "ref" or strip[0] in {level[0] for level in levels}


def _write_sequence(photo: Path, folder: Path, kind: str, seed: int) -> None:
    """Write a photo and five copies that are changed more and more, with homographies."""
    import cv2

    from perf.release.scenes import encode_webp

    image = limit_size(read_gray(photo), MAX_SIZE)
    height, width = image.shape
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    (folder / "1.webp").write_bytes(encode_webp(image, QUALITY))
    for step in range(1, 6):
        homography, light = np.eye(3), 0.3 * step
        copy = image
        if kind == "v":
            homography, light = random_homography(generator, width, height, strength=0.18 * step), 0.1 * step
            copy = cv2.warpPerspective(image, homography, (width, height), borderMode=cv2.BORDER_REFLECT_101)
        changed = relight(generator, copy, light)
        (folder / f"{step + 1}.webp").write_bytes(encode_webp(changed, QUALITY))
        np.savetxt(folder / f"H_1_{step + 1}", homography)


def _sequences(carried: Path) -> tuple[list[str], list[int]]:
    """Return names of the sequences, and how many points each has."""
    paths = sorted((carried / "regions").glob("*.npz"))
    return [path.stem for path in paths], [len(np.load(path)["xy"]) for path in paths]


def _cut(carried: Path) -> Iterator[np.ndarray]:
    """Yield the patches of each sequence, (16, N, 65, 65) uint8, several sequences at a time."""

    def cut(numbered: tuple[int, ImageSequence]) -> np.ndarray:
        number, sequence = numbered
        with np.load(carried / "regions" / f"{sequence.name}.npz") as places:
            xy, frames = places["xy"].astype(np.float64), torch.from_numpy(places["frames"]).double()
        return cut_sequence(sequence, xy, frames, seed=number)

    with ThreadPoolExecutor(4) as pool:
        yield from pool.map(cut, enumerate(find_sequences(carried / "images")))


def cut_sequence(sequence: ImageSequence, xy: np.ndarray, frames: torch.Tensor, seed: int) -> np.ndarray:
    """Cut patches as `hpatches_sequences.cut` does, but in float64."""
    generator = np.random.default_rng(seed)
    pyramids = ImagePyramids.build([sequence.read(number) for number in hpatches_sequences.IMAGES])
    strips = [_sample(pyramids, 0, torch.from_numpy(xy), frames)]
    for strength in hpatches_sequences.STRENGTHS.values():
        for number in hpatches_sequences.IMAGES[1:]:
            affine = hpatches_sequences.random_affine(generator, len(xy), strength).double()
            center = xy + (frames @ affine[:, :, 2:])[:, :, 0].numpy()
            homography = sequence.homographies[number]
            moved, derivative = (torch.from_numpy(map_of(homography, center)) for map_of in (project, jacobian))
            strips.append(_sample(pyramids, number - 1, moved, derivative @ frames @ affine[:, :, :2]))
    return np.stack(strips)


def _sample(pyramids: ImagePyramids, image: int, center: torch.Tensor, frame: torch.Tensor) -> np.ndarray:
    number = torch.full((len(center),), image)
    parts = [
        sample_patches(pyramids, number[rows], center[rows], frame[rows], hpatches_patches.SIDE)
        for rows in torch.arange(len(center)).split(256)
    ]
    return (torch.cat(parts)[:, 0] * 255).round().to(torch.uint8).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="make | build")
    making = commands.add_parser("make", help=make.__doc__)
    making.add_argument("--photos", type=Path, required=True, help="folder of the places")
    making.add_argument("--out", type=Path, required=True, help="folder to write")
    building = commands.add_parser("build", help=build.__doc__)
    building.add_argument("carried", type=Path, help="what make wrote")
    building.add_argument("data", type=Path, help="folder of the stores")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.photos, arguments.out, PLACES)
    else:
        build(arguments.carried, arguments.data)


if __name__ == "__main__":
    main()
