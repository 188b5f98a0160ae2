"""The programs that read what patchprint wrote: each client works in the desk's folder and asks that nothing is lost or moved.

``python clients.py NAME`` runs one, with what is installed; exit code 77 says that something that it needs is not there.
"""

import csv
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

NOT_THERE = 77


class NotThereError(Exception):
    """Something that a client needs and that pip does not install."""


def readme() -> str:
    """The first lines of Python of the README, as they stand."""
    code = re.search(r"```python\n(.*?)```", Path("README.md").read_text(encoding="utf-8"), re.S)
    assert code is not None
    names: dict[str, object] = {}
    exec(code[1], names)
    assert Path("matches.png").stat().st_size > 0
    return f"{len(names['matches'])} matches, in matches.png"  # type: ignore[arg-type]


def match_files() -> str:
    """All files of one run hold the same matches, and the same coordinates."""
    import cv2
    import h5py
    import numpy as np
    import pycolmap

    with np.load("m.npz") as file:
        indices, points, inliers = file["indices_0"], file["points_0"], file["inliers_0"]
    assert len(indices) > 20 and points.shape == (len(indices), 4)

    rows = list(csv.DictReader(Path("m.csv").read_text(encoding="utf-8").splitlines()))
    assert [int(row["inlier"]) for row in rows] == inliers.astype(int).tolist()
    pair = json.loads(Path("m.json").read_text(encoding="utf-8"))["pairs"][0]
    assert np.array_equal(pair["indices"], indices) and np.allclose(pair["points_a"], points[:, :2], atol=1e-3)

    with h5py.File("m.h5") as file:
        at_a, at_b = file["a.jpg/keypoints"][()], file["b.jpg/keypoints"][()]
        partner = file["a.jpg/b.jpg/matches0"][()]
    of_a = np.flatnonzero(partner >= 0)
    theirs = np.concatenate([at_a[of_a], at_b[partner[of_a]]], axis=1)
    ours = points[inliers]
    assert np.allclose(theirs, ours[np.argsort(indices[inliers, 0])], atol=1e-3)

    with pycolmap.Database.open("m.db") as database:
        id_a, id_b = (database.read_image_with_name(name).image_id for name in ("a.jpg", "b.jpg"))
        matches = database.read_matches(id_a, id_b)
        keypoints = database.read_keypoints(id_a)
        verified = len(database.read_two_view_geometry(id_a, id_b).inlier_matches)
    assert len(matches) == len(indices) and verified > 10
    # COLMAP counts from the corner of the first pixel, we from its centre.
    assert np.allclose(np.sort(keypoints[matches[:, 0], 0]), np.sort(points[:, 0]) + 0.5, atol=1e-2)

    photo, drawn = cv2.imread("a.jpg"), cv2.imread("m.png")
    assert drawn.shape[1] > photo.shape[1]
    return f"{len(indices)} matches, {int(inliers.sum())} inliers, {verified} verified by COLMAP, in six kinds of files"


