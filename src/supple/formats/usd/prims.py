"""Prims of a stage as arrays: meshes, skins, shapes, skeletons (in the child processes)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from supple.formats.painted_maps import PAINTED
from supple.formats.usd.layers import Refused, Usd, UsdGeom, UsdSkel

#: Most prims: nested instances multiply, so that a kilobyte can make billions of prims.
MOST_PRIMS = 250_000


def all_prims(stage: Any, notes: list[str]) -> list[Any]:
    """Return every prim, with instances, but without the prototypes of point instancers."""
    walk = iter(Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()))
    prims = []
    for prim in walk:
        prims.append(prim)
        if len(prims) > MOST_PRIMS:
            raise Refused(f"holds more than {MOST_PRIMS:,} prims; split it")
        if prim.IsA(UsdGeom.PointInstancer):
            walk.PruneChildren()
            notes.append(f"{prim.GetPath()} is a PointInstancer; ignored")
    return prims


def first_value(prim: Any, name: str, dtype: Any, width: int | None = None) -> np.ndarray | None:
    """Return the default or first sample of an array attribute; None if missing or invalid."""
    attribute = prim.GetAttribute(name)
    if not attribute:
        return None
    value = attribute.Get()
    if value is None:
        value = attribute.Get(Usd.TimeCode.EarliestTime())
    return as_array(value, dtype, width)


def as_array(value: Any, dtype: Any, width: int | None = None) -> np.ndarray | None:
    """Return a USD array as (n,) or (n, width); None if it has another type or shape."""
    try:
        array = np.array(value, dtype=dtype)
    except (TypeError, ValueError):
        return None
    if value is not None and array.size == 0:
        return np.empty((0,) if width is None else (0, width), dtype=dtype)
    if array.ndim != (1 if width is None else 2) or (width and array.shape[1] != width):
        return None
    return array


def mesh_data(prim: Any, skeletons: dict[str, Any], notes: list[str]) -> dict[str, Any] | None:
    """Return points, faces, skin and blend shapes of a mesh; None, with a note, if invalid."""
    path = str(prim.GetPath())
    points = first_value(prim, "points", np.float64, 3)
    counts = first_value(prim, "faceVertexCounts", np.int64)
    corners = first_value(prim, "faceVertexIndices", np.int64)
    problem = _mesh_problem(points, counts, corners)
    if points is None or counts is None or corners is None or problem:
        notes.append(f"mesh {path} {problem}; ignored")
        return None
    samples = prim.GetAttribute("points").GetNumTimeSamples()
    if samples > 1:
        notes.append(f"mesh {path} has {samples} samples of points, a baked cache; ignored")
    holes = first_value(prim, "holeIndices", np.int64)
    return {
        "path": path,
        "points": points,
        "counts": counts,
        "corners": corners,
        "holes": np.empty(0, np.int64) if holes is None else holes,
        "left_handed": UsdGeom.Mesh(prim).GetOrientationAttr().Get() == "leftHanded",
        "driver": _bound_skeleton(prim, skeletons),
        "skin": _skin(prim, len(points), skeletons, notes),
        "shapes": _blend_shapes(prim, len(points), notes),
        "painted": _painted(prim, len(points), counts, corners, notes),
    }


def _painted(
    prim: Any, n_points: int, counts: np.ndarray, corners: np.ndarray, notes: list[str]
) -> dict[str, Any]:
    """Return painted maps (n,) of points by name, from primvars ``supple:rigid`` and others."""
    maps = {}
    for name in PAINTED:
        primvar = UsdGeom.PrimvarsAPI(prim).GetPrimvar(f"supple:{name}")
        if not primvar or not primvar.HasValue():
            continue
        flat = primvar.ComputeFlattened(Usd.TimeCode.EarliestTime())
        values, kind = np.atleast_1d(np.array(flat, object)), str(primvar.GetInterpolation())
        try:
            values = np.array(flat, np.float64).reshape(len(values), -1)[:, :3].mean(axis=1)
        except (TypeError, ValueError):
            values = np.empty(0)
        expected = {"constant": 1, "uniform": len(counts), "faceVarying": len(corners)}
        if len(values) != expected.get(kind, n_points):
            notes.append(f"mesh {prim.GetPath()}: supple:{name} has a wrong length; ignored")
            continue
        if kind == "constant":
            values = np.full(n_points, values[0])
        elif kind in ("uniform", "faceVarying"):
            of_corners = np.repeat(values, counts) if kind == "uniform" else values
            uses = np.bincount(corners, minlength=n_points)
            values = np.bincount(corners, of_corners, n_points) / np.maximum(uses, 1)
        maps[name] = values
    return maps


def _mesh_problem(
    points: np.ndarray | None, counts: np.ndarray | None, corners: np.ndarray | None
) -> str | None:
    if points is None or counts is None or corners is None or not (len(points) and len(counts)):
        return "has no faces"
    n_points, finite = len(points), np.isfinite(points).all(axis=1)
    if not finite.all():
        return f"has a point that is not finite (point {np.argmin(finite)})"
    if (counts < 0).any() or counts.sum() != len(corners):
        return f"lists {len(corners)} corners, but its faces have {counts.sum()}"
    wrong = (corners < 0) | (corners >= n_points)
    if wrong.any():
        return f"refers to point {corners[np.argmax(wrong)]} but has {n_points} points"
    return None


def _upwards(prim: Any) -> Iterator[Any]:
    while prim and not prim.IsPseudoRoot():
        yield prim
        prim = prim.GetParent()


def _inherited(prim: Any, name: str) -> Any:
    """Return an attribute of the prim or its nearest ancestor with a value; None without one."""
    for holder in _upwards(prim):
        attribute = holder.GetAttribute(name)
        if attribute and attribute.HasAuthoredValue():
            return attribute
    return None


def _inherited_target(prim: Any, name: str) -> Any:
    """Return the first target of a relationship of the prim or its nearest ancestor, or None."""
    for holder in _upwards(prim):
        relationship = holder.GetRelationship(name)
        if relationship and relationship.HasAuthoredTargets():
            targets = relationship.GetForwardedTargets()
            return prim.GetStage().GetPrimAtPath(targets[0]) if targets else None
    return None


def _bound_skeleton(prim: Any, skeletons: dict[str, Any]) -> str | None:
    """Return the path of the skeleton that is bound to a mesh; None without one."""
    target = _inherited_target(prim, "skel:skeleton")
    return str(target.GetPath()) if target and str(target.GetPath()) in skeletons else None


def _skin(prim: Any, n_points: int, skeletons: dict[str, Any], notes: list[str]) -> Any:
    """Return skeleton, joints (n or 1, k), weights and bind transform; None without a skin."""
    path = prim.GetPath()
    indices = _inherited(prim, "primvars:skel:jointIndices")
    weights = _inherited(prim, "primvars:skel:jointWeights")
    bound = _bound_skeleton(prim, skeletons)
    if indices is None and weights is None:
        return None
    if bound is None:
        notes.append(f"mesh {path} has joint weights but no skeleton; it follows its transform")
        return None
    if not any(holder.IsA(UsdSkel.Root) for holder in _upwards(prim)):
        notes.append(f"mesh {path} is skinned outside a SkelRoot; it follows its transform")
        return None
    skeleton = skeletons[bound]
    influences = _influences(prim, indices, weights, n_points, skeleton["joints"])
    if isinstance(influences, str):
        notes.append(f"mesh {path}: {influences}; it follows its transform")
        return None
    method = _inherited(prim, "primvars:skel:skinningMethod")
    bind = _inherited(prim, "primvars:skel:geomBindTransform")
    matrix = np.eye(4) if bind is None else np.array(bind.Get(), dtype=np.float64)
    return {
        "skeleton": skeleton["path"],
        "joints": influences[0],
        "weights": influences[1],
        "bind": matrix.T if matrix.shape == (4, 4) else np.eye(4),
        "dual": method is not None and method.Get() == "dualQuaternion",
    }


def _influences(
    prim: Any, indices: Any, weights: Any, n_points: int, joints: list[str]
) -> tuple[np.ndarray, np.ndarray] | str:
    if indices is None or weights is None:
        return "has only one of joint indices and joint weights"
    first, second = UsdGeom.Primvar(indices), UsdGeom.Primvar(weights)
    size, kind = first.GetElementSize(), first.GetInterpolation()
    if size != second.GetElementSize() or size < 1:
        return f"has {size} joint indices and {second.GetElementSize()} weights per point"
    if kind != second.GetInterpolation() or kind not in ("constant", "vertex"):
        return f'has joint indices "{kind}" and weights "{second.GetInterpolation()}"'
    joint_indices = as_array(first.ComputeFlattened(), np.int64)
    weight_values = as_array(second.ComputeFlattened(), np.float64)
    rows = n_points if kind == "vertex" else 1
    counts = tuple("no" if a is None else len(a) for a in (joint_indices, weight_values))
    if joint_indices is None or weight_values is None or counts != (size * rows, size * rows):
        return f"has {counts[0]} joint indices and {counts[1]} weights, not {size} × {rows}"
    if not np.isfinite(weight_values).all():
        return "has joint weights that are not finite"
    order = _inherited(prim, "skel:joints")
    listed = joints if order is None else list(order.Get() or [])
    used = weight_values > 0
    wrong = used & ((joint_indices < 0) | (joint_indices >= len(listed)))
    if wrong.any():
        return f"follows joint {joint_indices[np.argmax(wrong)]} but lists {len(listed)} joints"
    number_of = {name: number for number, name in enumerate(joints)}
    unknown = sorted({listed[j] for j in np.unique(joint_indices[used])} - number_of.keys())
    if unknown:
        return f'follows joint "{unknown[0]}", which its skeleton lacks'
    table = np.array([number_of.get(name, 0) for name in listed] or [0])
    joint_indices = table[np.where(used, joint_indices, 0)]
    return joint_indices.reshape(rows, size), weight_values.reshape(rows, size)


def _blend_shapes(prim: Any, n_points: int, notes: list[str]) -> list[dict[str, Any]]:
    names = prim.GetAttribute("skel:blendShapes")
    targets = prim.GetRelationship("skel:blendShapeTargets")
    if not names or not targets or not names.Get():
        return []
    paths = targets.GetForwardedTargets()
    listed = list(names.Get())
    if len(listed) != len(paths):
        counts = f"{len(listed)} blend shapes for {len(paths)} targets"
        notes.append(f"mesh {prim.GetPath()} names {counts}; ignored")
        return []
    shapes = []
    for name, path in zip(listed, paths, strict=True):
        shape = UsdSkel.BlendShape(prim.GetStage().GetPrimAtPath(path))
        data = _blend_shape(shape, n_points) if shape else None
        if data is None:
            notes.append(f"blend shape {path} does not match mesh {prim.GetPath()}; ignored")
        else:
            shapes.append({"name": str(name), "path": str(path), **data})
    return shapes


def _blend_shape(shape: Any, n_points: int) -> dict[str, Any] | None:
    """Return a shape's points (p,), and weights (l,) and offsets (l, p, 3) of its levels.

    The first level is the shape itself, of weight 1; in-betweens follow. Return None if a point or
    an offset is invalid.
    """
    listed = first_value(shape.GetPrim(), "pointIndices", np.int64)
    points = np.arange(n_points) if listed is None or not len(listed) else listed
    if len(points) and not (points.min() >= 0 and points.max() < n_points):
        return None
    levels = [(1.0, as_array(shape.GetOffsetsAttr().Get(), np.float64, 3))]
    for between in shape.GetInbetweens():
        weight = between.GetWeight()
        if weight is not None and weight not in (0.0, 1.0):
            levels.append((float(weight), as_array(between.GetOffsets(), np.float64, 3)))
    # A shape that only changes normals has no offsets.
    still = np.zeros((len(points), 3))
    offsets = [still if each is None or not len(each) else each for _, each in levels]
    if any(len(each) != len(points) or not np.isfinite(each).all() for each in offsets):
        return None
    weights = np.array([weight for weight, _ in levels])
    return {"points": points, "weights": weights, "offsets": np.stack(offsets)}


def skeleton_data(prim: Any) -> dict[str, Any]:
    """Return joints of a skeleton, bind and rest transforms (column vectors), and animation."""
    joints = prim.GetAttribute("joints").Get()
    source = _inherited_target(prim, "skel:animationSource")
    animated = bool(source) and source.IsA(UsdSkel.Animation)
    return {
        "path": str(prim.GetPath()),
        "joints": [str(joint) for joint in joints or []],
        "bind": _matrices(prim, "bindTransforms"),
        "rest": _matrices(prim, "restTransforms"),
        "animation": str(source.GetPath()) if animated else None,
    }


def _matrices(prim: Any, name: str) -> np.ndarray | None:
    value = prim.GetAttribute(name).Get()
    matrices = np.array(value if value is not None else [], dtype=np.float64)
    return matrices.transpose(0, 2, 1).copy() if matrices.ndim == 3 else None


def timed_transforms(prim: Any) -> list[Any]:
    """Return the prim and its ancestors whose transforms have several samples, top first."""
    holders = [holder for holder in _upwards(prim) if holder.IsA(UsdGeom.Xformable)]
    timed = [each for each in holders if len(UsdGeom.Xformable(each).GetTimeSamples()) > 1]
    return timed[::-1]
