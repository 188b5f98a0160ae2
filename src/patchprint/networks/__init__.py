"""Patch in, vector out: trunks, heads, and the registry of trained weights."""

from patchprint.networks.blocks import set_num_views
from patchprint.networks.catalog import NETWORKS, create
from patchprint.networks.network import ModelInfo, PatchNetwork, TrainingRecord

__all__ = ["NETWORKS", "ModelInfo", "PatchNetwork", "TrainingRecord", "create", "set_num_views"]
