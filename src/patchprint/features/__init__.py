"""Use a descriptor: load a model, extract features, draw matches."""

from patchprint.features.draw_matches import draw
from patchprint.features.extract import describe, extract
from patchprint.features.model import Model, list_models, load

__all__ = ["Model", "describe", "draw", "extract", "list_models", "load"]
