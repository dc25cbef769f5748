"""What is wrong with a file, and what that means for soft tissue."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["split_warning", "with_consequences"]

CODE = re.compile(r" \(([A-Z][A-Z_0-9]+)(?:, and (\d+) more)?\)$")

#: What each kind of defect means.
CONSEQUENCES = {
    "degenerate triangles": "they have no area and are passed over",
    "duplicate triangles": "inside and outside may be mistaken near them",
    "unreferenced vertices": "they are not simulated",
    "open edges": "the surface has holes; the volume is closed across them when it is meshed",
    "non-manifold edges": "sheets that meet there become one body",
    "inconsistent edges": "inside and outside may be mistaken near them",
    "inside-out components": "they count as hollows, or are turned inside out",
    "inverted tets": "they were turned",
    "degenerate tets": "they have no volume",
    "duplicate tets": "they are stiff and heavy twice over",
    "non-manifold faces": "tets overlap there",
    "components": "parts without contact move on their own",
    "inverted hexes": "they were turned",
    "tangled hexes": "no body can be made of them",
    "degenerate hexes": "they have no volume",
    "duplicate hexes": "they are stiff and heavy twice over",
}


def split_warning(name: str, message: str) -> dict[str, Any]:
    """A warning's parts: what; consequence (CODE, and 3 more)."""
    text = message.removeprefix(f"{name}: ")
    coded = CODE.search(text)
    found: dict[str, Any] = {}
    if coded:
        text = text[: coded.start()]
        found = {"code": coded[1], "count": int(coded[2] or 0) + 1}
    what, separator, consequence = text.rpartition("; ")
    if not separator:
        what, consequence = text, "none for Supple"
    return {"what": what, "consequence": consequence, **found}


def with_consequences(defects: list[Any]) -> list[dict[str, str]]:
    """Defects of a mesh as plain values."""
    return [
        {"what": defect.message, "consequence": CONSEQUENCES.get(defect.kind, "work goes on")}
        for defect in defects
    ]
