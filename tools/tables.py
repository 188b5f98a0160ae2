"""Tables of the documents and numbers of ``patchprint models``, all made from ``results/``.

A Markdown file holds ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; the text between them is replaced by the table NAME.

    python -m tools.tables            write
    python -m tools.tables --check    exit code 1 where something is out of date
"""

import argparse
import json
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from patchprint.common.files import write_text
from patchprint.common.table import Table
from patchprint.features import list_models
from patchprint.networks import ModelInfo, TrainingRecord, weights
from patchprint.networks.network import multiply_adds
from patchprint.networks.weights import MEASURED
from patchprint.pipelines.bench import contender_name
from perf.speed.contest import contest_table

ROOT = Path(__file__).resolve().parent.parent
Row = dict[str, Any]
Rows = Iterator[Row]


class _Formatter(string.Formatter):
    """``str.format`` in which missing fields are empty, and the type ``p`` is a percentage without its sign."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        try:
            return super().get_field(field_name, args, kwargs)
        except KeyError:
            return "", field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.endswith("p"):
            return format(100 * value, f"{format_spec[:-1]}f")
        return "" if value in ("", None) else format(value, format_spec)


_format = _Formatter().vformat


@dataclass(frozen=True)
class Listing:
    """A table made from result files.

    Args:
        files: patterns of files below ``results/``, separated by spaces.
        columns: ``name = format string of a row's fields``, separated by ``|``.
        caption: what is shown; "results/..." names the place. A format string of the first result, like the names of columns.
        rows: makes the rows of the result, or of the list of results where ``files`` are several; or the path of the rows in
            the result, where ``*`` stands for all keys of a dict (their names are the fields ``key`` and ``outer``).
        words: whether all columns hold words.
    """

    files: str
    columns: str
    caption: str
    rows: str | Callable[[Any], Iterable[Row]] = ""
    words: bool = False

    def __call__(self, results: Path) -> str:
        found = [_read(path) for pattern in self.files.split() for path in sorted(results.glob(pattern))]
        data: Any = found if "*" in self.files or " " in self.files else found[0]
        rows = self.rows(data) if callable(self.rows) else _at(data, self.rows.split("/")) if self.rows else data
        columns = [column.partition(" = ") for column in self.columns.split(" | ")]
        header = [_format(name.strip(), (), found[0]) for name, _, _ in columns]
        cells = [[_format(template, (), row) for _, _, template in columns] for row in rows]
        return Table(header, cells, _format(self.caption, (), found[0])).to_markdown(not self.words)


def _at(value: Any, path: list[str], key: object = "", outer: object = "") -> Iterator[Row]:
    if not path and isinstance(value, list):
        yield from value
    elif not path:
        yield {"outer": outer, "key": key, **value}
    elif path[0] == "*":
        for name, part in value.items():
            yield from _at(part, path[1:], int(name) if name.isdigit() else name, key)
    else:
        yield from _at(value[path[0]], path[1:], key, outer)


def _read(path: Path) -> Row:
    return {"file": path, **json.loads(path.read_text(encoding="utf-8"))}


def _columns(pattern: str, **choices: Iterable[str]) -> str:
    """``pattern`` with @NAME replaced by each of its choices, joined to columns."""
    found = [pattern]
    for name, values in choices.items():
        found = [each.replace(f"@{name}", value) for each in found for value in values]
    return " | ".join(found)


# --- Scores of descriptors.

OXFORD = _columns("@s = {scores[sequences][@s]:.3f}", s=("bikes", "boat", "graf", "leuven", "ubc", "wall"))
SPARSE = (
    "points = {points:,} | observations = {observations:,} | track length = {track_length:.2f} | "
    "reprojection px = {reprojection_error_px:.2f} | "
    "camera position, median error = {against_true_cameras[position][median]:.4f}"
)
LEVELS = ("easy", "hard", "tough")
TASKS = {"verif.": "verification", "match.": "matching", "retr.": "retrieval"}
SETS = ("liberty", "notredame", "oxford-landmarks")
# Trained to show how far a recipe repeats, or a teacher of tries; not shipped.
NOT_SHIPPED = ("patchprint-seed1", "ranking-seed0", "ranking-seed1", "patchprint.plain", "patchprint.plain-seed1")
SEEDS = {
    "patchprint": "patchprint, seed 0",
    "patchprint-seed1": "patchprint, seed 1",
    "ranking-seed0": "patchprint without the two more layers, ranking 1, seed 0",
    "ranking-seed1": "patchprint without the two more layers, ranking 1, seed 1",
    "patchprint.plain": "patchprint.plain, seed 0",
    "patchprint.plain-seed1": "patchprint.plain, seed 1",
}


PAPERS = {
    "l2net": ("L2-Net",),
    "doap": ("none",),
    "hardnet": ("HardNet",),
    "sosnet": ("SOSNet",),
    "hynet": ("HyNet",),
    "sdgmnet": ("SDGMNet",),
}


def _papers_weights(results: Path) -> str:
    """The papers' networks at full length, and the default, on the rebuilt sets, Oxford and HPatches-style patches."""
    studies = [
        _read(results / f"studies/{name}.json") for name in ("exact/sdgmnet-table1", "exact-doap/doap-transformer")
    ]
    trained = {tuple(row["labels"].values()): row["columns"] for study in studies for row in study["scores"]["rows"]}
    rows = []
    for name in (*PAPERS, "patchprint", "rootsift"):
        cells = ["–"] * 3
        if name in PAPERS:
            columns = trained[*PAPERS[name], "liberty"]
            found = [columns[f"{which} FPR95 %"] for which in ("notredame", "yosemite", "mean")]
            scores = [each["mean"] for each in found]
            if name == "l2net":  # its run was stopped, so that the study has no row
                files = (results / f"studies/exact/l2net-{which}.json" for which in ("notredame", "landmarks"))
                scores = [_read(file)["scores"]["fpr95"] for file in files]
                scores.append(fmean(scores))
            cells = [f"{score:.2f} ({each['published']:.2f})" for score, each in zip(scores, found, strict=True)]
        cells.append(f"{_read(results / f'oxford/{name}.json')['scores']['map']:.3f}")
        for data in ("oxford", "contruction"):
            matching = _read(results / f"hpatches/{data}-{name}.json")["scores"]["matching"]
            cells += [f"{matching[level]['python']:.3f}" for level in LEVELS]
        rows.append([f"`{name}`", *cells])
    sets = ["FPR95 %, notredame (UBC's)", "landmarks (UBC's Yosemite)", "mean", "Oxford mAP"]
    patches = [f"{data}: {level}" for data in ("Oxford's patches", "`i_contruction`") for level in LEVELS]
    return Table(
        ["", *sets, *patches], rows, "results/studies/exact*/, results/oxford/ and results/hpatches/."
    ).to_markdown()


