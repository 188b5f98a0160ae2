"""Tables about trained weights, made from ``results/``: what is shipped, how it scores, what was tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from patchprint.networks import ModelInfo, weights
from patchprint.networks.network import multiply_adds
from tools.markdown import read, table

_OXFORD = ("map", "bikes", "boat", "graf", "leuven", "ubc", "wall")


def shipped(results: Path) -> str:
    """The weights in the package with their size and their score on Oxford."""
    rows = []
    for info in weights.list_weights():
        file = weights.WEIGHTS_FOLDER / f"{info.name}.safetensors"
        size = f"{info.dim} bits" if info.kind == "binary" else f"{info.dim} floats"
        score = read(results / "oxford" / f"{info.name}.json")["scores"]["map"]
        megabytes = f"{file.stat().st_size / 1e6:.1f} MB"
        made_by = info.training.summary()
        if info.options.get("input_norm") == "standard":
            made_by += ", patches standardized before FRN"
        rows.append([f"`{info.name}`", size, f"{info.patch_scale:g} sigma", megabytes, f"{score:.3f}", made_by])
    header = ["weights", "print", "patch", "file", "Oxford mAP", "made by"]
    return table(header, rows, "Size, run and mAP on the six Oxford sequences: results/oxford/.")


def costs(results: Path) -> str:
    """What a print of each of the weights in the package costs: counted in the network, and timed where these weights were."""
    cpu, gpu = (read(results / "speed" / f"bench-{machine}.json") for machine in ("cpu", "h200"))
    rows = []
    for info in weights.list_weights():
        network = weights.load_network(info.name)
        size = info.dim // 8 if info.kind == "binary" else 4 * info.dim
        score = read(results / "oxford" / f"{info.name}.json")["scores"]["map"]
        parameters = sum(each.numel() for each in network.parameters())
        counted = [f"{parameters / 1e3:,.0f}", f"{multiply_adds(network) / 1e6:.3g}"]
        timed = [_milliseconds(cpu, info), _milliseconds(cpu, info, ", int8"), _milliseconds(gpu, info)]
        rows.append([f"`{info.name}`", *counted, *timed, str(size), f"{score:.3f}"])
    rows.sort(key=lambda row: row[-1], reverse=True)
    header = [
        "weights",
        "thousand parameters",
        "million multiply-adds",
        "ms, CPU",
        "ms, CPU, int8",
        "ms, GPU",
        "bytes",
        "mAP",
    ]
    where = " and ".join(
        f"{_machine(each)}: results/speed/bench-{name}.json" for name, each in (("cpu", cpu), ("h200", gpu))
    )
    return table(header, rows, f"{where}.")


def _milliseconds(bench: dict[str, Any], info: ModelInfo, engine: str = "") -> str:
    """Of the keypoints of a photo, where these very weights were timed."""
    timed = bench["scores"]["keypoints"]["contenders"].get(f"patchprint {info.name}{engine}", {})
    if timed.get("sha256") != info.sha256:
        return "–"
    return f"{timed['best_ms']:,.0f}" if timed["best_ms"] >= 1000 else f"{timed['best_ms']:.3g}"


def _machine(bench: dict[str, Any]) -> str:
    machine = bench["run"]["machine"]
    return machine["gpu"] or f"{machine['cores']} cores of {machine['cpu']}"


def hpatches(results: Path) -> str:
    """Verification, matching and retrieval by strength."""
    rows = []
    for result in map(read, sorted((results / "hpatches").glob("oxford-*.json"))):
        scores = (result["scores"][task] for task in ("verification", "matching", "retrieval"))
        each = [f"{task[level]['python']:.3f}" for task in scores for level in ("easy", "hard", "tough")]
        rows.append([result["model"]["name"], *each])
    rows.sort(key=lambda row: row[5])
    header = ["", *(f"{task} {level}" for task in ("verif.", "match.", "retr.") for level in ("easy", "hard", "tough"))]
    return table(header, rows, "AP by task and strength of jitter: results/hpatches/.")


def eth(results: Path) -> str:
    """Sparse models on COLMAP's keypoints, without and with the ratio test, COLMAP's own SIFT below."""
    rows = []
    for scene in ("fountain", "herzjesu"):
        found = [read(path) for path in sorted((results / "eth").glob(f"{scene}-*.json"))]
        for result in sorted(found, key=lambda r: (r["settings"]["ratio"] is not None, r["scores"]["observations"])):
            ratio = result["settings"]["ratio"]
            rows.append(
                [f"{scene}, {result['model']['name']}", f"{ratio:g}" if ratio else "none", *_sparse(result["scores"])]
            )
        rows.append([f"{scene}, COLMAP's own SIFT", "0.8", *_sparse(found[0]["scores"]["colmap_sift"])])
    header = ["", "ratio test", "photos", "verified matches", "points", "observations", "track length"]
    header += ["reprojection px", "camera position, median error"]
    return table(header, rows, "Sparse models of two scenes, by model and ratio test: results/eth/.")


def choice(name: str) -> Callable[[Path], str]:
    """The table of what was tried together, judged on validation data alone, by its side of the patch at test."""

    def made(results: Path) -> str:
        rows = []
        for model, scales in read(results / "experiments" / f"{name}.json")["scores"].items():
            file = Path(model)
            label = file.parent.name if file.stem == "best" else file.stem
            for scale, score in scales.items():
                numbers = (fmean(score["depth"].values()), score["flat"], score["mean"])
                rows.append([f"`{label}`", f"{scale} sigma", *(f"{number:.4f}" for number in numbers)])
        caption = f"Validation scores by patch scale: results/experiments/{name}.json."
        return table(["", "patch at test", "depth: accuracy", "flat: AP", "mean"], rows, caption)

    return made


def doap_before(results: Path) -> str:
    """The binary model on whole groups beside the weights that were shipped before, on every test there is."""
    sets = ("liberty", "notredame", "oxford-landmarks")
    before = "experiments/doap-binary-before/{}.json"
    now = {"oxford": "oxford/doap-binary.json", "hpatches": "hpatches/oxford-doap-binary.json"}
    now |= {name: f"ubc/{name}-doap-binary.json" for name in sets}
    rows = []
    for label, files in (("whole groups", now), ("before: pairs", {name: before.format(name) for name in now})):
        scores = {name: read(results / file)["scores"] for name, file in files.items()}
        tasks = [scores["hpatches"][task]["map"]["python"] for task in ("verification", "matching", "retrieval")]
        numbers = [scores["oxford"]["map"], *tasks, *(scores[name]["fpr95"] for name in sets)]
        rows.append([label, *(f"{number:.3f}" for number in numbers)])
    header = ["`doap-binary`", "Oxford mAP", "verif.", "match.", "retr.", *(f"FPR95 % {name}" for name in sets)]
    return table(
        header, rows, "Now: in oxford, hpatches and ubc; before: results/experiments/doap-binary-before/*.json."
    )


def students(results: Path) -> str:
    """What learned from the mean of three patch sizes, seen without jitter, beside the teacher."""
    files = {"teacher: `sdgmnet.plain`": results / "oxford" / "sdgmnet.plain.json"}
    files |= {f"`student-{path.stem}`": path for path in sorted((results / "experiments" / "students").glob("*.json"))}
    rows = []
    for name, file in files.items():
        scores = read(file)["scores"]
        rows.append(
            [name, *(f"{scores['map']:.3f}" if key == "map" else f"{scores['sequences'][key]:.3f}" for key in _OXFORD)]
        )
    return table(["", *_OXFORD], rows, "mAP on the six Oxford sequences: results/experiments/students/.")


def lost_matches(results: Path) -> str:
    """Which right matches are not found, by how far the frames of the two keypoints differ."""
    result = read(results / "experiments" / "lost-matches.json")
    scores = result["scores"]
    models = list(scores["found"])
    rows = [
        [
            f"{_range(entry['octaves'], 'octaves')}, {_range(entry['degrees'], 'degrees')}",
            f"{100 * entry['part']:.1f}",
            *(f"{100 * entry['found'][name]:.0f}" for name in models),
        ]
        for entry in scores["classes"]
    ]
    rows.append(["all", "100", *(f"{100 * scores['found'][name]:.0f}" for name in models)])
    header = ["scale and angle differ by", "part of the pairs, %", *(f"`{name}` finds, %" for name in models)]
    caption = f"{scores['pairs']:,} pairs of keypoints of the Oxford sequences: results/experiments/lost-matches.json."
    return table(header, rows, caption)


def frames(results: Path) -> str:
    """Learned angles and shapes of keypoints beside those of the detector and of others."""
    scores = read(results / "experiments" / "frames.json")["scores"]
    (model,) = {key.removesuffix(", AP") for key in scores["warped"]["detector"] if key.endswith(", AP")}
    rows = []
    for name, warped in scores["warped"].items():
        real = scores["real"][name]
        angles = [f"{100 * warped[f'angles within {limit}']:.0f}" for limit in (10, 20, 45)]
        matched = [f"{real[f'{model}, right']:.0f}", f"{real[f'{model}, precision']:.3f}"]
        rows.append([name, *angles, f"{warped[f'{model}, AP']:.3f}", *matched])
    header = ["frames", *(f"angles within {limit} degrees, %" for limit in (10, 20, 45)), "warped: AP"]
    counts = {kind: entries["detector"]["pairs"] for kind, entries in scores.items()}
    caption = f"`{model}`, {counts['warped']} warped and {counts['real']} real pairs: results/experiments/frames.json."
    return table([*header, "real: right", "real: precision"], rows, caption)


def _range(ends: list[float | None], unit: str) -> str:
    low, high = ends
    return f"more than {low:g} {unit}" if high is None or high > 180 else f"{low:g} to {high:g} {unit}"


def _sparse(scores: dict[str, Any]) -> list[str]:
    counts = [f"{scores[what]:,}" for what in ("inlier_matches", "points", "observations")]
    errors = [f"{scores['reprojection_error_px']:.2f}", f"{scores['against_true_cameras']['position']['median']:.4f}"]
    return [f"{scores['registered']} of {scores['photos']}", *counts, f"{scores['track_length']:.2f}", *errors]
