"""Playing and baking motions with any engine."""

from supple.playing.bake import bake, bake_all
from supple.playing.bake_model import model_options
from supple.playing.player import Player
from supple.playing.secondary_motion import curves
from supple.playing.streamed_pose import PoseStream

__all__ = ["Player", "PoseStream", "bake", "bake_all", "curves", "model_options"]
