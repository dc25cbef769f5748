"""Numbers of the sculpted scenes, read from the JSON files in ``scenes/data``.

A row of ``"solids"`` describes one solid by its kind, its numbers and an optional remark::

    ["ball", centre, radius, remark]
    ["ellipsoid", centre, radii, [axis, degrees], remark]        (the rotation is optional)
    ["limb", start, end, radius at the start, radius at the end, remark]
    ["box", centre, half sizes, rounding, remark]

"both ball" is a ball and its mirror image at −x. ``"joints"`` has parents and rest positions,
``"regions"`` the ends of a segment through each region, joints or points.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from importlib.resources import files
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.scenes.modelling.solids import Solid, ball, box, ellipsoid, smooth_union, tapered_limb

#: Parent and rest position of each joint.
Joints = dict[str, tuple[str | None, tuple[float, float, float]]]
_KINDS: dict[str, tuple[Callable[..., Solid], int]] = {
    "ball": (ball, 1),
    "ellipsoid": (ellipsoid, 1),
    "limb": (tapered_limb, 2),
    "box": (box, 1),
}


@cache
def scene_data(name: str) -> dict[str, Any]:
    """Return the contents of a scene's data file."""
    text = files("supple.scenes").joinpath("data", f"{name}.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def joint_table(data: Mapping[str, Any]) -> Joints:
    """Return parent and rest position of each joint, in the order of the file."""
    return {name: (parent, tuple(place)) for name, (parent, place) in data["joints"].items()}


def solids_from(rows: Sequence[Sequence[Any]], sign: float = 1.0) -> list[Solid]:
    """Return the solids that rows describe; a sign of −1 mirrors them at x = 0."""
    solids = []
    for kind, *values in rows:
        if isinstance(values[-1], str):  # a remark
            values.pop()
        signs = (1.0, -1.0) if kind.startswith("both ") else (sign,)
        solids += [_solid(kind.removeprefix("both "), values, side) for side in signs]
    return solids


def _solid(kind: str, values: Sequence[Any], sign: float) -> Solid:
    make, n_points = _KINDS[kind]
    points = [np.array([sign, 1.0, 1.0]) * point for point in values[:n_points]]
    rest = [rotated_axes(*value) if _is_rotation(value) else value for value in values[n_points:]]
    return make(*points, *rest)


def _is_rotation(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], str)


def rotated_axes(axis: str, degrees: float) -> Floats:
    """Return axes (rows) rotated about x, which lifts the +z end, or z, which lifts the +x end."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    if axis == "x":
        return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])


def limb_solids(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[Solid]]:
    """Return solids of limbs of a data file, by ``"name.L"`` and, mirrored, by ``"name.R"``."""
    return {
        f"{name}.{side}": solids_from(data["solids"][name], sign)
        for side, sign in (("L", 1.0), ("R", -1.0))
        for name in names
    }


def limb_unions(
    parts: Mapping[str, list[Solid]], limbs: Sequence[Sequence[str]], blend: float
) -> list[Solid]:
    """Return a smooth union of the parts of each limb, of the left side and then of the right."""
    return [
        smooth_union([solid for name in limb for solid in parts[f"{name}.{side}"]], blend)
        for side in "LR"
        for limb in limbs
    ]


def blended_keys(
    keys: Sequence[tuple[float, str]], poses: Mapping[str, Floats]
) -> list[tuple[float, Floats]]:
    """Return times and sums of poses that texts describe: ``"0.6 chest beat + 0.3 roar"``."""
    return [
        (time, reduce(np.add, [_weighted(term, poses) for term in text.split(" + ")]))
        for time, text in keys
    ]


def _weighted(term: str, poses: Mapping[str, Floats]) -> Floats:
    if term in poses:
        return poses[term]
    weight, name = term.split(" ", 1)
    return float(weight) * poses[name]


def unknown_name(kind: str, name: str, names: Sequence[str]) -> str:
    """Return an error message for an unknown name, with the most similar of `names` or all."""
    near = difflib.get_close_matches(str(name), names, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(names)}"
    return f'no {kind} "{name}"; {hint}'
