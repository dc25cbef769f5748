"""Blend shapes, their weights and point caches, written to a layer (in the writing process)."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.formats.usd.layers import Kind, Sdf, Usd, UsdGeom, UsdSkel, Vt
from supple.formats.usd.prims import as_array, first_value


def define_animations(stage: Any, skeletons: list[dict[str, Any]], name: str) -> None:
    """Define empty animations for skeletons without one; enter their paths in `skeletons`."""
    for skeleton in skeletons:
        if skeleton["animation"] is None:
            path = _free_path(stage.GetPrimAtPath(skeleton["path"]), name)
            UsdSkel.Animation.Define(stage, path)
            skeleton["animation"] = str(path)


def bind_animations(stage: Any, skeletons: list[dict[str, Any]]) -> None:
    """Bind every skeleton to the animation that `skeletons` lists for it."""
    for skeleton in skeletons:
        prim = stage.GetPrimAtPath(skeleton["path"])
        binding = UsdSkel.BindingAPI(prim)
        played = binding.GetInheritedAnimationSource() if prim else None
        if not played or str(played.GetPath()) != skeleton["animation"]:
            binding = UsdSkel.BindingAPI.Apply(prim)
            binding.CreateAnimationSourceRel().SetTargets([Sdf.Path(skeleton["animation"])])


def _free_path(prim: Any, name: str) -> Any:
    """Return an unused path for a child of the prim, named `name` or numbered."""
    child = identifier(name)
    path, number = prim.GetPath().AppendChild(child), 2
    while prim.GetStage().GetPrimAtPath(path):
        path, number = prim.GetPath().AppendChild(f"{child}_{number}"), number + 1
    return path


def identifier(name: str) -> str:
    """Return `name` as a valid prim name: letters, digits and underscores, no digit first."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


def add_shapes(
    prim: Any, names: list[str], offsets: np.ndarray, normals: np.ndarray | None
) -> None:
    """Add blend shapes, below the mesh, to its own; `offsets` and `normals` are (b, n, 3)."""
    points = np.flatnonzero(np.any(offsets != 0, axis=(0, 2)))
    if not len(points):
        return
    binding = UsdSkel.BindingAPI.Apply(prim)
    listed = list(binding.GetBlendShapesAttr().Get() or [])
    targets = list(binding.GetBlendShapeTargetsRel().GetTargets())
    if len(listed) != len(targets):
        listed, targets = [], []  # USD ignores such lists as well
    sparse = len(points) < offsets.shape[1]
    rows = points if sparse else slice(None)
    for k, name in enumerate(names):
        path = _free_path(prim, name)
        blend_shape = UsdSkel.BlendShape.Define(prim.GetStage(), path)
        blend_shape.CreateOffsetsAttr(_vectors(offsets[k][rows]))
        blend_shape.CreateNormalOffsetsAttr(
            _vectors(normals[k][rows]) if normals is not None else Vt.Vec3fArray()
        )
        if sparse:
            blend_shape.CreatePointIndicesAttr(Vt.IntArray.FromNumpy(points.astype(np.int32)))
        listed.append(name)
        targets.append(path)
    binding.CreateBlendShapesAttr(Vt.TokenArray(listed))
    binding.CreateBlendShapeTargetsRel().SetTargets(targets)


def add_weights(prim: Any, names: list[str], codes: np.ndarray, weights: np.ndarray) -> None:
    """Add blend weights (t, b) at time codes (t,) to an animation's own weights."""
    animation = UsdSkel.Animation(prim)
    listed = [str(name) for name in animation.GetBlendShapesAttr().Get() or []]
    old_attribute = animation.GetBlendShapeWeightsAttr()
    old_codes = np.array(old_attribute.GetTimeSamples() if old_attribute else [], float)
    keys = np.unique(np.concatenate([codes, old_codes]))
    # Read before anything is written, since new values hide the old ones.
    before = [_weights(old_attribute, float(key), len(listed)) for key in keys]
    animation.CreateBlendShapesAttr(Vt.TokenArray([*listed, *names]))
    attribute = animation.CreateBlendShapeWeightsAttr()
    columns = np.stack([np.interp(keys, codes, column) for column in weights.T], axis=1)
    for key, old, new in zip(keys, before, columns, strict=True):
        row = np.concatenate([old, new]).astype(np.float32)
        attribute.Set(Vt.FloatArray.FromNumpy(row), float(key))


def _weights(attribute: Any, code: float, count: int) -> np.ndarray:
    value = as_array(attribute.Get(code), np.float32) if attribute and count else None
    return value if value is not None and len(value) == count else np.zeros(count, np.float32)


