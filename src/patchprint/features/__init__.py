"""Use a descriptor: load a model, extract, match, verify, draw, compress, store."""

from patchprint.features.drawing import draw
from patchprint.features.extract import describe, extract
from patchprint.features.matching import match
from patchprint.features.model import Model, list_models, load
from patchprint.features.two_view import verify

__all__ = ["Model", "describe", "draw", "extract", "list_models", "load", "match", "verify"]
