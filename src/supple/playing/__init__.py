"""Playing and baking motions with any engine."""

from supple.playing.bake import bake
from supple.playing.bake_model import model_options
from supple.playing.player import Player

__all__ = ["Player", "bake", "model_options"]
