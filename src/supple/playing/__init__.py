"""Playing and baking motions with any engine."""

from typing import TYPE_CHECKING

from supple.late_names import late_names
from supple.playing.bake import bake, bake_all

if TYPE_CHECKING:
    from supple.playing.bake_model import model_options
    from supple.playing.player import Player
    from supple.playing.secondary_motion import curves
    from supple.playing.streamed_pose import PoseStream

__all__ = ["Player", "PoseStream", "bake", "bake_all", "curves", "model_options"]

__getattr__ = late_names(
    __name__,
    {
        "bake_model": "model_options",
        "player": "Player",
        "secondary_motion": "curves",
        "streamed_pose": "PoseStream",
    },
)
