"""Physically based soft tissue for any rigged character, in real time.

Names here are imported when first used, so that ``import supple`` costs nothing.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from supple.errors import SuppleError, SuppleWarning
from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.app.pictures.video import video
    from supple.dynamics.rigid_object import RigidObject
    from supple.elastic.material import Material
    from supple.engines.factory import Simulator, load_model
    from supple.engines.full.factory import FullSimulator
    from supple.engines.pose_space.crowd import Crowd
    from supple.engines.pose_space.model.model import PoseSpaceModel
    from supple.engines.stvk.free.simulator import FreeStvkSimulator
    from supple.engines.stvk.haptics.haptic_ball import HapticBall
    from supple.engines.stvk.model import StvkModel
    from supple.engines.stvk.simulator import StvkSimulator
    from supple.formats.load import load
    from supple.formats.save import save
    from supple.mesh.distance_field import Solid
    from supple.mesh.obstacles import Box, Capsule, Convex, Plane, Sphere
    from supple.playback.baking import bake, bake_all
    from supple.playback.character_models import build
    from supple.playback.fit.fit import Fit, fit
    from supple.playback.player import Player
    from supple.playback.secondary_motion import curves
    from supple.rig.baked_motion import BakedMotion
    from supple.rig.free_curves import FreeCurves

__all__ = [
    "BakedMotion",
    "Box",
    "Capsule",
    "Convex",
    "Crowd",
    "Fit",
    "FreeCurves",
    "FreeStvkSimulator",
    "FullSimulator",
    "HapticBall",
    "Material",
    "Plane",
    "Player",
    "PoseSpaceModel",
    "RigidObject",
    "Simulator",
    "Solid",
    "Sphere",
    "StvkModel",
    "StvkSimulator",
    "SuppleError",
    "SuppleWarning",
    "__version__",
    "bake",
    "bake_all",
    "build",
    "curves",
    "fit",
    "load",
    "load_model",
    "save",
    "video",
]

__version__ = "0.1.0"

_PACKAGES = (
    "anatomy",
    "dynamics",
    "elastic",
    "engines",
    "formats",
    "lab",
    "linalg",
    "maths",
    "mesh",
    "playback",
    "reduction",
    "rig",
    "scenes",
)
#: Packages under their names before 0.2.
_RENAMED = {"playing": "playback"}
_public_name = lazy_imports(__name__)


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(f"supple.{name}: use supple.{new}", DeprecationWarning, stacklevel=2)
        name = new
    if name in _PACKAGES:
        return import_module(f"supple.{name}")
    return _public_name(name)


def __dir__() -> list[str]:
    return sorted(__all__)