def _best_scales(found: list[Row]) -> Rows:
    """Every model at the patch scale that suits it best, best model first."""
    tried, seen = Counter(result["model"]["name"] for result in found), set(NOT_SHIPPED)
    for result in sorted(found, key=lambda result: -result["scores"]["map"]):
        name, scale = result["model"]["name"], result["model"]["patch_scale"]
        if name not in seen:
            seen.add(name)
            yield {**result, "label": name + f" (patch of {scale:g} sigma, its best)" * (tried[name] > 1)}


def _seeds(found: list[Row]) -> Rows:
    by_name = {result["file"].stem: result for result in found}
    return ({**by_name[name], "label": label} for name, label in SEEDS.items())


def _students(found: list[Row]) -> Rows:
    yield {**found[0], "label": "teacher: `patchprint.plain`"}
    yield from ({**each, "label": f"`student-{each['file'].stem}`"} for each in found[1:])


def _oxford(rows: Callable[[list[Row]], Rows]) -> Listing:
    caption = "mAP on the six Oxford sequences, 2000 SIFT keypoints per image, right within 4 px: results/oxford/."
    return Listing("oxford/*.json", f" = {{label}} | {OXFORD} | all = **{{scores[map]:.3f}}**", caption, rows)


def _eth(found: list[Row]) -> Rows:
    """Models of each scene without and with the ratio test, some with refined keypoints; COLMAP's own SIFT below."""
    for scene in ("fountain", "herzjesu"):
        own = [result for result in found if result["file"].name.startswith(scene)]
        for result in sorted(own, key=lambda r: (r["settings"]["ratio"] is not None, r["scores"]["observations"])):
            ratio = result["settings"]["ratio"] or "none"
            refined = ", refined" if result["settings"].get("refine") else ""
            yield {**result["scores"], "label": f"{scene}, {result['model']['name']}{refined}", "ratio": ratio}
        yield {**own[0]["scores"]["colmap_sift"], "label": f"{scene}, COLMAP's own SIFT", "ratio": 0.8}


def _doap(found: list[Row]) -> Rows:
    for label, results in (("whole groups", found[:5]), ("before: pairs", found[5:])):
        oxford, hpatches, *ubc = (result["scores"] for result in results)
        yield {"label": label, **oxford, **hpatches, "ubc": dict(zip(SETS, ubc, strict=True))}


def _choices(result: Row) -> Rows:
    for model, scales in result["scores"].items():
        file = Path(model)
        label = file.parent.name if file.stem == "best" else file.stem
        for scale, score in scales.items():
            yield {**score, "label": label, "scale": scale, "depth": fmean(score["depth"].values())}


def _choice(name: str) -> Listing:
    columns = " = `{label}` | patch at test = {scale} sigma | depth: accuracy = {depth:.4f} | flat: AP = {flat:.4f}"
    caption = f"Validation scores by patch scale: results/experiments/{name}.json."
    return Listing(f"experiments/{name}.json", f"{columns} | mean = {{mean:.4f}}", caption, _choices)


def _lost(result: Row) -> Rows:
    for entry in result["scores"]["classes"]:
        ends = [(*entry[unit], unit) for unit in ("octaves", "degrees")]
        words = (
            f"more than {low:g} {unit}" if high is None or high > 180 else f"{low:g} to {high:g} {unit}"
            for low, high, unit in ends
        )
        yield {"label": ", ".join(words), "part": f"{100 * entry['part']:.1f}", "found": entry["found"]}
    yield {"label": "all", "part": "100", "found": result["scores"]["found"]}


def _frames(result: Row) -> Rows:
    warped, real = result["scores"]["warped"], result["scores"]["real"]
    return ({"key": name, "warped": warped[name], "real": real[name]} for name in warped)


def _keypoint_choices(found: list[Row]) -> Rows:
    for result in found:
        yield from _at(result["scores"], ["*"])


# --- Shipped weights.


def _weights(results: Path) -> Rows:
    cpu, gpu = _read(results / "speed/bench-cpu.json"), _on_gpu(results)
    for info in weights.list_weights():
        network, is_binary = weights.load_network(info.name), info.kind == "binary"
        yield {
            "info": info,
            "size": f"{info.dim} {'bits' if is_binary else 'floats'}",
            "bytes": info.dim // 8 if is_binary else 4 * info.dim,
            "mb": (weights.WEIGHTS_FOLDER / f"{info.name}.safetensors").stat().st_size / 1e6,
            "map": f"{_read(results / 'oxford' / f'{info.name}.json')['scores']['map']:.3f}",
            "parameters": sum(each.numel() for each in network.parameters()) / 1e3,
            "multiply_adds": multiply_adds(network) / 1e6,
            "made_by": _made_by(info.training)
            + ", patches standardized before FRN" * (info.options.get("input_norm") == "standard"),
            "times": [
                _keypoints_ms(bench, info, engine)
                for bench, engine in ((cpu, "bfloat16"), (cpu, "int8"), (gpu, "cuda"))
            ],
        }


def _on_gpu(results: Path) -> Row:
    """The contest on a GPU: the later run where it has a model, else the run with more models."""
    first, later = (_read(results / "speed" / f"{name}-h200.json") for name in ("bench", "kernels"))
    for stage, score in first["scores"].items():
        if "contenders" in score and stage in later["scores"]:
            score["contenders"] |= later["scores"][stage]["contenders"]
    return first


def _made_by(record: TrainingRecord) -> str:
    """Describe the run in one line."""
    config = record.config
    try:
        batch = f"{config['batch']} patches"
        if config["views"] != 1:
            batch = f"{config['batch']} points x {config['views']} views"
        if config["batcher"] == "neighbors":
            batch += f" in runs of {config['batcher_options']['run']} neighbors"
        scale = "" if config["patch_scale"] is None else f" at {config['patch_scale']:g} sigma"
        average = f", weights averaged ({config['average']:g})" if config["average"] else ""
        return (
            f"{record.recipe}: {_distillation(config) or 'loss ' + config['loss']} on network {config['network']}, "
            f"{config['steps']:,} steps of {batch}{scale}, learning rate {config['schedule']}, "
            f"augmentation {config['augmentation']}{average}, seed {config['seed']}"
        )
    except (KeyError, TypeError, ValueError):  # there is none, or of another version
        return record.recipe


