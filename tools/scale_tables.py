"""Tables of many photos, made from ``results/scale``."""

from __future__ import annotations

from pathlib import Path

from tools.markdown import read, table


def retrieval(results: Path) -> str:
    """Of each photo set and number of neighbors: the pairs that are matched, and the overlapping ones among them."""
    scores = read(results / "scale" / "retrieval.json")["scores"]
    sets = {name: numbers for name, numbers in scores.items() if "neighbors" in numbers and "photos" in numbers}
    rows = []
    for name, numbers in sets.items():
        for neighbors, row in numbers["neighbors"].items():
            rows.append(
                [
                    name,
                    f"{numbers['photos']}",
                    neighbors,
                    f"{row['pairs']} ({row['share_of_all_pairs']:.0%})",
                    f"{row['recall_of_15_inliers']:.3f}",
                    f"{row['recall_of_30_inliers']:.3f}",
                ]
            )
    header = ["photos of", "number", "neighbors", "pairs (of all)", "recall, 15 inliers", "recall, 30 inliers"]
    return table(header, rows, "Overlapping pairs that `--pairs retrieval` matches: results/scale/retrieval.json.")


def reconstruction(results: Path) -> str:
    """The model of all pairs beside that of retrieval."""
    found = read(results / "scale" / "retrieval.json")["scores"]["reconstruction"]
    labels = {"exhaustive": "all pairs", "retrieval": f"retrieval, {found['neighbors']} neighbors"}
    rows = [
        [
            label,
            f"{found[name]['pairs']}",
            f"{found[name]['registered']}/{found[name]['photos']}",
            f"{found[name]['points']}",
            f"{found[name]['reprojection_error_px']:.2f}",
            f"{found[name]['matching_seconds'] + found[name].get('choosing_seconds', 0):.0f}",
        ]
        for name, label in labels.items()
    ]
    caption = (
        f"{found['share_of_registered']:.1%} of the photos in {found['share_of_matching_time']:.0%} of the time of matching "
        "(CPU seconds, with pooling): results/scale/retrieval.json."
    )
    return table(["", "pairs", "registered", "points", "error px", "matching s"], rows, caption)


def growth(results: Path) -> str:
    """Every stage at every size."""
    result = read(results / "scale" / "growth.json")
    rows = []
    for size, stages in result["scores"].items():
        for name, row in stages.items():
            pairs = "" if "pairs" not in row else f"{row['pairs']}"
            numbers = [f"{row['cpu_seconds']:.0f}", f"{row['seconds']:.0f}", f"{row['peak_mib']}", f"{row['files']}"]
            rows.append([size, name, pairs, *numbers, f"{row['mib']:.0f}"])
    settings = result["settings"]
    caption = f"{settings['model']}, {settings['keypoints']} keypoints, 640 x 480 pixels: results/scale/growth.json."
    return table(["photos", "", "pairs", "CPU s", "s", "peak MiB", "files", "MiB"], rows, caption)


def cost(results: Path) -> str:
    """Collections on paper."""
    result = read(results / "scale" / "cost.json")
    rows = []
    for photos, numbers in result["scores"]["photos"].items():
        hours = numbers["core_hours"]
        rows.append(
            [
                f"{int(photos):,}",
                f"{numbers['prints']:.1e}",
                *(f"{hours[name]:,.1f}" for name in ("describe", "pool", "index", "match_retrieval", "match_all")),
                f"{numbers['features_gb']:,.0f}",
                f"{numbers['feature_files']:,}",
                f"{numbers['hours_on_all_cores']:,.1f}",
                f"{numbers['dollars']:,.0f}",
                f"{numbers['dollars_all_pairs']:,}",
            ]
        )
    header = ["photos", "prints", "describe", "pool", "index", "match, retrieval", "match, all pairs"]
    cores = f"hours on {result['settings']['assumed']['cores']} cores"
    caption = "Core hours of each stage, on paper: results/scale/cost.json."
    return table([*header, "features GB", "files", cores, "dollars", "dollars, all pairs"], rows, caption)
