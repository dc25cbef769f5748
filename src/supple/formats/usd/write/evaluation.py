"""Meshes of a stage as UsdSkel itself evaluates them (in the writing process)."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.formats.usd.prims import as_array, first_value
from supple.formats.usd.pxr_modules import Usd, UsdGeom, UsdSkel, Vt

__all__ = ["PlayedMesh", "played_meshes"]


class PlayedMesh:
    """A mesh of the stage, its skeleton and its blend shapes.

    Attributes
    ----------
    prim
        The mesh.
    skeleton
        The skeleton that moves it or whose animation weighs its blend shapes; None without.
    skinned : bool
        Whether it follows joints; otherwise it follows its own transform.
    bound : (3, 3) array
        From its points to the space it is bound in, in which points of meshes that were welded
        coincide.
    """

    def __init__(self, prim: Any, skeleton: Any, query: Any, skin: Any) -> None:
        self.prim, self.skeleton, self._query, self._skin = prim, skeleton, query, skin
        self.skinned = bool(skin) and skin.HasJointInfluences()
        self._shapes = self._weights_of = None
        if skin and skin.HasBlendShapes() and query.GetAnimQuery():
            self._shapes = UsdSkel.BlendShapeQuery(UsdSkel.BindingAPI(prim))
            self._point_lists = self._shapes.ComputeBlendShapePointIndices()
            self._offset_lists = self._shapes.ComputeSubShapePointOffsets()
        first = Usd.TimeCode.EarliestTime()
        if self.skinned:
            whole = np.array(skin.GetGeomBindTransform(first)).T
        else:
            whole = np.array(UsdGeom.XformCache(first).GetLocalToWorldTransform(prim)).T
        self.bound = whole[:3, :3]

    @property
    def takes_shapes(self) -> bool:
        """True if blend shapes can be added: it has a skeleton and is not flattened."""
        sizes = np.linalg.svd(self.bound, compute_uv=False)
        return bool(self._skin) and bool(sizes[-1] > 1e-6 * sizes[0] > 0)

    def points(self, code: float) -> np.ndarray:
        """Return the points with blend shapes, before any transform, (n, 3) float32."""
        points = as_array(self.prim.GetAttribute("points").Get(code), np.float32, 3)
        if points is None:
            points = first_value(self.prim, "points", np.float32, 3)
        if self._shapes is None:
            return points  # type: ignore[return-value]
        weights = self._query.GetAnimQuery().ComputeBlendShapeWeights(code)
        mapper = self._skin.GetBlendShapeMapper()
        if mapper and not mapper.IsNull():
            weights = mapper.Remap(weights)
        deformed = Vt.Vec3fArray.FromNumpy(points)
        parts = self._shapes.ComputeSubShapeWeights(weights)
        self._shapes.ComputeDeformedPoints(*parts, self._point_lists, self._offset_lists, deformed)
        return np.array(deformed)

    def placed(self, points: np.ndarray, code: float) -> np.ndarray:
        """Return the places of points in the stage's world, (n, 3)."""
        cache = UsdGeom.XformCache(Usd.TimeCode(code))
        if not self.skinned:
            return _moved(points, cache.GetLocalToWorldTransform(self.prim))
        skinned = Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(points, np.float32))
        transforms = self._query.ComputeSkinningTransforms(code)
        self._skin.ComputeSkinnedPoints(transforms, skinned, code)
        return _moved(np.array(skinned), cache.GetLocalToWorldTransform(self._query.GetPrim()))

    def probed(self, points: np.ndarray, code: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of points, and the matrices (n, 3, 3) by which offsets move them.

        A skinned point is an affine function of its place, whatever the way of skinning.
        """
        placed = self.placed(points, code)
        step = max(float(np.ptp(points, axis=0).max(initial=0.0)), 1e-6)
        columns = []
        for axis in range(3):
            ahead = points.copy()
            ahead[:, axis] += step
            moved = (ahead - points)[:, axis : axis + 1].astype(np.float64)
            columns.append((self.placed(ahead, code) - placed) / moved)
        return placed, np.stack(columns, axis=2)


def played_meshes(stage: Any, paths: list[str]) -> list[PlayedMesh]:
    """Return the meshes with the skeletons and shapes that UsdSkel binds to them."""
    cache, found = UsdSkel.Cache(), {}
    everything = Usd.TraverseInstanceProxies()
    for prim in Usd.PrimRange(stage.GetPseudoRoot(), everything):
        if not prim.IsA(UsdSkel.Root):
            continue
        root = UsdSkel.Root(prim)
        cache.Populate(root, everything)
        for binding in cache.ComputeSkelBindings(root, everything):
            skeleton = binding.GetSkeleton()
            query = cache.GetSkelQuery(skeleton)
            for skin in binding.GetSkinningTargets():
                if query:
                    found[str(skin.GetPrim().GetPath())] = (skeleton.GetPrim(), query, skin)
    nothing = (None, None, None)
    return [PlayedMesh(stage.GetPrimAtPath(path), *found.get(path, nothing)) for path in paths]


def _moved(points: np.ndarray, matrix: Any) -> np.ndarray:
    place = np.array(matrix)
    return points.astype(np.float64) @ place[:3, :3] + place[3, :3]
