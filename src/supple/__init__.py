"""Physically based soft tissue for any rigged character, in real time.

Names here are imported when first used, so that ``import supple`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from supple.errors import SuppleError, SuppleWarning

if TYPE_CHECKING:
    from supple.dynamics import (
        Crowd,
        FreeStvkSimulator,
        FullSimulator,
        HapticBall,
        Player,
        Simulator,
        StvkSimulator,
        bake,
    )
    from supple.elastic import Material
    from supple.formats import load, save
    from supple.reduction import PoseSpaceModel, StvkModel, build
    from supple.rig import BakedMotion

__all__ = [
    "BakedMotion",
    "Crowd",
    "FreeStvkSimulator",
    "FullSimulator",
    "HapticBall",
    "Material",
    "Player",
    "PoseSpaceModel",
    "Simulator",
    "StvkModel",
    "StvkSimulator",
    "SuppleError",
    "SuppleWarning",
    "__version__",
    "bake",
    "build",
    "load",
    "save",
]

__version__ = "0.1.0"

_HOMES = {
    "BakedMotion": "supple.rig",
    "Crowd": "supple.dynamics",
    "FreeStvkSimulator": "supple.dynamics",
    "FullSimulator": "supple.dynamics",
    "HapticBall": "supple.dynamics",
    "Material": "supple.elastic",
    "Player": "supple.dynamics",
    "PoseSpaceModel": "supple.reduction",
    "Simulator": "supple.dynamics",
    "StvkModel": "supple.reduction",
    "StvkSimulator": "supple.dynamics",
    "bake": "supple.dynamics",
    "build": "supple.reduction",
    "load": "supple.formats",
    "save": "supple.formats",
}
_ROOMS = ("dynamics", "elastic", "formats", "linalg", "mesh", "reduction", "rig", "scenes")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"supple.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'supple' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
