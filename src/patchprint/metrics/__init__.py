"""Pure functions from distances and labels to numbers; no model, no files."""

from patchprint.metrics.average_precision import average_precision, mean_average_precision, precision_recall
from patchprint.metrics.recall import Recall, recall_at
from patchprint.metrics.verification import FPR95_VARIANTS, fpr95, roc_auc

__all__ = [
    "FPR95_VARIANTS",
    "Recall",
    "average_precision",
    "fpr95",
    "mean_average_precision",
    "precision_recall",
    "recall_at",
    "roc_auc",
]
