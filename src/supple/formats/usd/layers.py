"""USD stages, opened without leaving the file's folder (in the child processes).

USD follows every sublayer, reference and payload that a file names, wherever it points. So each
layer is checked before the stage is composed, and paths that lead elsewhere, or nowhere, are
removed. Without the extra, the modules of USD are None; `supple.formats.usd.process` checks that.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from supple.formats.registry import ADDED

try:
    from pxr import Ar, Gf, Kind, Sdf, Tf, Usd, UsdGeom, UsdShade, UsdSkel, UsdUtils, Vt
except ImportError:
    Ar = Gf = Kind = Sdf = Tf = Usd = UsdGeom = UsdShade = UsdSkel = UsdUtils = Vt = None


#: Most prims of a stage.
MOST = 1_000_000
# Internal namespaces in messages of USD.
NAMESPACE = re.compile(r"pxrInternal_\w*?__pxrReserved__\w*::(\w+::)*")


class Refused(Exception):
    """The file cannot be read; the text gives the reason, without the file's name."""


def open_stage(path: Path, notes: list[str]) -> Any:
    """Return the composed stage of a file; `notes` gets a line for everything that is ignored."""
    try:
        root = Sdf.Layer.FindOrOpen(str(path))
    except Tf.ErrorException as error:
        raise Refused(f"is not a readable USD file ({one_line(error, path)})") from None
    if not root:
        raise Refused("is not a readable USD file (it has no layer); save it again")
    folder = path.parent.resolve()
    _keep_to_folder(root, folder, notes)
    if _count_composed(root, lambda layer, asset: _look_up(layer, asset, folder)[1]) > MOST:
        raise Refused(f"composes to over {MOST:,} prims by references to its own parts; split it")
    try:
        return Usd.Stage.Open(root)
    except Tf.ErrorException as error:
        raise Refused(f"cannot be composed ({one_line(error, path)})") from None


def shown_record(path: str) -> dict[str, str] | None:
    """Return the record of a layer that Supple wrote over another; None for any other layer."""
    layer = layer_at(path)
    for added in ADDED if layer else ():
        record = layer.customLayerData.get(added)
        items = record.items() if isinstance(record, dict) else ()
        fields = {str(key): value for key, value in items if isinstance(value, str)}
        if fields.get("original") in list(layer.subLayerPaths):
            path_below = Sdf.ComputeAssetPathRelativeToLayer(layer, fields["original"])
            return {**fields, "added": added, "where": str(path_below)}
    return None


def layer_at(path: str) -> Any:
    """Return the layer of a file; None if it cannot be read."""
    try:
        return Sdf.Layer.FindOrOpen(path) or None
    except Tf.ErrorException:
        return None


def one_line(error: object, path: Path) -> str:
    """Return the first message of USD in one line, without source positions and folders."""
    text = str(error)
    marker = " : '"
    if marker in text:
        text = text.split(marker, 1)[1].split("'\n\tError in", 1)[0]
    text = text.replace(str(path.parent) + "/", "").replace(path.name + ":", "line ")
    text = " ".join(NAMESPACE.sub("", text).split()).strip("' ")
    return shown(text, 200) or "no reason given"


def _keep_to_folder(root: Any, folder: Path, notes: list[str]) -> None:
    layers, visited = [root], {root.identifier}
    while layers:
        layer = layers.pop()
        _remove_clips(layer, notes)
        for asset in filter(None, layer.GetCompositionAssetDependencies()):
            reason, layer_below = _look_up(layer, asset, folder)
            if layer_below is not None:
                if layer_below.identifier not in visited:
                    visited.add(layer_below.identifier)
                    layers.append(layer_below)
                continue
            notes.append(f'"{shown(asset)}" {reason}; ignored')
            if not layer.UpdateCompositionAssetDependency(asset, ""):
                raise Refused(f'uses "{shown(asset)}", which {reason}')


def _look_up(layer: Any, asset: str, folder: Path) -> tuple[str, Any]:
    """Return the layer that `asset` names, or None, after the reason why it may be None."""
    reason, where = located(layer, asset, folder)
    return ("cannot be read", layer_at(where)) if where else (reason, None)


