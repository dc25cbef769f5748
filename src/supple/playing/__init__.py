"""Playing and baking motions with any engine."""

from supple.playing.bake import bake, bake_all
from supple.playing.bake_model import model_options
from supple.playing.player import Player

__all__ = ["Player", "bake", "bake_all", "model_options"]
