"""Inputs of a character's simulator at every step: fast checks of poses, roots and forces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_array, checked_number, owned_array, shown
from supple.compiled.jit import compiled_brief
from supple.dynamics.root_frame import checked_root
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_names import one_name
from supple.rig.poses.pose_weights import LARGEST_SCALED
from supple.rig.protocol import LARGEST_VALUE, Rig, checked_pose

#: A pose (s,), or a root (4, 4); None for the default.
Given = ArrayLike | None
#: Pose and root one step earlier.
Before = tuple[ArrayLike, ArrayLike | None]
#: Forces (3,) in N by the vertices on which they act.
Forces = Mapping[int, ArrayLike]

#: Largest memory in bytes of all frames of a run.
LARGEST_RUN = 4 * 2**30


def checked_vertex(vertex: Any, n_vertices: int, whose: str) -> int:
    """Return the checked index of a vertex; `whose` names the mesh, such as "the skin"."""
    is_index = isinstance(vertex, int | np.integer) and not isinstance(vertex, bool)
    if not (is_index and 0 <= vertex < n_vertices):
        named = str(vertex) if is_index else shown(vertex, 40)
        raise SuppleError(
            f"force on vertex {named}, which does not exist; {whose} has vertices "
            f"0 to {n_vertices - 1}"
        )
    return int(vertex)


def vertex_forces(forces: Forces, n_vertices: int, whose: str = "the skin") -> tuple[Ints, Floats]:
    """Return vertices (k,) and forces (k, 3) of a checked mapping of vertices to forces (3,) in
    N.
    """
    if not isinstance(forces, Mapping):
        raise SuppleError(f"forces must be a mapping of vertices of {whose} to forces (3,)")
    vertices = [checked_vertex(vertex, n_vertices, whose) for vertex in forces]
    acting = [checked_array(f"force on vertex {vertex}", f, (3,)) for vertex, f in forces.items()]
    return np.array(vertices, np.int64), np.array(acting, np.float64).reshape(-1, 3)


def checked_frames(out: Singles | None, shape: tuple[int, ...]) -> Singles:
    """Return the float32 array for positions: `out`, which must fit, or a new one for None."""
    if out is None:
        return np.empty(shape, np.float32)
    fits = isinstance(out, np.ndarray) and out.shape == shape and out.dtype == np.float32
    if not (fits and out.flags.c_contiguous and out.flags.writeable):
        raise SuppleError(f"out must be a contiguous, writable float32 array, {shape}")
    return out


def checked_stiffness(value: float) -> float:
    """Return a factor on elastic forces, checked to be between 0.001 and 1000."""
    factor = checked_number("stiffness", value)
    if not 1e-3 <= factor <= 1e3:
        raise SuppleError(
            f"stiffness is {factor:g} times the model's; it must be between 0.001 and 1000"
        )
    return factor


def checked_factors(values: ArrayLike, n_tets: int, of: str = "stiffness") -> Floats:
    """Return a copy of factors (T,) on the stiffness of tets, checked to be 0.001 to 1000.

    `of` names the property in errors if it is not the stiffness.
    """
    factors = owned_array(f"local {of}", values, (n_tets,))
    wrong = ~((factors >= 1e-3) & (factors <= 1e3))
    if wrong.any():
        tet = int(np.argmax(wrong))
        raise SuppleError(
            f"local {of} of tet {tet} is {factors[tet]:g}; it must be between 0.001 and 1000"
        )
    return factors


class SteppedCharacter(Protocol):
    """Parts of a character's model on which inputs depend."""

    @property
    def rig(self) -> Rig:
        """Rig of the skin, whose parameters make a pose."""

    @property
    def surface(self) -> SurfaceMesh:
        """Skin at rest."""


