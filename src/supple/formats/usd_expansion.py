"""How many prims a stage will have, counted before it is composed (in the reading process).

Ten prims that each refer ten times to the next make 10¹⁰ of a few lines of text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["count_composed"]


def count_composed(root: Any, find_layer: Callable[[Any, str], Any], most: int) -> int:
    """About how many prims the layer composes to, at most a little above `most`.

    Instances share what they refer to and count once; a prim that refers to itself, which USD
    refuses, counts once too.
    """
    # Depth is that of prims within prims, which USD's own parser limits far below this.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 100_000))
    known: dict[tuple[str, str], int] = {}

    def count(layer: Any, path: Any) -> int:
        key = (layer.identifier, str(path))
        if key not in known:
            known[key] = 1
            spec = layer.GetPrimAtPath(path)
            total = 1
            for other, target in _parts(layer, spec, find_layer) if spec else ():
                total += count(other, target)
                if total > most:
                    break
            known[key] = total
        return known[key]

    total = 0
    layers, seen = [root], {root.identifier}
    while layers and total <= most:
        layer = layers.pop()
        total += sum(count(layer, spec.path) for spec in layer.rootPrims)
        for asset in layer.subLayerPaths:
            below = find_layer(layer, asset)
            if below and below.identifier not in seen:
                seen.add(below.identifier)
                layers.append(below)
    return total


def _parts(
    layer: Any, spec: Any, find_layer: Callable[[Any, str], Any]
) -> Iterator[tuple[Any, Any]]:
    """Layers and paths of what a prim is made of: its children, and what it refers to."""
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
            if arc.primPath:
                yield other, arc.primPath
            elif other.defaultPrim and other.GetPrimAtPath("/" + other.defaultPrim.lstrip("/")):
                yield other, other.GetPrimAtPath("/" + other.defaultPrim.lstrip("/")).path
    for listed in (spec.inheritPathList, spec.specializesList):
        for path in listed.GetAddedOrExplicitItems():
            yield layer, path