def _distillation(config: dict[str, Any]) -> str:
    """Describe the distillation, or return an empty string where there was no teacher."""
    if not (names := config.get("teacher")):
        return ""
    text = "distilled from " + ", ".join(
        f"{Path(name).name} ({checksum[:8]})" for name, checksum in zip(names, config["teacher_sha256"], strict=True)
    )
    if config["loss_weight"]:
        text += f" and {config['loss_weight']:g} times loss {config['loss']}"
    return text


def _keypoints_ms(bench: Row, info: ModelInfo, engine: str) -> str:
    """Milliseconds for the keypoints of an image, where these very weights were timed with this engine."""
    contenders = bench["scores"]["keypoints"]["contenders"].values()
    wanted = info.name, info.sha256, engine
    timed = next((each for each in contenders if tuple(map(each.get, ("model", "sha256", "engine"))) == wanted), None)
    if timed is None:
        return "–"
    return f"{timed['best_ms']:,.0f}" if timed["best_ms"] >= 1000 else f"{timed['best_ms']:.3g}"


def _shipped(results: Path) -> str:
    columns = "weights = `{info.name}` | descriptor = {size} | patch = {info.patch_scale:g} sigma | file = {mb:.1f} MB"
    columns += " | Oxford mAP = {map} | made by = {made_by}"
    caption = "Size, run and mAP on the six Oxford sequences: results/oxford/."
    return Listing("demo.json", columns, caption, lambda _: _weights(results))(results)


def _costs(results: Path) -> str:
    columns = "weights = `{info.name}` | thousand parameters = {parameters:,.0f} | million multiply-adds = "
    columns += "{multiply_adds:.3g} | ms, CPU = {times[0]} | ms, CPU, int8 = {times[1]} | ms, GPU = {times[2]} | "
    columns += "bytes = {bytes} | mAP = {map}"
    machines = [_read(results / "speed" / f"bench-{name}.json")["run"]["machine"] for name in ("cpu", "h200")]
    caption = f"{machines[0]['cores']} cores of {machines[0]['cpu']}: results/speed/bench-cpu.json and "
    caption += f"{machines[1]['gpu']}: results/speed/kernels-h200.json, `patchprint.bits` bench-h200.json."
    rows = sorted(_weights(results), key=lambda row: row["map"], reverse=True)
    return Listing("demo.json", columns, caption, lambda _: rows)(results)


def measured(results: Path) -> Row:
    """mAP on Oxford and patches a second of the shipped weights, for ``patchprint models``; of these very weights alone."""
    speeds = {"cpu": _read(results / "speed/bench-cpu.json"), "cuda": _on_gpu(results)}
    models: dict[str, Row] = {}
    for info in list_models():
        entry: Row = {"sha256": info.sha256}
        path = results / "oxford" / f"{info.name}.json"
        if path.is_file() and (result := _read(path))["model"]["sha256"] == info.sha256:
            entry["oxford_map"] = round(result["scores"]["map"], 3)
        for kind, result in speeds.items():
            score = result["scores"]["describe"]["contenders"].get(contender_name(info.name, "auto"), {})
            if score.get("sha256") == info.sha256:
                entry.setdefault("patches_per_second", {})[kind] = score["patches_per_second"]
        if len(entry) > 1:
            models[info.name] = entry
    cpu, cuda = (result["run"]["machine"] for result in speeds.values())
    return {"models": models, "machines": {"cpu": f"{cpu['cores']} cores of an {cpu['cpu']}", "cuda": cuda["gpu"]}}


# --- Pipelines, matching, many images, training by several processes.

RULES = ("mutual", "mutual+ratio", "fginn")  # of matching
MATCH_RULES = ("mutual", "mutual, ratio 0.8", "mutual, calibrated ratio")


def _refined(results: Path) -> str:
    """Pipelines of ours with matches refined by their pixels, and without."""
    rows = []
    for path in sorted((results / "experiments/refined").glob("*.json"), reverse=True):
        result = _read(path)
        settings, scores = result["settings"], result["scores"]
        areas = " / ".join(f"{value:.3f}" for value in list(scores["auc"].values())[:3])
        rows.append([
            path.name.partition("-")[0].capitalize().replace("Eth", "ETH"), settings["detector"], settings["matcher"],
            "yes" if settings["refine"] else "no", f"{scores['right']:.1f}", f"{scores['precision']:.3f}", areas,
            f"{scores['cpu_ms_per_pair']:.0f}",
        ])  # fmt: skip
    header = ["images", "detector", "matcher", "refined", "right matches", "precision",
              "AUC, 3 / 5 / 10 px or 1 / 5 / 10 deg", "CPU ms a pair"]  # fmt: skip
    return Table(header, rows, "Means of 30 and 83 pairs: results/experiments/refined/.").to_markdown(False)


def _pipelines(data: str, judged_by: str, limits: Sequence[str], caption: str) -> Listing:
    """Every pipeline that was run on ``data``, best first by the area under the curve up to ``judged_by``."""

    def rows(found: list[Row]) -> Rows:
        unit = next(result["scores"] for result in found if result["model"]["name"] == "opencv-sift")
        for result in sorted(found, key=lambda result: -result["scores"]["auc"][judged_by]):
            times = {name: result["scores"][name] / unit[name] for name in ("cpu_ms_per_image", "cpu_ms_per_pair")}
            yield {**result, **times, "finds": result["scores"]["pipeline"]["keypoints"].partition(";")[0]}

    columns = " = `{model[name]}` | keypoints = {finds} ({scores[keypoints]:.0f}) | "
    columns += "matches = {scores[pipeline][matches]} | right = {scores[right]:.0f} | "
    columns += f"precision = {{scores[precision]:.2f}} | {_columns('AUC @l = {scores[auc][@l]:.3f}', l=limits)} | "
    columns += "time an image = {cpu_ms_per_image:.2g} | time a pair = {cpu_ms_per_pair:.2g}"
    about = f"{caption}, CPU time in units of `opencv-sift`: results/pipelines/."
    return Listing(f"pipelines/{data}-*.json", columns, about, rows)


def _by_model(result: Row) -> Rows:
    models = next(iter(result["scores"].values()))
    for model in models:
        if model != "possible":
            yield {"model": model, **{pair: scores[model] for pair, scores in result["scores"].items()}}


