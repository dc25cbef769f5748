"""USD's own modules, in one place: without the extra they are None, and nobody gets to them.

`supple.formats.usd_process` says what to install before it starts the process that uses them.
"""

from __future__ import annotations

__all__ = ["Ar", "Sdf", "Tf", "Usd", "UsdGeom", "UsdSkel", "UsdUtils"]

try:
    from pxr import Ar, Sdf, Tf, Usd, UsdGeom, UsdSkel, UsdUtils
except ImportError:
    Ar = Sdf = Tf = Usd = UsdGeom = UsdSkel = UsdUtils = None