def cache_points(
    prim: Any,
    surface: dict[str, Any],
    codes: np.ndarray,
    inward: np.ndarray,
    around: dict[float, np.ndarray],
) -> None:
    """Write a mesh's points at every time code, and switch its skinning off.

    `surface` has frames (t, n̄, 3) in Supple's world, the vertex of each point, and normals or
    None; `inward` transforms Supple's world to the stage's. Points of no face stay in place.
    `around` has points in the stage's world at further time codes, where the rig alone plays.
    """
    mesh, welded = UsdGeom.Mesh(prim), surface["welded"]
    rest = first_value(prim, "points", np.float64, 3)
    assert rest is not None
    used = welded >= 0
    _switch_skinning_off(prim)
    for name in ("velocities", "accelerations", "normals", "primvars:normals"):
        # They belong to the rest shape.
        if prim.GetAttribute(name).HasAuthoredValue():
            prim.GetAttribute(name).Block()
    for code, world in around.items():
        local = _world_to_local(prim, code)
        points = (world @ local[:3, :3].T + local[:3, 3]).astype(np.float32)
        smooth = None if surface["normals"] is None else _smooth_normals(mesh, points, welded)
        _set_frame(mesh, code, points, points[used], smooth)
    for k, code in enumerate(codes):
        local = _world_to_local(prim, float(code)) @ inward
        points = rest.copy()
        points[used] = surface["frames"][k][welded[used]] @ local[:3, :3].T + local[:3, 3]
        points, normals = points.astype(np.float32), None
        if surface["normals"] is not None:
            # Normals transform by the inverse transpose.
            normals = surface["normals"][k][np.maximum(welded, 0)] @ np.linalg.inv(local[:3, :3])
            normals = _unit(normals)
        _set_frame(mesh, float(code), points, points[used], normals)
    if surface["normals"] is not None:
        mesh.SetNormalsInterpolation("vertex")


def _set_frame(
    mesh: Any, code: float, points: np.ndarray, used: np.ndarray, normals: np.ndarray | None
) -> None:
    """Set points, the extent of the `used` points, and normals at a time code."""
    mesh.GetPointsAttr().Set(_vectors(points), code)
    mesh.GetExtentAttr().Set(_extent(used), code)
    if normals is not None:
        mesh.GetNormalsAttr().Set(_vectors(normals), code)


def _world_to_local(prim: Any, code: float) -> np.ndarray:
    cache = UsdGeom.XformCache(Usd.TimeCode(code))
    return np.linalg.inv(np.array(cache.GetLocalToWorldTransform(prim)).T)


def _smooth_normals(mesh: Any, points: np.ndarray, welded: np.ndarray) -> np.ndarray:
    """Return unit normals (n, 3) of points, weighted by the area of adjacent faces."""
    counts = np.array(mesh.GetFaceVertexCountsAttr().Get(Usd.TimeCode.EarliestTime()))
    corners = np.array(mesh.GetFaceVertexIndicesAttr().Get(Usd.TimeCode.EarliestTime()))
    first = np.cumsum(counts) - counts
    next_corner = np.arange(len(corners)) + 1
    next_corner[first + counts - 1] = first
    starts, ends = points[corners].astype(np.float64), points[corners[next_corner]]
    # The sum of cross products around a polygon is twice its area vector.
    areas = np.add.reduceat(np.cross(starts, ends), first, axis=0)
    total = np.zeros((int(welded.max(initial=0)) + 1, 3))
    np.add.at(total, np.maximum(welded[corners], 0), np.repeat(areas, counts, axis=0))
    sign = -1.0 if mesh.GetOrientationAttr().Get() == UsdGeom.Tokens.leftHanded else 1.0
    return sign * _unit(total)[np.maximum(welded, 0)]


def _switch_skinning_off(prim: Any) -> None:
    """Remove skeleton, joints and shapes from a prim, whether direct or inherited."""
    binding = UsdSkel.BindingAPI(prim)
    if not prim.HasAPI(UsdSkel.BindingAPI):
        binding = UsdSkel.BindingAPI.Apply(prim)
    binding.CreateSkeletonRel().SetTargets([])
    for name in ("primvars:skel:jointIndices", "primvars:skel:jointWeights", "skel:blendShapes"):
        if prim.GetAttribute(name).HasAuthoredValue():
            prim.GetAttribute(name).Block()
    if prim.GetRelationship("skel:blendShapeTargets").HasAuthoredTargets():
        prim.GetRelationship("skel:blendShapeTargets").SetTargets([])


def new_stage(
    stage: Any, request: dict[str, Any], frames: np.ndarray, normals: np.ndarray | None
) -> None:
    """Define a mesh in an empty stage, with points (t, n, 3) over time, in metres, +Y up."""
    UsdGeom.SetStageUpAxis(stage, "Y")
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetTimeCodesPerSecond(request["rate"])
    stage.SetFramesPerSecond(request["rate"])
    codes = request["codes"]
    stage.SetStartTimeCode(float(codes[0]))
    stage.SetEndTimeCode(float(codes[-1]))
    name = identifier(request["name"])
    top = UsdGeom.Xform.Define(stage, Sdf.Path.absoluteRootPath.AppendChild(name))
    stage.SetDefaultPrim(top.GetPrim())
    Usd.ModelAPI(top).SetKind(Kind.Tokens.component)
    mesh = UsdGeom.Mesh.Define(stage, top.GetPath().AppendChild("skin"))
    triangles = request["triangles"].astype(np.int32)
    counts = np.full(len(triangles), 3, np.int32)
    mesh.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(counts))
    mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(np.ascontiguousarray(triangles.ravel())))
    mesh.CreateSubdivisionSchemeAttr("none")
    mesh.CreatePointsAttr(_vectors(request["rest"].astype(np.float32)))
    mesh.CreateExtentAttr(_extent(request["rest"].astype(np.float32)))
    mesh.CreateDisplayColorAttr(Vt.Vec3fArray([(0.8, 0.62, 0.53)]))
    for k, code in enumerate(codes):
        _set_frame(mesh, float(code), frames[k], frames[k], None if normals is None else normals[k])
    if normals is not None:
        mesh.SetNormalsInterpolation("vertex")


def _vectors(points: np.ndarray) -> Any:
    return Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(points, np.float32))


def _extent(points: np.ndarray) -> Any:
    return _vectors(np.stack([points.min(axis=0), points.max(axis=0)]))


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