def _verdicts(result: Row) -> Rows:
    for way, scores in result["scores"].items():
        for group, score in scores["different"].items():
            found = f"{score['models_without_verdict']} models before, {score['false_models']} now"
            yield {"way": way, "pairs": f"different: {group}", "number": score["pairs"], "found": found}
        for group, score in scores["same"].items():
            kept = f"{score['kept']} kept ({100 * score['kept_share']:.1f} %), {score['kept_right']} right"
            numbers = {"number": score["pairs"], "recovered": str(score["recovered"])}
            yield {"way": way, "pairs": f"same: {group}", **numbers, "found": kept}


def _adapted(name: str, images: str) -> Listing:
    """``patchprint adapt`` on images that the start model has not seen."""
    caption = f"`patchprint adapt` on {images}, verdict: {{model[verdict]}}: results/experiments/{name}."
    return Listing(
        f"experiments/{name}", " = {key} | verified matches, held-out images = {inliers:.1f}", caption, "scores/*"
    )


def _neighbors(result: Row) -> Rows:
    for name, numbers in result["scores"].items():
        if "neighbors" in numbers and "photos" in numbers:
            for neighbors, row in numbers["neighbors"].items():
                yield {**row, "set": name, "images": numbers["photos"], "neighbors": neighbors}


def _reconstructions(result: Row) -> Rows:
    found = result["scores"]["reconstruction"]
    labels = {"exhaustive": "all pairs", "retrieval": f"retrieval, {found['neighbors']} neighbors"}
    for name, label in labels.items():
        seconds = found[name]["matching_seconds"] + found[name].get("choosing_seconds", 0)
        yield {**found[name], "label": label, "seconds": seconds}


def _divided(result: Row) -> Rows:
    for number, run in enumerate(result["scores"]["runs"]):
        how = "all on each" if not run["divided"] else "divided" if run["processes"] > 1 else "all"
        apart = f"{run['largest_difference']:.1e}" if run["largest_difference"] else "0"
        most = {name: max(each[name] for each in run["each"]) for name in ("photos_mib", "peak_mib")}
        yield {**run, **most, "loss": run["losses"][-1], "how": how, "apart": apart if number else ""}


def _gpus(result: Row) -> Rows:
    for way in result["scores"]["ways"]:
        how = "" if way["gpus"] == 1 else "split by anchors" if way["split"] else "whole on each"
        exchange = way["exchange_milliseconds"] + way["latency_milliseconds"]
        yield {**way, "how": how, "exchange": exchange, "rate": way["patches_per_second"] / 1e6}


# --- Speed.


def _place(result: Row) -> str:
    machine, settings = result["run"]["machine"], result["settings"]
    if settings["device"] == "cuda":
        return machine["gpu"]
    busy = f", {settings['busy_cores']} busy" if settings.get("busy_cores") else ""
    return f"{machine['cores']} cores, {machine['cpu']}{busy}"


def _stage(name: str, file: str) -> Callable[[Path], str]:
    def make(results: Path) -> str:
        result = _read(results / "speed" / file)
        title = result["scores"][name]["title"].replace("a photo", "an image").replace("A photo", "An image")
        caption = f"{title[0].upper()}{title[1:]}; {_place(result)}: results/speed/{file}."
        return replace(contest_table(result["scores"][name]), caption=caption).to_markdown()

    return make


def _growth(file: str) -> Callable[[Path], str]:
    def rows(result: Row) -> Rows:
        for model, score in result["scores"].items():
            for row in score["rows"]:
                power = score["power_of_time"] if row is score["rows"][-1] else ""
                peak = row.get("gpu_peak_mib", row["peak_mib"])
                yield {
                    **row,
                    "model": model,
                    "each": 1e6 * row["seconds"] / row["keypoints"],
                    "peak": peak,
                    "power": power,
                }

    columns = " = {model} | keypoints = {keypoints:,} | seconds = {seconds:.4g} | microseconds each = {each:,.4g} | "
    columns += "peak MiB = {peak:,.0f} | power = {power:.2f}"

    def make(results: Path) -> str:
        caption = f"Time by keypoints, and the power with which it grows; {_place(_read(results / 'speed' / file))}"
        return Listing(f"speed/{file}", columns, f"{caption}: results/speed/{file}.", rows)(results)

    return make


def _limits(file: str) -> Callable[[Path], str]:
    """How much of what the machine can do each stage uses."""

    def make(results: Path) -> str:
        scores = (result := _read(results / "speed" / file))["scores"]
        machine = scores["limits"]["contenders"]
        products = {kind: machine[f"matrix product, {kind}"] for kind in ("float32", "bfloat16")}
        limit = {kind: found["multiply_adds"] / found["best_ms"] / 1e6 for kind, found in products.items()}
        copy = machine["copy of memory"]["bytes"] / machine["copy of memory"]["best_ms"] / 1e6
        rows = [[f"matrix product, {kind}", f"{rate:,.0f} G multiply-adds/s", ""] for kind, rate in limit.items()]
        rows.append(["copy of memory", f"{copy:,.1f} GB/s", ""])
        for score in scores["describe"]["contenders"].values():
            engine = str(score.get("engine")).replace("cuda", "bfloat16")
            if engine in limit:
                rate = score["multiply_adds"] * score["patches_per_second"] / 1e9
                called = f"describe, {score['model']} in {engine}"
                rows.append([called, f"{rate:,.0f} G multiply-adds/s", f"{rate / limit[engine]:.0%}"])
        first, second = result["data"]["keypoints"][:2]
        rate = first * second * 128 / scores["match"]["contenders"]["patchprint, floats"]["best_ms"] / 1e6
        rows.append(["match, floats", f"{rate:,.0f} G multiply-adds/s", f"{rate / limit['float32']:.0%}"])
        patches = scores["sample"]["contenders"]["patchprint, pyramid kept"]["patches_per_second"]
        rate = patches * 32 * 32 * 4 / 1e9  # bytes of a patch of 32 x 32 float32
        rows.append(["sample, patches written", f"{rate:.2f} GB/s", f"{rate / copy:.0%}"])
        return Table(["", "reached", "of the limit"], rows, f"{_place(result)}: results/speed/{file}.").to_markdown()

    return make


