"""DOAP: its tables, batch size, bins, spatial transformer, label mining, and learning rates in short runs."""

from functools import partial
from typing import Any

from patchprint.studies import Bars, Case, Column, Lines, Measure, Study
from patchprint.studies._measures import FPR95, HPATCHES, MEAN, UBC, UBC_SETS, UBC_TABLE, mean_ap, published_fpr95

# 100 epochs of Liberty at 1024 patches; other batches take steps in inverse proportion, and the rate follows by itself.
_EPOCHS_100 = 44_000
_SHORT = 4000  # steps
_MATCHING = mean_ap("matching")
_ROME = {"train mAP": "train", "test mAP": "test"}
_STUDY = partial(Study, data=UBC_SETS, measures=UBC, columns=FPR95[1:])


def _doap(labels: dict[str, str], **settings: Any) -> Case:
    return Case(labels, "doap", "liberty", {"hold_out": False, **settings})


STUDIES = {
    "doap-batch": _STUDY(
        summary="DOAP's batch size at equal epochs, trained on Liberty",
        cases=tuple(
            _doap({"patches in a batch": str(patches)}, batch=patches, steps=_EPOCHS_100 * 1024 // patches)
            for patches in (256, 512, 1024, 2048, 4096)
        ),
        figures=(Lines((MEAN,), x="patches in a batch", logarithmic=True),),
        notes="Weights of the last step. Published in a figure only: the error falls with the batch and stays from 2048 on.",
    ),
    "doap-bins": _STUDY(
        summary="DOAP's number of bins, trained on Liberty",
        cases=tuple(
            _doap({"bins": str(bins)}, loss_settings={"bins": bins}) for bins in (5, 10, 15, 20, 25, 50, 200, 1000)
        ),
        figures=(Lines((MEAN,), x="bins"),),
        notes="Weights of the last step. The paper says that up to 25 bins suffice, and that there is no error of quantization "
        "where a bin holds one item (1000 bins for 1024 patches); it prints no numbers.",
    ),
    "doap-binary": UBC_TABLE(
        summary="DOAP's 256 bits without and with spatial transformer",
        cases=tuple(
            Case(
                {"method": title, "trained on": learned},
                recipe,
                learned,
                {"hold_out": False},
                published=published_fpr95(f"{title} 256+", learned),
            )
            for title, recipe in (("DOAP binary", "doap-binary"), ("DOAP-ST binary", "doap-st-binary"))
            for learned in UBC_SETS
        ),
        figures=(Bars(MEAN, bars="trained on", groups=("method",)),),
        notes="Weights of the last step.",
    ),
    "doap-mining": Study(
        summary="DOAP on HPatches without and with spatial transformer and label mining",
        data={
            "train": "store of HPatches' training sequences, or made of image sequences, with --mine-labels",
            "hpatches": "the same of other sequences, to test on",
        },
        cases=(
            Case({"method": "DOAP", "negatives": "of other sequences"}, "doap-hpatches", "train"),
            Case({"method": "DOAP-ST", "negatives": "of other sequences"}, "doap-st-hpatches", "train"),
            *(
                Case(
                    {"method": "DOAP-ST", "negatives": f"also mined, of {number} sequences"},
                    "doap-st-lm",
                    "train",
                    {"batcher_options": {"sequences": number}},
                )
                for number in (4, 8)
            ),
            Case(
                {"method": "DOAP-ST", "negatives": "also mined"},
                "doap-st-lm",
                "train",
                published_gain={_MATCHING.title: 6.0},
            ),
        ),
        measures=HPATCHES,
        columns=(_MATCHING, mean_ap("verification"), mean_ap("retrieval")),
        baseline=("negatives", "of other sequences"),
        figures=(Bars(_MATCHING.title, bars="negatives", groups=("method",)),),
        notes="mAP in percent, weights of the last step. The paper says around 6 for the gain in matching, on split a; its "
        "batches are of two sequences, which it did not tune.",
    ),
    "doap-rome": Study(
        summary="DOAP on RomePatches",
        data={"rome": "store of RomePatches"},
        cases=tuple(
            Case({"method": title}, recipe, "rome", published=dict(zip(_ROME, scores, strict=True)))
            for title, recipe, scores in (
                ("DOAP", "doap-rome", (95.9, 88.4)),
                ("DOAP binary", "doap-binary-rome", (95.2, 86.8)),
            )
        ),
        measures={part: Measure("rome", settings={"split": part}) for part in ("train", "test")},
        columns=tuple(Column(title, f"{part}.map", scale=100) for title, part in _ROME.items()),
        figures=tuple(Bars(title, bars="method") for title in _ROME),
        notes="mAP in percent, weights of the last step.",
    ),
    "doap-rates": _STUDY(
        summary=f"DOAP's learning rate and batch beside HardNet, {_SHORT} steps, trained on Liberty",
        cases=(
            *(
                _doap(
                    {"method": "DOAP", "patches in a step": str(patches), "rate": f"{rate:g}"},
                    steps=_SHORT,
                    batch=patches,
                    lr=rate,
                )
                for patches in (1024, 2048, 4096)
                for rate in (0.1, 0.3, 1.0, 3.0)  # of 1024 patches; other batches scale it
            ),
            *(
                Case(
                    {"method": "HardNet", "patches in a step": str(2 * points), "rate": "10"},
                    "hardnet",
                    "liberty",
                    {"hold_out": False, "steps": _SHORT, "batch": points},
                )
                for points in (512, 1024)
            ),
        ),
        seeds=(0,),
        best_over=("rate", MEAN),
        figures=(Lines((MEAN,), x="patches in a step", lines=("method", "rate"), logarithmic=True),),
        notes="Weights of the last step. DOAP's rate is that of 1024 patches and grows with the batch, as in the paper; that "
        "of HardNet is its own.",
    ),
    "doap-transformer": UBC_TABLE(
        summary="DOAP without and with spatial transformer, its padding by repeated border or zeros",
        cases=tuple(
            Case(
                {"transformer": title, "trained on": learned},
                recipe,
                learned,
                {"hold_out": False, "network_options": options},
                published=published_fpr95(row, learned) if row else {},
            )
            for title, recipe, options, row in (
                ("none", "doap", {}, "DOAP+"),
                ("border repeated", "doap-st", {"padding": "border"}, "DOAP-ST+"),
                ("zeros", "doap-st", {"padding": "zeros"}, ""),
            )
            for learned in UBC_SETS
        ),
        baseline=("transformer", "none"),
        figures=(Bars(MEAN, bars="transformer", groups=("trained on",)),),
        notes="Weights of the last step. Published for zeros, in words: decent alignment, but no gain.",
    ),
}
