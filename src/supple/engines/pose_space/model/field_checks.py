"""Checks of single fields of a pose-space model, and the precision that files keep."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Singles
from supple.checks import checked_array, numbers
from supple.errors import MeshError, SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.reduction.regions.region import Region
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.rig.stored.packed_arrays import rounded

Ints = NDArray[np.int32]

#: Largest distance of a rig's vertices from the mesh in its rest pose, as a part of the size.
REST_TOLERANCE = 1e-4
EXTRA_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+", re.ASCII)
EXTRA_TYPES = (np.float32, np.float64, np.int32, np.uint16, np.uint8)
LONGEST_REPORT = 1_000_000
MOST_MOTIONS = 1000


def stored_array(
    what: str, value: ArrayLike, shape: tuple[int, ...], *, double: bool = False
) -> NDArray:
    """Return finite numbers of this shape as read-only float32, or float64."""
    exact = checked_array(what, value, shape)
    array = exact.copy() if double else rounded(exact).copy()
    array.flags.writeable = False
    return array


def distinct_indices(what: str, value: ArrayLike, count: int) -> Ints:
    """Return a list of different whole numbers from 0 to count − 1, read-only int32."""
    given = np.asarray(value)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise SuppleError(f"{what} must be a list of indices")
    if given.size and not (given.min() >= 0 and given.max() < count):
        bad = given[(given < 0) | (given >= count)][0]
        raise SuppleError(f"{what}: {bad} is not there; there are {count:,}")
    array = given.astype(np.int32)
    if len(np.unique(array)) < len(array):
        raise SuppleError(f"{what}: one is listed twice")
    array.flags.writeable = False
    return array


def rounded_surface(surface: SurfaceMesh) -> SurfaceMesh:
    """Return the surface with vertices that float32 holds."""
    return SurfaceMesh(rounded(surface.vertices), surface.triangles)


def rounded_mesh(mesh: TetMesh) -> TetMesh:
    """Return the tets with vertices that float32 holds, none inverted by that; no named sets."""
    small = TetMesh(rounded(mesh.vertices), mesh.tets)
    volumes = small.volumes()
    if not volumes.min() > 0:
        where = int(np.argmin(volumes))
        raise MeshError(f"tet {where} is inverted or flat at the neutral pose; mesh it again")
    return small


def rounded_region(region: Region, n_vertices: int, fixed: Ints) -> Region:
    """Return the region with weights that float32 holds; its vertices are there, and free."""
    if region.vertices[-1] >= n_vertices:
        raise SuppleError(
            f'region "{region.name}" has vertex {region.vertices[-1]} of {n_vertices}'
        )
    if np.isin(region.vertices, fixed).any():
        raise SuppleError(f'region "{region.name}" has vertices that are fixed; leave them out')
    return Region(str(region.name), region.vertices, rounded(region.weights).astype(np.float64))


def embedding_table(embedding: Any) -> tuple[Ints, Singles]:
    """Return columns and values, (n̄, 4) each, of a sparse matrix with up to four entries a row.

    The largest is first: a model keeps the first as what the others leave of 1, and of one that
    is 0 that would leave rounding.
    """
    matrix = sp.csr_array(embedding)
    matrix.sum_duplicates()
    counts = np.diff(matrix.indptr)
    if len(counts) == 0 or counts.max() > 4 or counts.min() < 1:
        raise SuppleError(
            "a surface vertex must hang on one to four tet vertices; use supple.mesh.embed"
        )
    there = np.arange(4) < counts[:, None]
    columns, values = np.zeros((len(counts), 4), np.int32), np.zeros((len(counts), 4))
    columns[there], values[there] = matrix.indices, matrix.data
    rows, largest = np.arange(len(counts)), values.argmax(axis=1)
    for table in (columns, values):
        table[rows, largest], table[:, 0] = table[:, 0].copy(), table[rows, largest]
    # Empty places name a vertex that is needed anyway.
    columns = np.where(there, columns, columns[:, :1])
    return columns.astype(np.int32), rounded(values)


def checked_motions(motions: Mapping[str, Motion], n_parameters: int) -> dict[str, Motion]:
    """Return motions with poses that float32 holds; root transforms keep float64."""
    if len(motions) > MOST_MOTIONS:
        raise SuppleError(f"{len(motions):,} motions; a model takes {MOST_MOTIONS:,} along")
    found = {}
    for name, motion in motions.items():
        if motion.poses.shape[1] != n_parameters:
            width = motion.poses.shape[1]
            raise SuppleError(
                f'motion "{name}": {width} numbers a pose; the rig has {n_parameters}'
            )
        poses = rounded(motion.poses)
        cuts, tracks = motion.cuts, motion.tracks
        found[str(name)] = Motion(motion.times, poses, motion.roots, motion.name, cuts, tracks)
    return found


def checked_rest(what: str, rig: Rig, vertices: NDArray, size: float) -> None:
    """Refuse a rig that has its vertices elsewhere in the rest pose."""
    if not isinstance(rig, Rig):
        raise SuppleError(f"the rig of the {what} is a {type(rig).__name__}, which is no rig")
    if rig.n_vertices != len(vertices):
        raise SuppleError(
            f"the rig of the {what} has {rig.n_vertices:,} vertices, not {len(vertices):,}"
        )
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(rig(rig.rest_pose)) - vertices).max()
    if not apart <= REST_TOLERANCE * size:
        raise SuppleError(
            f"the {what} is up to {apart:.3g} m away from where its rig has it at rest;"
            " they do not belong together"
        )


def checked_tree(parents: ArrayLike, count: int) -> Ints:
    """Return parents of an alignment tree, (count,) int32: pose 0 is its root, with −1."""
    given = np.asarray(parents)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise SuppleError(f"the alignment tree must name a parent for each of {count} poses")
    tree = given.astype(np.int32)
    if tree[0] != -1 or (count > 1 and not (tree[1:].min() >= 0 and tree[1:].max() < count)):
        raise SuppleError("the alignment tree must have pose 0 as its only root")
    above = np.arange(count)
    for _ in range(count):
        above = np.where(above > 0, tree[above], 0)
    if above.any():
        raise SuppleError("the alignment tree goes in a circle")
    tree.flags.writeable = False
    return tree


def checked_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures that JSON can carry, as JSON carries them."""
    try:
        text = json.dumps(report, allow_nan=False, sort_keys=True)
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise SuppleError(f"a model's report must be plain, finite figures ({error})") from error
    if not isinstance(found, dict) or len(text) > LONGEST_REPORT:
        raise SuppleError("a model's report must be a dict of figures, below a megabyte")
    return found


def checked_extras(extras: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Return arrays of other engines, "<engine>.<name>": finite, of a type that files have."""
    found = {}
    for name in sorted(extras):
        array = np.array(extras[name], order="C")
        if not EXTRA_NAME.fullmatch(str(name)) or len(name) > 100:
            raise SuppleError(f'extra array "{name}"; call it <engine>.<name>, in small letters')
        if array.dtype not in EXTRA_TYPES:
            raise SuppleError(
                f'extra array "{name}" is {array.dtype}; use float32, float64 or int32'
            )
        if not np.isfinite(array).all():
            raise SuppleError(f'extra array "{name}" is not finite everywhere')
        array.flags.writeable = False
        found[name] = array
    return found


def scalar_or_array(
    what: str, value: ArrayLike, shapes: Sequence[tuple[int, ...]]
) -> float | Singles:
    """Return a number, in full precision, or a float32 array of one of the shapes."""
    given = numbers(what, value)
    if given.ndim == 0:
        return float(stored_array(what, given, (), double=True))
    if given.shape not in shapes:
        wanted = " or ".join(str(shape) for shape in shapes)
        raise SuppleError(f"{what}: shape {given.shape}; use a number or {wanted}")
    return stored_array(what, given, given.shape)
