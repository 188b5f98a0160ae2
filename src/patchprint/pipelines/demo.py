"""``make demo``: learn a descriptor from scratch on bundled images, measure it, use it on two images.

Writes ``runs/demo/report.html`` (one self-contained page), ``result.json``, images of matches and the trained weights.
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import torch

from patchprint.benchmarks import bundled as benchmark, evaluate
from patchprint.common import files, provenance
from patchprint.common.progress import note
from patchprint.common.provenance import Result, origin
from patchprint.common.table import Table, best_cells
from patchprint.data.builders import bundled_images
from patchprint.data.builders.homographies import warped_pairs
from patchprint.detectors import detect
from patchprint.features import Model, describe_keypoints, load
from patchprint.features.draw_matches import draw
from patchprint.matching import match, verify
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.full_report import curve_sections
from patchprint.report.page import Code, Page, Section, Text, write
from patchprint.report.runs import read_run
from patchprint.report.training_page import training_page
from patchprint.training import resolve
from patchprint.training.loop import train

OUT = Path("runs/demo")
STEPS = 700
BATCH = 128
SEED = 0
LEARNED = "learned here"
# What the learned descriptor is measured against; the second name is what patchprint.load takes.
OTHERS = {"patchprint (shipped)": "patchprint", "sift": "sift", "rootsift": "rootsift", "pixels": "pixels"}
# The hard pair: a held-out image and a copy that is tilted and re-lit more than any that was learned from.
HARD = 1.6
HARD_KEYPOINTS = 1000
HARD_DRAWN = ("sift", LEARNED, "patchprint (shipped)")
RIGHT_WITHIN = 4.0  # pixels
_HARD_TEXT = "An image and a copy, tilted more than any that was learned from. Green lines are right, red wrong."


def main(out: Path = OUT, steps: int = STEPS) -> int:
    started = time.monotonic()
    note("1/4  making training pairs from the images that scikit-image ships")
    source = bundled_images.training_source()
    config = resolve(
        "sdgmnet",
        network="hardnet",  # batch norm and ReLU take half the time of FRN and TLU on a CPU
        network_options={"width": 16, "dropout": 0.1},
        steps=steps,
        batch=BATCH,
        seed=SEED,
        log_every=10,
        validate_every=max(steps // 5, 1),
        checkpoint_every=steps,
        validation_pairs=4000,
        tensorboard=False,
    )
    note(f"2/4  training from scratch: {steps} steps of {BATCH} pairs, {source.num_points} points")
    train(config, source, out=out / "training", force=True)
    weights = out / "training" / "last.safetensors"

    note("3/4  measuring on held-out images and on the stereo pair")
    models = {LEARNED: load(weights), **{name: load(model) for name, model in OTHERS.items()}}
    measured = [_measure(name, model) for name, model in models.items()]
    # The curves are for the page.
    scores = {
        each["model"]["name"]: {name: value for name, value in each["scores"].items() if name != "curves"}
        for each in measured
    }

    note("4/4  matching the stereo pair, and a hard one")
    image = _match_stereo(models[LEARNED], out / "matches.png")
    hard = _match_hard_pair(models, out)
    result = provenance.record(
        "demo",
        settings={"steps": steps, "batch": BATCH, "recipe": config.recipe},
        model={"name": "patchprint demo", "sha256": models[LEARNED].info.sha256},
        data={
            "path": "scikit-image",
            "held_out": list(bundled_images.HELD_OUT),
            "training": list(bundled_images.TRAINING),
        },
        seed=SEED,
        scores={**scores, "stereo_verified": image, "hard_pair": hard},
        started=started,
        command="make demo",
    )
    files.write_json(out / "result.json", result.to_json())
    write(_page(result, measured, scores, out), out / "report.html")
    print(_table(scores).to_text())
    note(f"report: {out / 'report.html'}   ({time.monotonic() - started:.0f} s)")
    return 0


def _measure(name: str, model: Model) -> dict[str, Any]:
    """The result of the bundled benchmark, under the name that the demo has for the model."""
    note(f"     {name}")
    found = evaluate("bundled", model, seed=SEED).to_json()
    return {**found, "model": {**found["model"], "name": name, "patch_scale": None}}


def _match_stereo(model: Model, path: Path) -> dict[str, int]:
    pair = benchmark.stereo_pair(benchmark.Settings())
    a, b = (describe_keypoints(image, k, model=model) for image, k in zip(pair.images, pair.keypoints, strict=True))
    matches = verify(a, b, match(a, b, "mutual"), geometry="fundamental")
    draw(a, b, matches, path, images=pair.images, max_lines=100)
    return {"matches": len(matches), "inliers": matches.num_inliers or 0}


def _match_hard_pair(models: dict[str, Model], out: Path) -> dict[str, dict[str, int]]:
    """Matches and right ones of every model on the hard pair; hard-NAME.png shows those of HARD_DRAWN."""
    image = bundled_images.image(bundled_images.HELD_OUT[0])
    (pair,) = warped_pairs([image], 1, SEED, lambda pixels: detect(pixels, max_keypoints=HARD_KEYPOINTS), HARD)
    found = {}
    for name, model in models.items():
        a, b = (
            describe_keypoints(pixels, k, model=model) for pixels, k in zip(pair.images, pair.keypoints, strict=True)
        )
        matches = match(a, b)
        places = b.keypoints.xy[matches.indices[:, 1]]
        right = (pair.truth[matches.indices[:, 0]] - places).norm(dim=1) < RIGHT_WITHIN
        found[name] = {"matches": len(matches), "right": int(right.sum())}
        if name in HARD_DRAWN:
            drawn = dataclasses.replace(matches, inliers=right)
            draw(a, b, drawn, _hard_image(out, name), images=pair.images, outliers=True)
    return found


def _hard_image(out: Path, name: str) -> Path:
    return out / f"hard-{name.partition(' ')[0]}.png"


def _page(result: Result, measured: list[dict[str, Any]], scores: dict[str, dict[str, Any]], out: Path) -> Page:
    own, sift = scores[LEARNED], scores.get("sift", scores[LEARNED])
    weights = out / "training" / "last.safetensors"
    stereo = result.scores["stereo_verified"]["inliers"]
    drawing = EmbeddedImage.from_file(out / "matches.png", "Some of the matches that agree with one epipolar geometry")
    counts = {name: result.scores["hard_pair"][name] for name in HARD_DRAWN if name in result.scores["hard_pair"]}
    hard = [
        EmbeddedImage.from_file(
            _hard_image(out, name), f"{name}: {found['right']} of {found['matches']} matches right", wide=False
        )
        for name, found in counts.items()
    ]
    return Page(
        "A descriptor learned from scratch",
        f"At 95 % recall it takes {100 * own['fpr95']:.2f} % of the wrong pairs for right ones, "
        f"SIFT {100 * sift['fpr95']:.2f} %; of {own['stereo']['possible']} matches between two images it finds "
        f"{own['stereo']['correct']}, SIFT {sift['stereo']['correct']}.",
        "make demo: trained on images that scikit-image ships, measured beside SIFT and the shipped weights on others, "
        "used on two images.",
        [
            Section("How good is it?", [_table(scores)]),
            *curve_sections(measured),
            Section("What does it do?", [Text(f"{stereo} verified matches on a pair it has never seen."), drawing]),
            Section("And where it is hard?", [Text(_HARD_TEXT), *hard]),
            Section("Use it", [Code(f"patchprint match A.jpg B.jpg --model {weights}")]),
            *training_page([read_run(out / "training")]).sections,
        ],
        f"Seed {result.seed}, {result.run['seconds']:.0f} seconds in all; {origin([dict(result.run)])}",
    )


def _table(scores: dict[str, dict[str, Any]]) -> Table:
    rows = [
        [
            name,
            f"{100 * score['fpr95']:.2f} %",
            f"{score['matching_ap']:.3f}",
            f"{score['stereo']['ap']:.3f}",
            f"{score['stereo']['correct']} of {score['stereo']['possible']}",
        ]
        for name, score in scores.items()
    ]
    best = best_cells(1, rows, [score["fpr95"] for score in scores.values()], lower_is_better=True)
    best |= best_cells(2, rows, [score["matching_ap"] for score in scores.values()], lower_is_better=False)
    best |= best_cells(3, rows, [score["stereo"]["ap"] for score in scores.values()], lower_is_better=False)
    return Table(
        ["descriptor", "FPR95, held out", "matching AP, held out", "matching AP, stereo", "correct, stereo"],
        rows,
        f"All descriptors on the same keypoints (OpenCV SIFT). Held out: {', '.join(bundled_images.HELD_OUT)}, warped and "
        "re-lit. Stereo: the motorcycle pair with measured disparity. FPR95: lower is better; AP: higher.",
        best,
    )


if __name__ == "__main__":
    torch.manual_seed(SEED)
    raise SystemExit(main())