def page_answers() -> str:
    """``patchprint serve`` gives its page and its choices over HTTP, and ends when it is told to."""
    command = [sys.executable, "-m", "patchprint", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = next(found[1] for line in server.stderr if (found := re.search(r"serving at (\S+)", line)))
            pages = [urllib.request.urlopen(f"{address}{path}", timeout=60).read() for path in ("", "/api/choices")]
        finally:
            server.terminate()
    assert server.returncode == 143
    assert b"patchprint" in pages[0] and "patchprint" in json.loads(pages[1])["models"]
    return f"{len(pages[0])} bytes of a page"


def opencv_reads() -> str:
    """Files of ``--format opencv-yml`` are read by cv2.FileStorage."""
    import cv2

    files = sorted(Path("yml").glob("*.y*ml*"))
    assert len(files) == len(photos())
    storage = cv2.FileStorage(str(files[0]), cv2.FILE_STORAGE_READ)
    descriptors = storage.getNode("descriptors").mat()
    assert descriptors.ndim == 2 and len(descriptors) > 20
    return f"{len(files)} files, the first with {descriptors.shape} descriptors"


def pycolmap_reads_features() -> str:
    """COLMAP reads a descriptor for each keypoint, and no matches; its matchers for SIFT would refuse them."""
    import pycolmap

    with pycolmap.Database.open("bare.db") as database:
        images, keypoints = database.num_images(), database.num_keypoints()
        assert images == len(photos()) and database.num_matches() == 0
        assert database.num_descriptors() == keypoints > 20 * images
    return f"{images} images, {keypoints} descriptors"


def pycolmap_maps() -> str:
    """COLMAP's mapper on the database of ``match --out matched.db``, as it is."""
    import pycolmap

    return _registered(pycolmap.incremental_mapping("matched.db", "photos", "mapped"))


def hloc_reads_a_pair() -> str:
    """hloc's own reader on the matches of two photos."""
    _find_hloc()
    from hloc.utils.io import get_keypoints, get_matches  # type: ignore[import-not-found]

    matches, scores = get_matches(Path("m.h5"), "a.jpg", "b.jpg")
    keypoints = get_keypoints(Path("m.h5"), "a.jpg")
    assert len(matches) == len(scores) > 20 and matches[:, 0].max() < len(keypoints)
    return f"{len(matches)} matches of {len(keypoints)} keypoints"


def hloc_maps_our_files() -> str:
    """hloc's reconstruction from the files of ``describe --format hloc`` and ``match --out matches.h5``."""
    _find_hloc()
    from hloc import match_features, pairs_from_exhaustive, reconstruction  # type: ignore[import-not-found]

    pairs = Path("pairs.txt")
    pairs_from_exhaustive.main(pairs, image_list=photos())
    model = reconstruction.main(
        Path("hloc-model"), Path("photos"), pairs, features=Path("features.h5"), matches=Path("matches.h5")
    )
    ours = _registered({0: model} if model is not None else {})
    # hloc's own matcher on our descriptors.
    matched = Path("hloc-matches.h5")
    match_features.main(match_features.confs["NN-mutual"], pairs, Path("features.h5"), matches=matched)
    assert matched.stat().st_size > 0
    return f"{ours}; hloc's matcher ran on our descriptors too"


def hloc_runs_us_by_name() -> str:
    """hloc extracts and matches with our configuration, chosen by name."""
    _find_hloc()
    from hloc import extract_features, match_features, reconstruction  # type: ignore[import-not-found]

    import patchprint

    names = patchprint.register_with_hloc()
    name = "patchprint.tiny"
    assert name in names, names
    out, pairs = Path("hloc-outputs"), Path("pairs.txt")
    features = extract_features.main(extract_features.confs[name], Path("photos"), out)
    matches = match_features.main(match_features.confs[name], pairs, features.stem, out)
    model = reconstruction.main(Path("hloc-named"), Path("photos"), pairs, features=features, matches=matches)
    return _registered({0: model} if model is not None else {})


def onnxruntime_describes() -> str:
    """ONNX Runtime gives the descriptors that ``describe`` would."""
    import numpy as np
    import onnxruntime
    import torch

    import patchprint

    size = patchprint.load("patchprint").info.input_size
    patches = torch.rand(5, 1, size, size, generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession("net.onnx")
    theirs = session.run(None, {session.get_inputs()[0].name: patches.numpy()})[0]
    ours = patchprint.load("patchprint", engine="float32").describe_patches(patches)
    difference = float(np.abs(theirs - ours.numpy()).max())
    assert difference < 1e-4
    return f"largest difference {difference:.1e}"


def demo() -> str:
    """What ``make demo`` runs."""
    subprocess.run([sys.executable, "-m", "patchprint.pipelines.demo"], check=True)
    assert Path("runs/demo/report.html").stat().st_size > 0
    return "runs/demo/report.html is there"


def photos() -> list[str]:
    return sorted(path.name for path in Path("photos").iterdir())


def _find_hloc() -> None:
    if not Path("hloc").is_dir():
        raise NotThereError("needs hloc: make first-hour HLOC=FOLDER of github.com/cvg/Hierarchical-Localization")
    sys.path.insert(0, ".")


def _registered(models: dict) -> str:
    assert models, "no model"
    best = max(models.values(), key=lambda model: model.num_reg_images())
    assert best.num_reg_images() >= len(photos()) - 1, best.summary()
    return f"{best.num_reg_images()} of {len(photos())} photos, {best.num_points3D()} points"


CLIENTS = {
    each.__name__: each
    for each in (
        readme,
        match_files,
        page_answers,
        opencv_reads,
        pycolmap_reads_features,
        pycolmap_maps,
        hloc_reads_a_pair,
        hloc_maps_our_files,
        hloc_runs_us_by_name,
        onnxruntime_describes,
        demo,
    )
}


if __name__ == "__main__":
    try:
        print(CLIENTS[sys.argv[1]]())
    except NotThereError as reason:
        print(reason)
        sys.exit(NOT_THERE)
