"""The process that writes USD: evaluates a stage, and writes a layer over it.

It answers six requests. "files": the files that a file refers to. "record": the record of a layer
of Supple. "survey": positions of the points of meshes at time codes, and the effect of offsets.
"author": a layer with blend shapes and point caches, and its error. "curves": a layer with new
values of animations, and its error. "new": a new stage.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from supple.formats.registry import ADDED, CURVES, FLESH, USD_SUFFIXES
from supple.formats.usd.child import answer_request
from supple.formats.usd.layers import (
    Ar,
    Refused,
    Sdf,
    Usd,
    UsdGeom,
    UsdSkel,
    UsdUtils,
    Vt,
    layer_at,
    open_stage,
    shown_record,
)
from supple.formats.usd.prims import as_array, first_value
from supple.formats.usd.write.authoring import (
    add_shapes,
    add_weights,
    bind_animations,
    cache_points,
    define_animations,
    new_stage,
)
from supple.formats.usd.write.obstacle_prims import add_obstacles

#: Most files that are listed.
MOST = 100_000
#: Fields of a layer itself, which are not copied.
OWN_KEYS = {"subLayers", "subLayerOffsets", "owner", "sessionOwner", "hasOwnedSubLayers"}


def main(folder: str, memory: int) -> None:
    """Answer the request in the folder."""
    answer_request(folder, memory, _answer, "write", "written")


def _answer(request: dict[str, Any], folder: Path, notes: list[str]) -> dict[str, Any]:
    action = request["action"]
    if action == "record":
        return {"record": shown_record(request["path"])}
    if action == "files":
        return {"files": _needed_files(Path(request["path"]))}
    answers = {"survey": _survey, "author": _author, "curves": _curves, "new": _new}
    return answers[action](request, folder)


def _opened(
    request: dict[str, Any], clip: dict[str, Any], *, bound: bool = True
) -> tuple[Any, Any]:
    """Return the new layer over the file's, and the stage of both, playing the clip if `bound`."""
    # As for reading, references outside the file's folder are removed in memory.
    root = open_stage(Path(request["path"]), []).GetRootLayer()
    layer = Sdf.Layer.CreateAnonymous(".usda")
    for key in sorted(root.pseudoRoot.ListInfoKeys()):
        if key not in OWN_KEYS:
            layer.pseudoRoot.SetInfo(key, root.pseudoRoot.GetInfo(key))
    layer.subLayerPaths.append(root.identifier)
    stage = Usd.Stage.Open(layer)
    _make_editable(stage, request)
    if bound:
        define_animations(stage, clip["skeletons"], clip["animation_name"])
        bind_animations(stage, clip["skeletons"])
    return layer, stage


def _make_editable(stage: Any, request: dict[str, Any]) -> None:
    """Turn instances of the character into ordinary prims, since instances share their parts."""
    paths = [mesh["path"] for mesh in request["meshes"]]
    for skeleton in (each for clip in request["clips"] for each in clip["skeletons"]):
        paths += [path for path in (skeleton["path"], skeleton["animation"]) if path]
    for path in paths:
        prim = stage.GetPrimAtPath(path)
        while prim and prim.IsInstanceProxy():
            outer = prim
            while outer.IsInstanceProxy():
                outer = outer.GetParent()
            while not outer.IsInstance():
                outer = outer.GetParent()
            outer.SetInstanceable(False)
            prim = stage.GetPrimAtPath(path)
        if not prim:
            raise Refused(f"no longer has {path}; load it again")


def _survey(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    frames, count = int(request["clips"][-1]["rows"][1]), request["n_vertices"]
    present, matrices = (
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (frames, count, *shape))
        for name, shape in (("present", (3,)), ("matrices", (3, 3)))
    )
    unit = np.cbrt(abs(np.linalg.det(request["from_stage"][:3, :3])))
    for clip in request["clips"]:
        _, stage = _opened(request, clip)
        meshes = _played_meshes(stage, [mesh["path"] for mesh in request["meshes"]])
        for mesh, requested in zip(meshes, request["meshes"], strict=True):
            n_points, expected = len(mesh.points(0.0)), requested["n_points"]
            if n_points != expected:
                what = f"{n_points} points in {requested['path']}, no longer {expected}"
                raise Refused(f"has {what}; load it again")
        bounds = [unit * mesh.bound if mesh.takes_shapes else np.eye(3) for mesh in meshes]
        rows = slice(*clip["rows"])
        _survey_clip(request, clip, meshes, bounds, present[rows], matrices[rows])
    present.flush()
    matrices.flush()
    return {"takes_shapes": [mesh.takes_shapes for mesh in meshes], "bounds": bounds}


