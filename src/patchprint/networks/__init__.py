"""Patch in, vector out: trunks, heads, and the registry of trained weights."""

from patchprint.networks.base import ModelInfo, PatchNetwork, TrainingRecord
from patchprint.networks.blocks import set_num_views
from patchprint.networks.catalog import NETWORKS, create

__all__ = ["NETWORKS", "ModelInfo", "PatchNetwork", "TrainingRecord", "create", "set_num_views"]
