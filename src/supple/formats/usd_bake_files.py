"""Which files a stage is made of (in the writing process)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supple.formats.usd_pxr import Ar, Sdf, Tf, UsdUtils

__all__ = ["needed_files"]

LAYERS = (".usd", ".usda", ".usdc", ".usdz")
#: Files that are listed; nobody has more.
MOST = 100_000


def needed_files(path: Path) -> list[str]:
    """All that a file names, and that what it names does: layers, clips, pictures.

    Whether they are there or not. Only what lies in the file's folder, or below it, is opened.
    """
    folder = path.parent.resolve()
    waiting, seen = [str(path)], {str(path)}
    found: dict[str, None] = {}
    while waiting and len(seen) < MOST:
        layer = _opened(waiting.pop())
        for asset in _named(layer):
            where = Sdf.ComputeAssetPathRelativeToLayer(layer, asset)
            if where in seen:
                continue
            seen.add(where)
            # A bare name that is not beside the layer stays one; it would be looked for there.
            own = Path(Ar.SplitPackageRelativePathOuter(layer.realPath)[0])
            file = own.parent / Ar.SplitPackageRelativePathOuter(where)[0]
            found[str(file)] = None
            if file.suffix.lower() in LAYERS and file.resolve().is_relative_to(folder):
                waiting.append(where)
    return list(found)


def _opened(name: str) -> Any:
    try:
        return Sdf.Layer.FindOrOpen(name)
    except Tf.ErrorException:
        return None


def _named(layer: Any) -> list[str]:
    if not layer:
        return []
    listed = UsdUtils.ExtractExternalReferences(layer.identifier)
    return [str(asset) for kind in listed for asset in kind if asset and "\0" not in str(asset)]