def located(layer: Any, asset: str, folder: Path) -> tuple[str, str]:
    """Return "" and the path of a file that a layer names, or the reason of a refusal and ""."""
    if asset.startswith("`"):
        return "is a path expression, which is not supported", ""
    path = Sdf.ComputeAssetPathRelativeToLayer(layer, asset)
    # A bare name that is not beside the layer stays relative: USD would search elsewhere for it.
    file = Path(Ar.SplitPackageRelativePathOuter(path)[0])
    try:
        inside = not file.is_absolute() or file.resolve().is_relative_to(folder)
    except (OSError, ValueError, RuntimeError):
        return "is not a path", ""
    if not inside:
        return "is outside the file's folder", ""
    if not file.is_absolute() or not Ar.GetResolver().Resolve(path):
        return "does not exist", ""
    return "", path


def _remove_clips(layer: Any, notes: list[str]) -> None:
    """Remove value clips: USD opens their layers only when values are read, after the checks."""
    specs = []

    def look(path: Any) -> None:
        spec = layer.GetObjectAtPath(path) if path.IsPrimPath() else None
        if spec is not None and spec.HasInfo("clips"):
            specs.append(spec)

    layer.Traverse(Sdf.Path.absoluteRootPath, look)
    for spec in specs:
        spec.ClearInfo("clips")
        notes.append(f'{spec.path} takes values from other files ("clips"); ignored')


def shown(text: str, most: int = 80) -> str:
    """Return a text for a message: short, on one line."""
    return "".join(c if c.isprintable() else "?" for c in text)[:most]


def _count_composed(root: Any, find_layer: Callable[[Any, str], Any]) -> int:
    """Estimate the number of prims that the layer composes to, at most a little above `MOST`.

    Computed before composition: ten prims that each refer ten times to the next make 10¹⁰ prims.
    Instances share their references and count once; a prim that refers to itself, which USD
    rejects, counts once as well.
    """
    # The depth is that of nested prims, which the parser of USD limits far below this.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 100_000))
    counts: dict[tuple[str, str], int] = {}

    def count(layer: Any, path: Any) -> int:
        key = (layer.identifier, str(path))
        if key not in counts:
            counts[key] = 1
            spec = layer.GetPrimAtPath(path)
            total = 1
            for other, target in _parts(layer, spec, find_layer) if spec else ():
                total += count(other, target)
                if total > MOST:
                    break
            counts[key] = total
        return counts[key]

    total = 0
    layers, visited = [root], {root.identifier}
    while layers and total <= MOST:
        layer = layers.pop()
        total += sum(count(layer, spec.path) for spec in layer.rootPrims)
        for asset in layer.subLayerPaths:
            below = find_layer(layer, asset)
            if below and below.identifier not in visited:
                visited.add(below.identifier)
                layers.append(below)
    return total


def _parts(
    layer: Any, spec: Any, find_layer: Callable[[Any, str], Any]
) -> Iterator[tuple[Any, Any]]:
    """Yield layers and paths of a prim's parts: its children, and the prims that it refers to."""
    for child in spec.nameChildren:
        yield layer, child.path
    for variants in spec.variantSets.values():
        for variant in variants.variants.values():
            for child in variant.primSpec.nameChildren:
                yield layer, child.path
    if spec.instanceable:
        return
    for listed in (spec.referenceList, spec.payloadList):
        for arc in listed.GetAddedOrExplicitItems():
            other = find_layer(layer, arc.assetPath) if arc.assetPath else layer
            if not other:
                continue
            default = "/" + other.defaultPrim.lstrip("/") if other.defaultPrim else ""
            if arc.primPath:
                yield other, arc.primPath
            elif default and other.GetPrimAtPath(default):
                yield other, other.GetPrimAtPath(default).path
    for listed in (spec.inheritPathList, spec.specializesList):
        for path in listed.GetAddedOrExplicitItems():
            yield layer, path
