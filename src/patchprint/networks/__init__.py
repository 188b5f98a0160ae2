"""Networks from patches to descriptors, their registry, weights and engines."""

from patchprint.networks.blocks import set_num_views
from patchprint.networks.network import NETWORKS, ModelInfo, PatchNetwork, TrainingRecord, create

__all__ = ["NETWORKS", "ModelInfo", "PatchNetwork", "TrainingRecord", "create", "set_num_views"]