class CharacterInputs:
    """Checks of poses, roots and forces for a model; results are contiguous float64 arrays. If the
    model has poses, `scales` (s,) are the factors on parameters in distances between poses; poses
    with entries that are too large for these distances are refused.
    """

    def __init__(self, model: SteppedCharacter, scales: Floats | None = None) -> None:
        self._parameters = model.rig.parameters
        self._rest_pose = model.rig.rest_pose
        self._scales = np.ones(len(self._parameters)) if scales is None else np.abs(scales)
        self._skin = len(model.surface.vertices)

    def pose(self, pose: Given, default: Floats) -> Floats:
        """Return a pose (s,), checked; the default for None."""
        if pose is None:
            return default
        if isinstance(pose, np.ndarray) and pose.dtype == np.float64:
            values = _writable(pose)
            if values.shape == self._scales.shape and is_usable(values, self._scales):
                return values
        values = checked_pose(self._parameters, pose)
        if not is_usable(values, self._scales):
            raise SuppleError(f"pose: use entries of magnitude up to {LARGEST_VALUE:.0e}")
        return _writable(values)

    def root(self, root: Given, default: Floats | None) -> Floats:
        """Return a root (4, 4), checked; for None the default, or the identity if that is None."""
        if root is None and default is not None:
            return default
        if isinstance(root, np.ndarray) and root.dtype == np.float64 and root.shape == (4, 4):
            values = _writable(root)
            if is_rigid(values):
                return values
        return checked_root(root)

    def earlier(self, before: Any, pose: Floats, root: Floats) -> tuple[Floats, Floats]:
        """Return pose and root of an earlier step; None in `before` means `pose` or `root`."""
        if not isinstance(before, tuple | list) or len(before) != 2:
            raise SuppleError("`before` must be a pose and a root, such as (pose, None)")
        return self.pose(before[0], pose), self.root(before[1], root)

    def start(
        self, pose: Given, root: Given, before: Before | None
    ) -> tuple[Floats, Floats, tuple[Floats, Floats] | None]:
        """Return pose, root, and pose and root one step earlier (or None), for a reset."""
        start_pose, start_root = self.pose(pose, self._rest_pose), self.root(root, None)
        return (
            start_pose,
            start_root,
            None if before is None else self.earlier(before, start_pose, start_root),
        )

    def forces(self, forces: Forces) -> tuple[Ints, Floats]:
        """Return skin vertices (k,) and forces (k, 3) in N, checked."""
        return vertex_forces(forces, self._skin)

    def skin(self, out: Singles | None) -> Singles:
        """Return the array for the skin, (n̄, 3) float32: `out`, checked, or a new one for None."""
        return checked_frames(out, (self._skin, 3))

    def motion(self, motion: Motion | str, motions: Mapping[str, Motion]) -> Motion:
        """Return a motion of this rig, or the one of `motions` with this name."""
        if isinstance(motion, str):
            motion = motions[one_name(motions, motion, "the model")]
        if not isinstance(motion, Motion):
            raise SuppleError(f"a run needs a Motion, not {type(motion).__name__}")
        if motion.poses.shape[1] != len(self._scales):
            wrong = f"{motion.poses.shape[1]} numbers per pose"
            raise SuppleError(f"{motion!r} has {wrong}; the rig has {len(self._scales)} parameters")
        return motion

    def frames(self, out: Singles | None, count: int) -> Singles:
        """Return the array for the skins of all frames, (t, n̄, 3) float32."""
        shape = (count, self._skin, 3)
        if out is None and 4 * math.prod(shape) > LARGEST_RUN:
            raise SuppleError(
                f"{count:,} frames of {self._skin:,} vertices are too many at once; "
                "step through parts of the motion"
            )
        return checked_frames(out, shape)


def _writable(array: Floats) -> Floats:
    """Return a writable, contiguous array, which kernels are compiled for; a copy if needed."""
    if array.flags.writeable and array.flags.c_contiguous:
        return array
    return array.copy()


@compiled_brief
def is_usable(pose: Floats, scales: Floats) -> bool:
    """Return whether all entries, and entries times their scales, are finite and not too large."""
    for k in range(len(pose)):
        if not (abs(pose[k]) <= LARGEST_VALUE and abs(pose[k]) * scales[k] <= LARGEST_SCALED):
            return False
    return True


@compiled_brief
def is_rigid(root: Floats) -> bool:
    """Return whether a root is rigid to rounding."""
    if not (root[3, 0] == 0 and root[3, 1] == 0 and root[3, 2] == 0 and root[3, 3] == 1):
        return False
    for i in range(3):
        if not abs(root[i, 3]) <= LARGEST_VALUE:
            return False
        for j in range(3):
            inner = root[i, 0] * root[j, 0] + root[i, 1] * root[j, 1] + root[i, 2] * root[j, 2]
            if not abs(inner - (1.0 if i == j else 0.0)) < 1e-12:
                return False
    volume = (
        root[0, 0] * (root[1, 1] * root[2, 2] - root[1, 2] * root[2, 1])
        + root[0, 1] * (root[1, 2] * root[2, 0] - root[1, 0] * root[2, 2])
        + root[0, 2] * (root[1, 0] * root[2, 1] - root[1, 1] * root[2, 0])
    )
    return math.isfinite(volume) and volume > 0