def _survey_clip(
    request: dict[str, Any],
    clip: dict[str, Any],
    meshes: list[_PlayedMesh],
    bounds: list[np.ndarray],
    present: np.ndarray,
    matrices: np.ndarray,
) -> None:
    """Fill `present` (t, n̄, 3) with positions at a clip's frames, in Supple's world.

    Fill `matrices` (t, n̄, 3, 3), which map offsets in bind space in metres to displacements.
    """
    outward = request["from_stage"]
    for k, code in enumerate(clip["codes"]):
        for mesh, requested, bound in zip(meshes, request["meshes"], bounds, strict=True):
            rows, vertices = requested["rows"], requested["vertices"]
            if not len(rows) or not mesh.takes_shapes:
                continue
            placed, effect = mesh.probed(mesh.points(float(code)), float(code))
            present[k, vertices] = placed[rows] @ outward[:3, :3].T + outward[:3, 3]
            matrices[k, vertices] = outward[:3, :3] @ effect[rows] @ np.linalg.inv(bound)


def _author(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    shown, names = request["clips"][request["shown"]], request["names"]
    layer, stage = _opened(request, shown)
    inward = np.linalg.inv(request["from_stage"])
    frames = _stored(folder / "frames.npy")
    around = _points_around(stage, request)
    for number, mesh in enumerate(request["meshes"]):
        prim = stage.GetPrimAtPath(mesh["path"])
        if mesh["cached"]:
            normals = _stored(folder / "normals.npy") if request["normals"] else None
            played = frames[slice(*shown["rows"])]
            surface = {"frames": played, "welded": mesh["welded"], "normals": normals}
            cache_points(prim, surface, shown["codes"], inward, around[number])
        elif names:
            offsets = _stored(folder / f"shapes{number}.npy")
            add_shapes(prim, names, offsets, _stored(folder / f"normals{number}.npy"))
    for clip in request["clips"]:
        define_animations(stage, clip["skeletons"], clip["animation_name"])
        for path in sorted({each["animation"] for each in clip["skeletons"]} if names else ()):
            add_weights(stage.GetPrimAtPath(path), names, clip["keys"], clip["weights"])
    add_obstacles(stage, request["obstacles"])
    _widen_range(stage, request["range"])
    _mark(layer, FLESH, request)
    return _finished(layer, stage, request, frames, folder)


def _curves(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    from supple.formats.usd.write.skel_curves import author_curves  # SciPy takes half a second

    clip = request["clips"][0]
    layer, stage = _opened(request, clip, bound=request["new"] and not request["additive"])
    figures = author_curves(stage, request)
    # A part of a clip does not set the range.
    if request["new"] or stage.HasAuthoredTimeCodeRange():
        _widen_range(stage, clip["codes"])
    _mark(layer, CURVES, request)
    measured = request if not request["additive"] else {**request, "clips": []}
    return figures | _finished(layer, stage, measured, _stored(folder / "frames.npy"), folder)


def _mark(layer: Any, added: str, request: dict[str, Any]) -> None:
    """Store the request's record as `added` in the layer's data, and remove other records."""
    data = dict(layer.customLayerData)
    others = {name: value for name, value in data.items() if name not in ADDED}
    layer.customLayerData = {**others, added: request["record"]}


def _points_around(stage: Any, request: dict[str, Any]) -> list[dict[float, np.ndarray]]:
    """Return points of cached meshes as the rig alone moves them, at codes outside the bake.

    They are in the stage's world and computed before anything is written, since a cache is
    constant after its last points.
    """
    meshes = _played_meshes(stage, [mesh["path"] for mesh in request["meshes"]])
    points: list[dict[float, np.ndarray]] = []
    for mesh, requested in zip(meshes, request["meshes"], strict=True):
        codes = request["around"].tolist() if requested["cached"] else []
        points.append({code: mesh.placed(mesh.points(code), code) for code in codes})
    return points


def _stored(file: Path) -> Any:
    """Map an array in a file into memory; return None if there is no such file."""
    return np.load(file, mmap_mode="r", allow_pickle=False) if file.exists() else None


def _widen_range(stage: Any, codes: np.ndarray) -> None:
    first, last = float(codes[0]), float(codes[-1])
    if stage.HasAuthoredTimeCodeRange():
        first = min(first, stage.GetStartTimeCode())
        last = max(last, stage.GetEndTimeCode())
        if (first, last) == (stage.GetStartTimeCode(), stage.GetEndTimeCode()):
            return
    stage.SetStartTimeCode(first)
    stage.SetEndTimeCode(last)


def _finished(
    layer: Any, stage: Any, request: dict[str, Any], frames: np.ndarray, folder: Path
) -> dict[str, Any]:
    """Measure the error, write the layer with its path to the original, and return the answer."""
    errors = [_largest_error(stage, request, k, frames) for k in range(len(request["clips"]))]
    error = max(errors, default=0.0)
    layer.subLayerPaths[0] = request["sublayer"]
    layer.Export(str(folder / f"layer.{request['format']}"))
    return {"error_metres": error, "files": _dependencies(request) if request["package"] else []}


def _largest_error(stage: Any, request: dict[str, Any], number: int, frames: np.ndarray) -> float:
    """Return the largest distance of points from their goals in metres, as UsdSkel plays a clip."""
    clip, outward, largest = request["clips"][number], request["from_stage"], 0.0
    with Usd.EditContext(stage, stage.GetSessionLayer()):
        bind_animations(stage, clip["skeletons"])
        requests = [m for m in request["meshes"] if number == request["shown"] or not m["cached"]]
        meshes = _played_meshes(stage, [mesh["path"] for mesh in requests])
        for k, code in enumerate(clip["codes"]):
            for mesh, requested in zip(meshes, requests, strict=True):
                rows = np.flatnonzero(requested["welded"] >= 0)
                placed = mesh.placed(mesh.points(float(code)), float(code))[rows]
                goal = frames[clip["rows"][0] + k, requested["welded"][rows]]
                difference = placed @ outward[:3, :3].T + outward[:3, 3] - goal
                largest = max(largest, float(np.linalg.norm(difference, axis=1).max(initial=0.0)))
    stage.GetSessionLayer().Clear()
    return largest


def _dependencies(request: dict[str, Any]) -> list[str]:
    """Return the files that the original needs, itself first; all in its folder or below."""
    original = Path(request["path"])
    layers, assets, _ = UsdUtils.ComputeAllDependencies(Sdf.AssetPath(str(original)))
    files = [original]
    for name in [*(layer.realPath for layer in layers), *assets]:
        outer = Ar.SplitPackageRelativePathOuter(str(name))[0]
        file = _as_named(Path(os.path.abspath(outer)), original.parent) if outer else None
        if file is not None and file not in files and file.is_file():
            files.append(file)
    return [str(files[0]), *sorted(str(file) for file in files[1:])]


def _as_named(file: Path, folder: Path) -> Path | None:
    """Return a file below the folder by the name that layers use, with links; None outside it."""
    real = folder.resolve()
    if not file.resolve().is_relative_to(real):
        return None
    for top in (folder, real):
        if file.is_relative_to(top):
            return folder / file.relative_to(top)
    return folder / file.resolve().relative_to(real)


def _needed_files(path: Path) -> list[str]:
    """Return all files that a file refers to, directly or not: layers, clips, images.

    Listed files may be missing. Only files in the folder, or below it, are opened.
    """
    folder = path.parent.resolve()
    stack, visited = [str(path)], {str(path)}
    files: dict[str, None] = {}
    while stack and len(visited) < MOST:
        layer = layer_at(stack.pop())
        for asset in _named_files(layer):
            path_of_asset = Sdf.ComputeAssetPathRelativeToLayer(layer, asset)
            if path_of_asset in visited:
                continue
            visited.add(path_of_asset)
            # A bare name that is not beside the layer stays relative to it.
            layer_file = Path(Ar.SplitPackageRelativePathOuter(layer.realPath)[0])
            file = layer_file.parent / Ar.SplitPackageRelativePathOuter(path_of_asset)[0]
            files[str(file)] = None
            if file.suffix.lower() in USD_SUFFIXES and file.resolve().is_relative_to(folder):
                stack.append(path_of_asset)
    return list(files)


def _named_files(layer: Any) -> list[str]:
    if layer is None:
        return []
    listed = UsdUtils.ExtractExternalReferences(layer.identifier)
    return [str(asset) for kind in listed for asset in kind if asset and "\0" not in str(asset)]


def _new(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    layer = Sdf.Layer.CreateAnonymous(".usda")
    frames, normals = _stored(folder / "frames.npy"), _stored(folder / "normals.npy")
    stage = Usd.Stage.Open(layer)
    new_stage(stage, request, frames, normals)
    add_obstacles(stage, request["obstacles"], str(stage.GetDefaultPrim().GetPath()))
    layer.Export(str(folder / f"layer.{request['format']}"))
    return {}


# Meshes of a stage as UsdSkel evaluates them.


class _PlayedMesh:
    """A mesh of the stage, its skeleton and its blend shapes.

    A `skinned` mesh follows joints, not its own transform. `bound` (3, 3) maps its points to its
    bind space, in which points of welded meshes coincide.
    """

    def __init__(self, prim: Any, query: Any = None, skin: Any = None) -> None:
        self.prim, self._query, self._skin = prim, query, skin
        self.skinned = bool(skin) and skin.HasJointInfluences()
        self._shapes = None
        if skin and skin.HasBlendShapes() and query.GetAnimQuery():
            self._shapes = UsdSkel.BlendShapeQuery(UsdSkel.BindingAPI(prim))
            self._point_lists = self._shapes.ComputeBlendShapePointIndices()
            self._offset_lists = self._shapes.ComputeSubShapePointOffsets()
        first = Usd.TimeCode.EarliestTime()
        if self.skinned:
            transform = np.array(skin.GetGeomBindTransform(first)).T
        else:
            transform = np.array(UsdGeom.XformCache(first).GetLocalToWorldTransform(prim)).T
        self.bound = transform[:3, :3]

    @property
    def takes_shapes(self) -> bool:
        """Whether blend shapes can be added: the mesh has a skeleton and `bound` is regular."""
        sizes = np.linalg.svd(self.bound, compute_uv=False)
        return bool(self._skin) and bool(sizes[-1] > 1e-6 * sizes[0] > 0)

    def points(self, code: float) -> np.ndarray:
        """Return points (n, 3) at a time code with blend shapes, before any transform."""
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
        """Return positions (n, 3) of points in the stage's world, at a time code."""
        cache = UsdGeom.XformCache(Usd.TimeCode(code))
        if not self.skinned:
            return _transformed(points, cache.GetLocalToWorldTransform(self.prim))
        skinned = Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(points, np.float32))
        transforms = self._query.ComputeSkinningTransforms(code)
        self._skin.ComputeSkinnedPoints(transforms, skinned, code)
        frame = cache.GetLocalToWorldTransform(self._query.GetPrim())
        return _transformed(np.array(skinned), frame)

    def probed(self, points: np.ndarray, code: float) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (n, 3), and matrices (n, 3, 3) from offsets of points to displacements.

        A skinned point is an affine function of its bound position for every skinning method.
        """
        placed = self.placed(points, code)
        step = max(float(np.ptp(points, axis=0).max(initial=0.0)), 1e-6)
        columns = []
        for axis in range(3):
            shifted = points.copy()
            shifted[:, axis] += step
            shift = (shifted - points)[:, axis : axis + 1].astype(np.float64)
            columns.append((self.placed(shifted, code) - placed) / shift)
        return placed, np.stack(columns, axis=2)


def _played_meshes(stage: Any, paths: list[str]) -> list[_PlayedMesh]:
    """Return the meshes with the skeletons and shapes that UsdSkel binds to them."""
    cache, bindings = UsdSkel.Cache(), {}
    traversal = Usd.TraverseInstanceProxies()
    for prim in Usd.PrimRange(stage.GetPseudoRoot(), traversal):
        if not prim.IsA(UsdSkel.Root):
            continue
        root = UsdSkel.Root(prim)
        cache.Populate(root, traversal)
        for binding in cache.ComputeSkelBindings(root, traversal):
            query = cache.GetSkelQuery(binding.GetSkeleton())
            for skin in binding.GetSkinningTargets() if query else ():
                bindings[str(skin.GetPrim().GetPath())] = (query, skin)
    return [_PlayedMesh(stage.GetPrimAtPath(path), *bindings.get(path, ())) for path in paths]


def _transformed(points: np.ndarray, matrix: Any) -> np.ndarray:
    """Return points transformed by a matrix of USD, which multiplies row vectors."""
    transform = np.array(matrix)
    return points.astype(np.float64) @ transform[:3, :3] + transform[3, :3]
