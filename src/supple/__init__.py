"""Physically based soft tissue for any rigged character, in real time.

Names here are imported when first used, so that ``import supple`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from supple.errors import SuppleError, SuppleWarning

if TYPE_CHECKING:
    from supple.dynamics import FullSimulator
    from supple.elastic import Material

__all__ = ["FullSimulator", "Material", "SuppleError", "SuppleWarning", "__version__"]

__version__ = "0.1.0"

_ROOMS = {"FullSimulator": "supple.dynamics", "Material": "supple.elastic"}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'supple' has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
