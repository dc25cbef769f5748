"""USD's own modules, in one place; without the extra they are None.

`supple.formats.usd.process` says what to install before it starts the process that uses them.
"""

from __future__ import annotations

try:
    from pxr import Ar, Kind, Sdf, Tf, Usd, UsdGeom, UsdShade, UsdSkel, UsdUtils, Vt
except ImportError:
    Ar = Kind = Sdf = Tf = Usd = UsdGeom = UsdShade = UsdSkel = UsdUtils = Vt = None