def _folder(result: Row) -> Rows:
    """Stations of a folder of images: what each takes, and how many images go through."""
    scores, cores = result["scores"], result["settings"]["cores"]
    for name, taken in scores["stations_ms"].items():
        on_gpu = name == "describe" or (name == "detect" and "detected_per_second" not in scores)
        by, most = ("GPU", 1000 / taken) if on_gpu else ("one core", cores * 1000 / taken)
        yield {"key": name, "ms": taken, "by": by, "most": f"{most:,.0f}"}
    if "detected_per_second" in scores:
        yield {"key": "detect alone", "by": f"{cores} cores at once", "most": f"{scores['detected_per_second']:.1f}"}
    yield {"key": "all together", "by": f"{cores} cores and the GPU", "most": f"{scores['photos_per_second']:.1f}"}


def _training_steps(result: Row) -> Rows:
    plain, own, other = (
        result["scores"]["variants"][n]["milliseconds"] for n in ("plain eager float32", "sdgmnet", "hardnet")
    )
    yield {"key": "`sdgmnet`, plain eager float32 step in the manner of the authors' code", "ms": plain}
    yield {"key": "`sdgmnet` (FRN trunk)", "ms": own, "times": plain / own}
    yield {"key": "`hardnet` (batch-norm trunk)", "ms": other}  # no times: the plain step is of sdgmnet


def _engines(found: list[Row]) -> Rows:
    models: dict[str, Row] = {}
    for result in found:
        name = result["model"]["name"]
        models.setdefault(name, {"model": name})[result["model"]["engine"]] = result["scores"]["map"]
    yield from models.values()


# --- Studies, and metric learning on whole images.


def _page(study: str, *numbers: int) -> Callable[[Path], str]:
    """The tables of these numbers as the study itself wrote them."""
    file = f"{study}/{Path(study).name}.md"

    def make(results: Path) -> str:
        tables = [part for part in (results / file).read_text(encoding="utf-8").split("\n\n") if part.startswith("|")]
        return "\n\n".join([*(tables[number].strip() for number in numbers), f"results/{file}"])

    return make


def _papers(results: Path) -> str:
    """Every table and figure of the papers: its command, how much of it ran, numbers and verdict (``papers.json``)."""
    rows = []
    for each in json.loads((ROOT / "tools/papers.json").read_text(encoding="utf-8")):
        name, command = each["command"].removeprefix("study "), f"`{each['command']}`".replace("`–`", "–")
        files = [results / file for file in each.get("file", "").split()] or sorted(
            results.glob(f"*/{name}/{name}.json")
        )
        found = [_read(file) for file in files if file.is_file()]
        if "data" in each:
            rows.append([each["item"], command, "–", "", f"not run: {each['data']}"])
        elif not found or len(found) < len(each.get("file", "").split()):
            rows.append([each["item"], command, "–", "", each.get("verdict", "not run yet: needs a GPU")])
        else:
            numbers = re.sub(r"{([^{};]*); ([^{};]*); ([^{};]*)}", partial(_number, found), each.get("number", ""))
            rows.append([each["item"], command, _length(found[0]), numbers, each["verdict"]])
    header = ["item", "command (`patchprint ...`)", "length", "numbers (published)", "agrees?"]
    return Table(header, rows, "Studies of results/, each in its own folder.").to_markdown(False)


def _length(result: Row) -> str:
    """Return which part of the steps a study ran, how many of its runs, and how many seeds."""
    if "rows" not in result["scores"]:
        return "whole"
    runs = [run for row in result["scores"]["rows"] for run in row["runs"]]
    done, seeds = sum("error" not in run for run in runs), len(result["settings"]["seeds"])
    part = "" if done == len(runs) else f", {done} of {len(runs)} runs"
    return f"{result['settings']['budget']:g}{part}, {seeds} seed{'s' * (seeds > 1)}" if runs else "whole"


def _number(found: Sequence[Row], match: re.Match[str]) -> str:
    """Format a number: ``row; column; format``, ``row > row; ...`` the gain of the second, ``file; path; ...`` a score."""
    place, column, form = match.groups()
    if "rows" not in found[0]["scores"]:
        value = found[int(place)]["scores"]
        for part in column.split("."):
            value = value[part]
        return format(value, form)
    rows = {", ".join(row["labels"].values()): row["columns"] for row in found[0]["scores"]["rows"]}
    *before, after = (rows[name][column]["mean"] for name in place.split(" > "))
    return format(after - before[0] if before else after, form)


def _image_steps(result: Row) -> Rows:
    scores = result["scores"]
    yield {"key": "plain eager step", "ms": scores["eager_ms"]}
    yield {"key": "recorded, norms folded into convolutions", "ms": scores["record_ms"], "times": scores["speedup"]}


# --- Reliability.


def _reliability(found: list[Row]) -> Rows:
    faults, fuzz, load = (result["scores"] for result in found)
    memory = "peak {peak_mib:.0f} MiB, growth {growth_mib:.1f} MiB, {leaked_handles} files left open"
    fuzz["total"]["readers"] = len(fuzz["readers"])
    for counts, what, outcome in (
        (faults, "{injected:,} faults put into writers and long work", "{recovered:,} recovered, {lost} lost"),
        (
            fuzz["total"],
            "{cases:,} damaged files for {readers} readers",
            "{crashes} crashes, {hangs} hangs, {tracebacks} tracebacks",
        ),
        (load["describe"], "{photos:,} images described in one run", memory),
        (load["train"], "{minutes:g} minutes of training, {steps:,} steps", memory),
    ):
        yield {"what": what.format_map(counts), "outcome": outcome.format_map(counts)}


def _readers(result: Row) -> Rows:
    for name, counts in result["scores"]["readers"].items():
        yield {**counts, "label": name if "date" in counts else f"{name} (by hand)"}


# --- All tables.

TRIES = ("neighbours", "long", "batch", "fovea", "pooled", "ranking", "pooled-ranking", "ranking-long", "students")
PEERS = ("aliked-n16+lightglue", "patchprint", "aliked-n16rot", "disk", "xfeat", "rootsift", "opencv-sift", "orb")


