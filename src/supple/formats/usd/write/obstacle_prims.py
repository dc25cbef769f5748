"""Obstacles of baked motions as prims of a layer (in the writing process)."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.formats.usd.layers import Gf, Sdf, UsdGeom, Vt
from supple.formats.usd.write.authoring import identifier

#: Name of the prim above all obstacles.
ABOVE = "supple_obstacles"


def add_obstacles(stage: Any, obstacles: list[dict[str, Any]], top: str = "") -> None:
    """Define the obstacles of a request below a new prim at the path `top`, by default the root.

    Each has points in m, triangles, a colour, and transforms (k, 4, 4) to the stage at `codes`;
    one that does not move has no codes.
    """
    if not obstacles:
        return
    path, number = Sdf.Path(f"{top}/{ABOVE}"), 2
    while stage.GetPrimAtPath(path):
        path, number = Sdf.Path(f"{top}/{ABOVE}_{number}"), number + 1
    UsdGeom.Xform.Define(stage, path)
    for number, each in enumerate(obstacles):
        # The number makes names unique.
        child = path.AppendChild(f"{identifier(each['name'])}_{number}")
        mesh = UsdGeom.Mesh.Define(stage, child)
        _fill(mesh, each)
        operation = mesh.AddTransformOp()
        transforms = np.asarray(each["places"], np.float64).transpose(0, 2, 1)
        if len(each["codes"]):
            for code, transform in zip(each["codes"], transforms, strict=True):
                operation.Set(Gf.Matrix4d(transform.tolist()), float(code))
        else:
            operation.Set(Gf.Matrix4d(transforms[0].tolist()))


def _fill(mesh: Any, each: dict[str, Any]) -> None:
    points = np.ascontiguousarray(each["points"], np.float32)
    triangles = np.ascontiguousarray(each["triangles"], np.int32)
    counts = np.full(len(triangles), 3, np.int32)
    mesh.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(counts))
    mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(triangles.reshape(-1)))
    mesh.CreateSubdivisionSchemeAttr("none")
    mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points))
    extent = np.stack([points.min(axis=0), points.max(axis=0)])
    mesh.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(extent))
    *colour, opacity = (float(number) for number in each["colour"])
    mesh.CreateDisplayColorAttr(Vt.Vec3fArray([tuple(colour)]))
    mesh.CreateDisplayOpacityAttr(Vt.FloatArray([opacity]))
    mesh.CreateDoubleSidedAttr(True)
