"""Numbers that the papers print, for comparison where the protocol is the same (fact sheet, section 10)."""

from __future__ import annotations

from typing import Any

# FPR95 in percent, train>test in this order; + means augmented training data.
_UBC_ORDER = ("nd>lib", "yos>lib", "lib>nd", "yos>nd", "lib>yos", "nd>yos")
UBC_FPR95: dict[str, tuple[float, ...]] = {
    "TFeat": (7.39, 10.31, 3.06, 3.80, 8.06, 7.24),
    "L2-Net": (3.64, 5.29, 1.15, 1.62, 4.43, 3.30),
    "L2-Net+": (2.36, 4.70, 0.72, 1.29, 2.57, 1.71),
    "DOAP+": (1.54, 2.62, 0.43, 0.87, 2.00, 1.21),
    "DOAP-ST+": (1.47, 2.29, 0.39, 0.78, 1.98, 1.35),
    "DOAP binary 256+": (3.18, 4.32, 1.04, 1.57, 4.10, 3.87),
    "HardNet+ (lr 10)": (1.49, 2.51, 0.53, 0.78, 1.96, 1.84),
    "CDF": (1.21, 2.01, 0.39, 0.68, 1.51, 1.29),
    "SOSNet": (1.08, 2.12, 0.34, 0.67, 1.03, 0.95),
    "HardNet+FRN": (1.26, 1.76, 0.41, 0.58, 1.16, 1.05),
    "HyNet": (0.89, 1.37, 0.34, 0.61, 0.88, 0.96),
    "SDGMNet (best test epoch)": (0.82, 1.41, 0.30, 0.46, 0.80, 0.76),
}
UBC_SIFT = {"liberty": 29.84, "notredame": 22.53, "yosemite": 27.29}
_UBC_TEST_SETS = {"liberty": (0, 1), "notredame": (2, 3), "yosemite": (4, 5)}

# HPatches, split full or a (the literature mixes them), trained on Liberty: matching, retrieval, verification in percent.
HPATCHES: dict[str, dict[str, float]] = {
    "RootSIFT": {"matching": 27.22, "retrieval": 42.49},
    "TFeat": {"matching": 32.64, "retrieval": 52.03},
    "L2-Net": {"matching": 40.82, "retrieval": 59.64},
    "L2-Net+": {"matching": 45.04, "retrieval": 63.37},
    "HardNet+ (NIPS)": {"verification": 87.12, "matching": 50.38, "retrieval": 66.82},
    "HardNet+": {"verification": 88.43, "matching": 52.76, "retrieval": 69.66},
}

# RomePatches, test part, mAP in percent.
ROME = {"SIFT": 87.9, "CKN-grad": 88.1, "DOAP": 88.4, "DOAP binary": 86.8}

# ETH without ratio test: registered photos, thousands of points, track length, reprojection error in pixels.
ETH: dict[str, dict[str, tuple[int, float, float, float]]] = {
    "herzjesu": {
        "HardNet": (8, 8.7, 4.30, 0.50),
        "SOSNet": (8, 8.7, 4.31, 0.50),
        "HyNet": (8, 8.9, 4.32, 0.52),
        "SDGMNet": (8, 9.0, 4.32, 0.53),
    },
    "fountain": {
        "HardNet": (11, 16.3, 4.91, 0.47),
        "SOSNet": (11, 16.3, 4.92, 0.46),
        "HyNet": (11, 16.5, 4.93, 0.48),
        "SDGMNet": (11, 16.5, 4.94, 0.48),
    },
}


def comparable(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Published rows, by method, with the headline names of ``compare``; empty where the protocol or data differ."""
    scores, data = result["scores"], str(result["data"]["path"]).rstrip("/").rsplit("/", 1)[-1].lower()
    if result["benchmark"] == "ubc" and scores.get("pair_list") == "official" and data in _UBC_TEST_SETS:
        first, second = _UBC_TEST_SETS[data]
        rows = {
            f"{name} ({_UBC_ORDER[column]})": {"FPR95 %": values[column]}
            for name, values in UBC_FPR95.items()
            for column in (first, second)
        }
        return {"SIFT": {"FPR95 %": UBC_SIFT[data]}, **rows}
    if result["benchmark"] == "hpatches" and scores["counts"]["sequences"] in (40, 116):
        return {name: {task: value / 100 for task, value in row.items()} for name, row in HPATCHES.items()}
    if result["benchmark"] == "rome" and scores["queries"] == 10_000 and result["settings"]["split"] == "val":
        return {name: {"mAP": value / 100} for name, value in ROME.items()}
    if result["benchmark"] == "eth" and result["settings"]["ratio"] is None and data in ETH:
        names = ("registered", "points", "track length", "reprojection px")
        return {
            f"{method} (other keypoints)": dict(zip(names, (row[0], row[1] * 1000, *row[2:]), strict=True))
            for method, row in ETH[data].items()
        }
    return {}