def _models(results: Path) -> str:
    """Accuracy, time and size of every shipped model, best first, SIFT below."""
    sift = _read(results / "speed/bench-cpu.json")["scores"]["keypoints"]["contenders"]["OpenCV SIFT"]["best_ms"]
    rows = [{**row, "label": f"`{row['info'].name}`", "license": row["info"].license} for row in _weights(results)]
    for name in ("rootsift", "sift"):
        score = f"{_read(results / 'oxford' / f'{name}.json')['scores']['map']:.3f}"
        rows.append(
            {"label": f"`{name}` (OpenCV)", "map": score, "times": [f"{sift:.3g}", "", ""], "license": "Apache-2.0"}
        )
    rows.sort(key=lambda row: row["map"], reverse=True)
    columns = "model = {label} | Oxford mAP = {map} | ms, CPU = {times[0]} | ms, CPU int8 = {times[1]} | "
    columns += "ms, GPU = {times[2]} | MB = {mb:.1f} | license = {license}"
    caption = "2000 keypoints of an image on 2 CPU cores and on one H200: results/speed/ and results/oxford/."
    return Listing("demo.json", columns, caption, lambda _: rows)(results)


def _peers(found: list[Row]) -> Rows:
    scores = {result["file"].stem: result["scores"] for result in found}
    for name in PEERS:
        row: Row = {"name": name}
        for data in ("oxford", "eth"):
            if f"{data}-{name}" in scores:
                own, unit = scores[f"{data}-{name}"], scores[f"{data}-opencv-sift"]
                times = {key: own[key] / unit[key] for key in ("cpu_ms_per_image", "cpu_ms_per_pair")}
                row[data] = {**own, **times}
        yield row


_PEER = "AUC @l = {@d[auc][@l]:.3f}"
_TIMES = "time an image = {@d[cpu_ms_per_image]:.2g} | time a pair = {@d[cpu_ms_per_pair]:.2g}"


