"""Playing and baking motions with any engine."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.playback.bake_model import model_options
    from supple.playback.baking import bake, bake_all
    from supple.playback.player import Player
    from supple.playback.secondary_motion import curves
    from supple.playback.streamed_pose import PoseStream

__all__ = ["Player", "PoseStream", "bake", "bake_all", "curves", "model_options"]

__getattr__ = lazy_imports(__name__)
