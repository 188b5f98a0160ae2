"""A COLMAP model of a flat textured wall, written by hand: photos are shifted crops, cameras exact, keypoints real SIFT."""

from pathlib import Path

import cv2
import numpy as np

from patchprint.detectors import detect
from patchprint.interop.colmap_database import write_features
from support.known_images import texture

FOCAL, WIDTH, HEIGHT = 200.0, 200, 160


def wall(seed=0):
    """A picture with many blobs, (240, 300) uint8."""
    fine = np.random.default_rng(seed).integers(0, 256, (60, 75), dtype=np.uint8)
    blobs = cv2.resize(fine, (300, 240), interpolation=cv2.INTER_CUBIC)
    return cv2.addWeighted(blobs, 0.7, texture(240, 300, seed), 0.3, 0)


def write_model(root, images=5, with_database=True, views=2, seed=0):
    """Write ``root/images``, ``root/sparse`` (text) and ``root/database.db``.

    Every point is observed in ``views`` random photos only, although SIFT finds it in more. Returns shifts (I, 2) and, of every
    point, its position on the wall (N, 2) and in how many photos it was found (N,).
    """
    rng = np.random.default_rng(seed)
    pixels = wall(seed)
    shifts = rng.integers(0, 60, (images, 2))
    names = [f"photo{i}.png" for i in range(images)]
    (root / "images").mkdir(parents=True)
    keypoints = {}
    for name, (x, y) in zip(names, shifts, strict=True):
        crop = np.ascontiguousarray(pixels[y : y + HEIGHT, x : x + WIDTH])
        cv2.imwrite(str(root / "images" / name), crop)
        keypoints[name] = detect(crop, "dog-published", max_keypoints=None, spread=False)
    groups = {}
    for image, name in enumerate(names):
        found = keypoints[name]
        for index in range(len(found)):
            place = found.xy[index].numpy() + shifts[image]
            key = (
                *np.round(place).astype(int),
                round(float(found.scale[index].log2() * 3)),
                round(float(found.angle[index])),
            )
            groups.setdefault(key, {}).setdefault(image, (index, place))
    points = [seen for seen in groups.values() if len(seen) >= 3]
    observed = [[] for _ in names]
    lines, wall_xy = [], []
    for number, seen in enumerate(points, start=1):
        chosen = sorted(rng.permutation(list(seen))[:views])
        place = np.mean([seen[image][1] for image in seen], axis=0)
        wall_xy.append(place)
        track = " ".join(f"{image + 1} {seen[image][0]}" for image in chosen)
        x, y = (place + 0.5 - (WIDTH / 2, HEIGHT / 2)) / FOCAL
        lines.append(f"{number} {x} {y} 0 128 128 128 0.1 {track}\n")
        for image in chosen:
            observed[image].append((seen[image][0], number))
    sparse = root / "sparse"
    sparse.mkdir()
    (sparse / "cameras.txt").write_text(f"1 PINHOLE {WIDTH} {HEIGHT} {FOCAL} {FOCAL} {WIDTH / 2} {HEIGHT / 2}\n")
    (sparse / "points3D.txt").write_text("".join(lines))
    entries = []
    for image, name in enumerate(names):
        owner = dict(observed[image])
        places = keypoints[name].xy.numpy() + 0.5
        row = " ".join(f"{x} {y} {owner.get(index, -1)}" for index, (x, y) in enumerate(places))
        tx, ty = -shifts[image] / FOCAL
        entries.append(f"{image + 1} 1 0 0 0 {tx} {ty} 1 1 {name}\n{row}\n")
    (sparse / "images.txt").write_text("".join(entries))
    if with_database:
        write_features(root / "database.db", root / "images", keypoints)
    return shifts, np.array(wall_xy), np.array([len(seen) for seen in points])


def wall_positions(store, shifts):
    """Where the observations of a store built from the model lie on the wall, (M, 2)."""
    image = [int(Path(name).stem.removeprefix("photo")) for name in store.names.images]
    return store.tracks.xy + shifts[image][store.tracks.image]
