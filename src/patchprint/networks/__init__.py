"""Networks from patches to descriptors, their registry, weights and engines."""

from patchprint.networks.blocks import set_num_views
from patchprint.networks.catalog import NETWORKS, create
from patchprint.networks.network import ModelInfo, PatchNetwork, TrainingRecord

__all__ = ["NETWORKS", "ModelInfo", "PatchNetwork", "TrainingRecord", "create", "set_num_views"]