TABLES: dict[str, Callable[[Path], str]] = {
    "models": _models,
    "peers": Listing(
        "pipelines/*.json",
        " = `{name}` | Oxford: right = {oxford[right]:.0f} | "
        + _columns(_PEER, d=("oxford",), l=("3 px", "5 px"))
        + f" | {_columns(_TIMES, d=('oxford',))} | cameras: right = {{eth[right]:.0f}} | "
        + _columns(_PEER, d=("eth",), l=("1 deg", "5 deg"))
        + f" | {_columns(_TIMES, d=('eth',))}",
        "30 Oxford and 83 calibrated pairs, CPU time in units of `opencv-sift`: results/pipelines/.",
        _peers,
    ),
    "demo": Listing(
        "demo.json",
        " = {key} | FPR95, held out = {fpr95:.2p} % | matching AP, held out = {matching_ap:.3f} | matching AP, stereo pair = "
        "{stereo[ap]:.3f} | correct, stereo pair = {stereo[correct]} of {stereo[possible]}",
        "`make demo` on images that come with scikit-image: results/demo.json.",
        lambda result: (row for row in _at(result["scores"], ["*"]) if "fpr95" in row),
    ),
    "page": Listing(
        "speed/page.json",
        " = {key} | first pair, s = {first[seconds]:.2f} | of CPU = {first[cpu_seconds]:.2f} | "
        "next pairs, s = {next[seconds]:.2f} | of CPU, next = {next[cpu_seconds]:.2f}",
        "Two images of 1.1 megapixels, 1000 keypoints each, patchprint.tiny, in headless Chromium (relaxed: with fused "
        "multiply-add) and in Python, on two cores that other work kept busy (`python -m perf.speed.page`): "
        "results/speed/page.json.",
        lambda result: _at(result["scores"], ["*"]),
    ),
    "oxford": _oxford(_best_scales),
    "oxford-seeds": _oxford(_seeds),
    "shipped": _shipped,
    "costs": _costs,
    "hpatches": Listing(
        "hpatches/oxford-*.json",
        " = {model[name]} | "
        + " | ".join(_columns(f"{t} @l = {{scores[{task}][@l][python]:.3f}}", l=LEVELS) for t, task in TASKS.items()),
        "AP by task and strength of jitter: results/hpatches/.",
        lambda found: sorted(found, key=lambda result: f"{result['scores']['matching']['hard']['python']:.3f}"),
    ),
    "hpatches-real": Listing(
        "hpatches/contruction-*.json",
        " = {model[name]} | "
        + " | ".join(
            _columns(f"{task} @l = {{scores[{task}][@l][python]:.3f}}", l=LEVELS)
            for task in ("matching", "verification")
        ),
        "AP on `i_contruction` by task and strength of jitter: results/hpatches/contruction-*.json.",
        lambda found: sorted(found, key=lambda result: f"{result['scores']['matching']['hard']['python']:.3f}"),
    ),
    "oxford-published": Listing(
        "oxford-published/*.json",
        f" = {{file.stem}} | {OXFORD} | all = **{{scores[map]:.3f}}**",
        "mAP on the six Oxford sequences with the papers' flags: results/oxford-published/.",
        lambda found: sorted(found, key=lambda result: result["scores"]["map"]),
    ),
    "eth": Listing(
        "eth/*.json",
        " = {label} | ratio test = {ratio} | images = {registered} of {photos} | verified matches = {inlier_matches:,} | "
        + SPARSE,
        "Sparse models of two scenes, by model and ratio test: results/eth/.",
        _eth,
    ),
    "refined": _refined,
    "pipelines": _pipelines(
        "oxford", "5 px", ("3 px", "5 px", "10 px"), "Means of 30 pairs of the six Oxford sequences"
    ),
    "pipelines-cameras": _pipelines(
        "eth",
        "1 deg",
        ("1 deg", "5 deg", "10 deg", "20 deg"),
        "Means of 83 pairs of the images of fountain and Herz-Jesu",
    ),
    "keypoint-choice": Listing(
        "experiments/keypoint-choice.json experiments/keypoint-choice-hessian.json",
        "2000 keypoints = {key} | places = {warped[places]:.0f} | seen = {warped[inside]:.0f} | "
        "repeated = {warped[repeated]:.0f}"
        + " | "
        + _columns("right, `@r` = {warped[@r][right]:.0f}", r=RULES)
        + " | "
        + _columns("real: right, `@r` = {real[@r][right]:.0f}", r=RULES)
        + " | "
        + _columns("AUC 3 px, `@r` = {warped[@r][AUC 3 px]:.3f}", r=RULES[1:])
        + " | "
        + _columns("AUC 10 deg, `@r` = {real[@r][AUC 10 deg]:.3f}", r=RULES[1:]),
        "`{model[name]}`, means of {scores[dog][warped][pairs]} warped and {scores[dog][real][pairs]} real pairs: "
        "results/experiments/keypoint-choice*.json.",
        _keypoint_choices,
    ),
    "papers": _papers,
    "papers-weights": _papers_weights,
    "comparison": _page("studies/comparison", 1),
    "statistics": Listing(
        "studies/comparison/statistics.json",
        "step = {step} | theta+ = {positive:.3f} | std = {positive_std:.3f} | theta- = {negative:.3f} | "
        "std = {negative_std:.3f} | theta+ - theta- = {relative:.3f} | std = {relative_std:.3f} | "
        "power+ = {power_positive:.0f} | power- = {power_negative:.0f}",
        "`sdgmnet` in training, mean over three sets and two seeds: results/studies/comparison/statistics.json.",
        "scores/steps",
    ),
    **{
        f"study-{name}": _page(f"studies/{name}", 0)
        for name in ("hynet-frn", "hynet-similarity", "l2net-dif", "sec-patches")
    },
    "engines": Listing(
        "engines/oxford-*.json",
        " = `{model}` | "
        + _columns("@e = {@e:.4f}", e=("float32", "bfloat16", "onnxruntime", "openvino", "int8", "cuda")),
        "mAP on the six Oxford sequences by engine: results/engines/.",
        _engines,
    ),
    "scale-retrieval": Listing(
        "scale/retrieval.json",
        "images of = {set} | number = {images} | neighbors = {neighbors} | pairs (of all) = {pairs} ({share_of_all_pairs:.0%})"
        " | recall, 15 inliers = {recall_of_15_inliers:.3f} | recall, 30 inliers = {recall_of_30_inliers:.3f}",
        "Overlapping pairs that `--pairs retrieval` matches: results/scale/retrieval.json.",
        _neighbors,
    ),
    "scale-reconstruction": Listing(
        "scale/retrieval.json",
        " = {label} | pairs = {pairs} | registered = {registered}/{photos} | points = {points} | "
        "error px = {reprojection_error_px:.2f} | matching s = {seconds:.0f}",
        "{scores[reconstruction][share_of_registered]:.1%} of the images in "
        "{scores[reconstruction][share_of_matching_time]:.0%} of the time of matching "
        "(CPU seconds, with pooling): results/scale/retrieval.json.",
        _reconstructions,
    ),
    "scale-growth": Listing(
        "scale/growth.json",
        "images = {outer} |  = {key} | pairs = {pairs} | CPU s = {cpu_seconds:.0f} | s = {seconds:.0f} | peak MiB = {peak_mib}"
        " | files = {files} | MiB = {mib:.0f}",
        "{settings[model]}, {settings[keypoints]} keypoints, 640 x 480 pixels: results/scale/growth.json.",
        "scores/*/*",
    ),
    "scale-cost": Listing(
        "scale/cost.json",
        "images = {key:,} | descriptors = {prints:.1e} | describe = {core_hours[describe]:,.1f} | "
        "pool = {core_hours[pool]:,.1f} | "
        "index = {core_hours[index]:,.1f} | match, retrieval = {core_hours[match_retrieval]:,.1f} | match, all pairs = "
        "{core_hours[match_all]:,.1f} | features GB = {features_gb:,.0f} | files = {feature_files:,} | hours on "
        "{settings[assumed][cores]} cores = {hours_on_all_cores:,.1f} | dollars = {dollars:,.0f} | dollars, all pairs = "
        "{dollars_all_pairs:,}",
        "Core hours of each stage, on paper: results/scale/cost.json.",
        "scores/photos/*",
    ),
    "doap-before": Listing(
        "oxford/doap-binary.json hpatches/oxford-doap-binary.json "
        + " ".join(f"ubc/{name}-doap-binary.json" for name in SETS)
        + "".join(f" experiments/doap-binary-before/{name}.json" for name in ("oxford", "hpatches", *SETS)),
        "`doap-binary` = {label} | Oxford mAP = {map:.3f} | verif. = {verification[map][python]:.3f} | match. = "
        "{matching[map][python]:.3f} | retr. = {retrieval[map][python]:.3f} | "
        + _columns("FPR95 % @s = {ubc[@s][fpr95]:.3f}", s=SETS),
        "Now: in oxford, hpatches and ubc; before: results/experiments/doap-binary-before/*.json.",
        _doap,
    ),
    "tries": _choice("choice-tries"),
    "chosen-scales": _choice("choice-shipped"),
    "tries-groups": _choice("choice-doap-groups"),
    **{f"tries-{name}": _choice(f"choice-{name}") for name in (*TRIES, "students-longer")},
    "lost-matches": Listing(
        "experiments/lost-matches.json",
        "scale and angle differ by = {label} | part of the pairs, % = {part} | "
        + _columns(
            "`@m` finds, % = {found[@m]:.0p}", m=("rootsift", "patchprint.plain", "patchprint", "patchprint.large")
        ),
        "{scores[pairs]:,} pairs of keypoints of the Oxford sequences: results/experiments/lost-matches.json.",
        _lost,
    ),
    "frames": Listing(
        "experiments/frames.json",
        "frames = {key} | "
        + _columns("angles within @n degrees, % = {warped[angles within @n]:.0p}", n=("10", "20", "45"))
        + " | warped: AP = {warped[patchprint.fast, AP]:.3f} | real: right = {real[patchprint.fast, right]:.0f} | "
        "real: precision = {real[patchprint.fast, precision]:.3f}",
        "`patchprint.fast`, {scores[warped][detector][pairs]} warped and {scores[real][detector][pairs]} real pairs: "
        "results/experiments/frames.json.",
        _frames,
    ),
    "students": Listing(
        "oxford/patchprint.plain.json experiments/students/*.json",
        f" = {{label}} | map = {{scores[map]:.3f}} | {OXFORD}",
        "mAP on the six Oxford sequences: results/experiments/students/.",
        _students,
    ),
    "inliers": Listing(
        "experiments/inliers.json",
        " = {model} | "
        + _columns("@p: @r = {@p[@r][inliers]}", p=("graf 1-3", "stereo", "unrelated, at most"), r=MATCH_RULES),
        "Verified matches of two pairs, and the most by chance: results/experiments/inliers.json.",
        _by_model,
    ),
    "verdict": Listing(
        "verdict.json",
        "matched = {way} | pairs = {pairs} | number = {number} | recovered = {recovered} | returned = {found}",
        "The verdict on images that it was not fitted on: results/verdict.json.",
        _verdicts,
    ),
    "sfm": Listing(
        "experiments/sfm-fountain.json",
        f"descriptor = {{key}} | images = {{registered}} of {{photos}} | {SPARSE}",
        "`patchprint sfm --compare-sift` on Strecha's fountain: results/experiments/sfm-fountain.json.",
        "scores/*",
    ),
    "compression": Listing(
        "experiments/compression.json",
        "`{model[name]}` = `{key}` | bytes a descriptor = {bytes} | Oxford mAP = {map:.3f} | loss = {loss:.3f}",
        "mAP on the six Oxford sequences by compression: results/experiments/compression.json.",
        lambda result: sorted(_at(result["scores"], ["*"]), key=lambda row: -row["bytes"]),
    ),
    "adapt": _adapted("adapt.json", "Bodleian"),
    "adapt-underwater": _adapted("adapt-underwater.json", "frames from under water"),
    "metric-losses": _page("metric-learning/metric-losses", 0, 1),
    **{f"metric-{name}": _page(f"metric-learning/metric-{name}", 0) for name in ("large", "norms", "head")},
    "simclr": _page("metric-learning/simclr", 0),
    "metric-choice": Listing(
        "metric-learning/choice.json",
        "flags beside `patchprint train metric-lite0 --set hold_out=true` = `{flags}` | "
        + _columns("step {scores[tries][0][recall][@n][0]} = {recall[@n][1]:.1p}", n="0123"),
        "R@1 on 20 held-out training classes of CUB-200-2011; 80 are learned: results/metric-learning/choice.json.",
        "scores/tries",
    ),
    "metric-step": Listing(
        "speed/image-step.json",
        " = {key} | one step = {ms:.1f} ms | times faster = {times:.1f}",
        "One step of 120 images of 128 px, bf16, semi-hard loss with SEC, one {run[machine][gpu]}: "
        "results/speed/image-step.json.",
        _image_steps,
    ),
    "reliability": Listing(
        "reliability/faults.json reliability/fuzz.json reliability/load.json",
        " = {what} | outcome = {outcome}",
        "`make faults`, `make fuzz` and `make load`: results/reliability/.",
        _reliability,
        words=True,
    ),
    "reliability-readers": Listing(
        "reliability/fuzz.json",
        "reader = {label} | "
        + _columns("@c = {@c:,}", c=("cases", "read", "refused", "crashes", "hangs", "tracebacks")),
        "Damaged files by reader: results/reliability/fuzz.json.",
        _readers,
    ),
    **{f"speed-{n}": _stage(n, "bench-cpu.json") for n in ("describe", "image", "sample", "latency", "detect", "step")},
    "speed-match": _stage("match", "match-cpu.json"),
    **{f"speed-busy-{name}": _stage(name, "bench-cpu-busy.json") for name in ("describe", "image")},
    "speed-image-int8": _stage("image", "image-cpu.json"),
    "speed-growth": _growth("growth-cpu.json"),
    "speed-large": Listing(
        "speed/large-image.json",
        " = {key} | keypoints = {keypoints:,} | seconds = {seconds:.1f} | peak MiB = {peak_mib:,.0f}",
        "Images of 25, 50 and 100 megapixels, `{model[name]}`, detector `{settings[detector]}`, {settings[threads]} thread "
        "beside other work; {run[machine][cores]} cores, {run[machine][cpu]}: results/speed/large-image.json.",
        "scores/*",
    ),
    "speed-limits": _limits("bench-cpu.json"),
    "speed-gpu-describe": _stage("describe", "bench-h200.json"),
    **{
        f"speed-gpu-{name}": _stage(name, "kernels-h200.json")
        for name in ("detect", "image", "keypoints", "latency", "match", "sample")
    },
    "speed-gpu-growth": _growth("growth-h200.json"),
    "speed-gpu-limits": _limits("bench-h200.json"),
    "speed-gpu-folder": Listing(
        "speed/folder-h200.json",
        " = {key} | ms per image = {ms:.1f} | by = {by} | images/s at most = {most}",
        "{data[sizes][0]} pixels, {data[keypoints][0]} keypoints; {run[machine][gpu]}: results/speed/folder-h200.json.",
        _folder,
    ),
    "training-speed": Listing(
        "speed/training-speed.json",
        " = {key} | one step = {ms:.2f} ms | times faster = {times:.1f}",
        "Median time of one step on one {run[machine][gpu]}: results/speed/training-speed.json.",
        _training_steps,
    ),
    "training-divided": Listing(
        "scale/divided-training.json",
        "processes = {processes} | images = {how} | MiB of images each = {photos_mib:.0f} | peak MiB each = {peak_mib:.0f} | "
        "last loss = {loss:.6f} | largest difference of a loss = {apart}",
        "Imports alone take {scores[runs][0][each][0][imported_mib]:.0f} MiB; {settings[steps]} steps of "
        "{settings[batch]} pairs: results/scale/divided-training.json.",
        _divided,
    ),
    "training-on-paper": Listing(
        "speed/scaling.json",
        "GPUs = {gpus} | loss = {how} | MB received = {received_megabytes:.1f} | exchange ms = {exchange:.2f} | mining ms more"
        " = {mining_milliseconds:.2f} | table GB = {distance_matrix_gigabytes:.2f} | step ms = {step_milliseconds:.2f} | "
        "M patches/s = {rate:.2f} | minutes = {minutes_for_one_pass:.1f} | dollars = {dollars_for_one_pass:.2f}",
        "One pass over 10^9 patches, on paper: results/speed/scaling.json.",
        _gpus,
    ),
}


def fill(text: str, results: Path) -> str:
    """Return ``text`` with every table made anew."""

    def replaced(found: re.Match[str]) -> str:
        name = found.group(1)
        return f"<!-- begin {name} -->\n{TABLES[name](results)}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin (\S+) -->\n.*?<!-- end \1 -->", replaced, text, flags=re.DOTALL)


def documents() -> list[Path]:
    """Return the Markdown files that hold tables."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(file for file in files if "<!-- begin " in file.read_text(encoding="utf-8"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 where something is out of date"
    )
    is_check, results = parser.parse_args().check, ROOT / "results"
    made = {file: fill(file.read_text(encoding="utf-8"), results) for file in documents()}
    made[MEASURED] = json.dumps(measured(results), indent=2) + "\n"
    stale = [file for file, text in made.items() if file.read_text(encoding="utf-8") != text]
    if is_check:
        print(*(f"{file.relative_to(ROOT)} is out of date: make tables" for file in stale), sep="\n", file=sys.stderr)
        return int(bool(stale))
    for file in stale:
        write_text(file, made[file])
    return 0


if __name__ == "__main__":
    sys.exit(main())
