"""Bases as functions of the pose: ours, the paper's, and what others have used in their place.

Each is a callable from a pose (s,) to U (3n, r), for analysis and for simulations that form it
on the whole mesh (`supple.dynamics.ProjectedSimulator`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.checks import numbers
from supple.compiled import compiled
from supple.elastic import ElasticBody, Material
from supple.errors import SuppleError
from supple.mesh import TetMesh
from supple.mesh.obstacles import Obstacle
from supple.reduction.agreement import Agreement, agree
from supple.reduction.alignment import Variant
from supple.reduction.build_parts import modes_per_region
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.mass_pca import mass_pca
from supple.reduction.model import PoseSpaceModel
from supple.reduction.pose_basis import pose_basis
from supple.reduction.pose_model import PoseModel, PoseTask, reduce_pose, reduced_stiffness
from supple.reduction.region import Region
from supple.reduction.samples import dense_basis
from supple.rig.pose_weights import PoseWeights
from supple.rig.vertex_frames import blended_rotations, pose_rotations, rotate

__all__ = [
    "BASES",
    "ReducedPoses",
    "interpolated",
    "model_embedding",
    "model_materials",
    "naive",
    "neutral",
    "pose_independent",
    "warped",
]

Floats = NDArray[np.float64]
OfPose = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class ReducedPoses:
    """Models of several poses, before anybody said what holds between them.

    Attributes
    ----------
    mesh, rest
        The tets, and Φ: from a pose to their rest positions (n, 3).
    models, weights
        Of each pose, the neutral one first; and how much each counts.
    regions
        Where the bases live.
    mass
        (n,) of the vertices.
    """

    mesh: TetMesh
    rest: OfPose
    models: tuple[PoseModel, ...]
    weights: PoseWeights
    regions: tuple[Region, ...]
    mass: Floats
    _agreements: dict[str, Agreement] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def at(
        cls,
        mesh: TetMesh,
        material: Material | Sequence[Material],
        rest: OfPose,
        poses: ArrayLike | PoseWeights,
        *,
        modes: int | Sequence[int],
        fixed: ArrayLike = (),
        regions: Sequence[Region] | None = None,
        contacts: ContactKind | None = None,
        obstacles: Sequence[Obstacle] = (),
        recipe: dict[str, Any] | None = None,
    ) -> ReducedPoses:
        """Reduce a body at each of some poses.

        Parameters
        ----------
        mesh, material
            The tets, and what they are made of, once or at each pose.
        rest
            Φ, such as a rig.
        poses
            (m, s), the neutral one first, or their weights.
        modes
            Columns in all, or of each region.
        fixed, regions
            Vertices that do not move, and where bases live: without regions, in the whole body
            (global modes).
        contacts, obstacles
            How touching binds, None for a basis that knows of no contact, and what else there
            is to touch.
        recipe
            Options of `pose_basis`, for one region without contacts; a build's own without.
        """
        weights = poses if isinstance(poses, PoseWeights) else PoseWeights(poses)
        held = np.asarray(fixed, np.int64)
        where = (Region.whole(len(mesh.vertices), held),) if regions is None else tuple(regions)
        counts = modes_per_region(modes, where)
        count = weights.n_poses
        made_of = [material] * count if isinstance(material, Material) else list(material)
        if len(made_of) != count:
            raise SuppleError(f"{len(made_of)} materials for {count} poses")
        tasks = [
            PoseTask(name, mesh, each, rest(pose), where, counts, contacts, tuple(obstacles))
            for name, pose, each in zip(weights.names, weights.poses, made_of, strict=True)
        ]
        models = tuple(
            reduce_pose(task) if recipe is None else _by_recipe(task, recipe) for task in tasks
        )
        mass = ElasticBody(mesh, made_of[0]).vertex_masses()
        return cls(mesh, rest, models, weights, where, mass)

    @classmethod
    def of_model(
        cls,
        model: PoseSpaceModel,
        *,
        regions: Sequence[Region] | None = None,
        modes: int | Sequence[int] | None = None,
        contacts: ContactKind | None = "two-sided",
        obstacles: Sequence[Obstacle] = (),
    ) -> ReducedPoses:
        """Reduce a model's poses again, on all vertices, with its own regions or others.

        A model keeps its bases where the skin and cubature need them; with the options it was
        built with, those of `interpolated` are the same there, but for rounding.
        """
        where = model.regions if regions is None else tuple(regions)
        counts: Any = [basis.shape[3] for basis in model.bases]
        if modes is not None:
            counts = modes
        elif regions is not None:
            counts = model.n_modes
        return cls.at(
            model.mesh,
            model_materials(model),
            model.tet_rig,
            model.pose_weights,
            modes=counts,
            regions=where,
            contacts=contacts,
            obstacles=obstacles,
        )

    @property
    def n_columns(self) -> int:
        """Number of basis vectors, r."""
        return sum(basis.shape[2] for basis in self.models[0].bases)

    def basis(self, pose: int) -> Floats:
        """U of one of the poses, in the world, (3n, r)."""
        count = len(self.mesh.vertices)
        return dense_basis(self.models[pose].bases, self.regions, count).reshape(3 * count, -1)

    def agreement(self, variant: Variant = "frames") -> Agreement:
        """The poses' bases, aligned; computed once."""
        if variant not in self._agreements:
            self._agreements[variant] = agree(
                self.mesh, self.models, self.weights, self.regions, self.mass, variant=variant
            )
        return self._agreements[variant]


def _by_recipe(task: PoseTask, recipe: dict[str, Any]) -> PoseModel:
    if len(task.regions) != 1 or task.contacts is not None:
        raise SuppleError("a recipe is for one region without contacts")
    body, (region,) = ElasticBody(task.mesh, task.material), task.regions
    stiffness = body.stiffness(task.rest, task.rest, out=body.pattern.zeros())
    made = pose_basis(
        body, task.rest, stiffness, body.vertex_masses(), region, task.modes[0], **recipe
    )
    reduced = reduced_stiffness(stiffness, region, made.vectors)
    return PoseModel(task.rest, (made.vectors,), (reduced,), None, 0)


def model_materials(model: PoseSpaceModel) -> list[Material]:
    """What a model is made of at each of its poses."""

    def at(values: ArrayLike, pose: int) -> Any:
        return np.asarray(values)[pose] if np.ndim(values) == 2 else values

    return [
        Material(
            model.material_kind,
            young=at(model.young, pose),
            poisson=at(model.poisson, pose),
            density=model.density,
        )
        for pose in range(model.n_poses)
    ]


def model_embedding(model: PoseSpaceModel) -> sp.csr_array:
    """A (n̄, n): the model's skin from its tet vertices."""
    count, corners = model.embedding_vertices.shape
    rows = np.repeat(np.arange(count), corners)
    entries = model.embedding_weights.astype(np.float64).ravel()
    return sp.csr_array(
        (entries, (rows, model.embedding_vertices.ravel())), (count, len(model.mesh.vertices))
    )


def interpolated(poses: ReducedPoses, variant: Variant = "frames") -> OfPose:
    """Aligned and blended: in frames, as Supple does, or in the "world", as in xu2016 §5.2."""
    agreement, count = poses.agreement(variant), len(poses.mesh.vertices)
    # (m, n, 3, r), whole: a simulation that forms U on the whole mesh should not wait for it.
    stacked = np.stack([dense_basis(each, poses.regions, count) for each in agreement.bases])
    turns = agreement.rotations

    def basis(pose: Floats) -> Floats:
        weights = poses.weights(pose)
        scales = 1 / np.sqrt(np.maximum(np.diagonal(_blended_mass(agreement, weights)), 1e-300))
        used = np.flatnonzero(weights)
        frames = np.empty((0, 4)) if turns is None else blended_rotations(turns, weights)
        out = np.empty(stacked.shape[1:])
        _blend(stacked, used, weights, frames, scales, out)
        return out.reshape(3 * count, -1)

    return basis


def _blended_mass(agreement: Agreement, weights: Floats) -> Floats:
    i, j = np.triu_indices(len(weights))
    return np.tensordot(weights[i] * weights[j], agreement.products, 1)


@compiled
def _blend(
    bases: Floats,
    used: NDArray[np.int64],
    weights: Floats,
    frames: Floats,
    scales: Floats,
    out: Floats,
) -> None:
    """R(p) Σ wᵢ Ũᵢ ϒ, vertex by vertex; without frames R is 1."""
    for v in range(out.shape[0]):
        x, y, z = out[v, 0], out[v, 1], out[v, 2]
        x[:] = 0.0
        y[:] = 0.0
        z[:] = 0.0
        for i in used:
            w, a, b, c = weights[i], bases[i, v, 0], bases[i, v, 1], bases[i, v, 2]
            for k in range(len(scales)):
                x[k] += w * a[k]
                y[k] += w * b[k]
                z[k] += w * c[k]
        if len(frames) == 0:
            for k in range(len(scales)):
                x[k] *= scales[k]
                y[k] *= scales[k]
                z[k] *= scales[k]
            continue
        p, q, r, s = frames[v, 0], frames[v, 1], frames[v, 2], frames[v, 3]
        xx, xy, xz = 1 - 2 * (q * q + r * r), 2 * (p * q - r * s), 2 * (p * r + q * s)
        yx, yy, yz = 2 * (p * q + r * s), 1 - 2 * (p * p + r * r), 2 * (q * r - p * s)
        zx, zy, zz = 2 * (p * r - q * s), 2 * (q * r + p * s), 1 - 2 * (p * p + q * q)
        for k in range(len(scales)):
            a0, b0, c0 = scales[k] * x[k], scales[k] * y[k], scales[k] * z[k]
            x[k] = xx * a0 + xy * b0 + xz * c0
            y[k] = yx * a0 + yy * b0 + yz * c0
            z[k] = zx * a0 + zy * b0 + zz * c0


def naive(poses: ReducedPoses) -> OfPose:
    """Columns blended as they come, the k-th softest of each pose, then normalised (fig. 6)."""
    sorted_columns = np.stack([_softest_first(poses, at) for at in range(len(poses.models))])
    mass = np.repeat(poses.mass, 3)

    def basis(pose: Floats) -> Floats:
        blend = np.tensordot(poses.weights(pose), sorted_columns, 1)
        lengths = np.sqrt(mass @ blend**2)
        return blend / np.where(lengths > 0, lengths, 1.0)

    return basis


def _softest_first(poses: ReducedPoses, at: int) -> Floats:
    """A pose's basis with each region's columns turned to its own modes, ascending in λ."""
    model, parts = poses.models[at], []
    for vectors, stiffness in zip(model.bases, model.stiffnesses, strict=True):
        parts.append(vectors @ np.linalg.eigh(stiffness)[1])
    count = len(poses.mesh.vertices)
    found = dense_basis(parts, poses.regions, count).reshape(3 * count, -1)
    # Signs are a choice: the one nearer to the neutral pose's column does naive blending good.
    if at > 0:
        first = _softest_first(poses, 0)
        alike = np.repeat(poses.mass, 3) @ (first * found)
        found *= np.where(alike < 0, -1.0, 1.0)
    return found


def neutral(poses: ReducedPoses) -> OfPose:
    """The neutral pose's basis at every pose."""
    only = poses.basis(0)
    return lambda pose: only


def warped(poses: ReducedPoses) -> OfPose:
    """The neutral pose's basis, turned vertex by vertex with the shape (xu2016 fig. 4a)."""
    only = poses.basis(0).reshape(len(poses.mesh.vertices), 3, -1)
    shape = poses.models[0].rest

    def basis(pose: Floats) -> Floats:
        turns = pose_rotations(poses.mesh, [shape, poses.rest(pose)], [-1, 0])[1]
        return rotate(turns, only).reshape(3 * len(only), -1)

    return _remembering(basis)


def _remembering(basis: OfPose) -> OfPose:
    """The same, computed once for poses that follow each other unchanged."""
    last: dict[bytes, Floats] = {}

    def known(pose: Floats) -> Floats:
        key = numbers("pose", pose).tobytes()
        if key not in last:
            found = basis(pose)
            last.clear()
            last[key] = found
        return last[key]

    return known


def pose_independent(
    poses: ReducedPoses, count: int, *, frames: bool = True, soft_first: bool = True
) -> OfPose:
    """`count` vectors that come nearest to the bases of all poses: their mass-PCA (fig. 14).

    Parameters
    ----------
    poses
        Whose bases are put together.
    count
        How many vectors to keep.
    frames
        Put together in the neutral pose's frames, and turned to the pose with the vertices,
        which does a constant basis good where poses turn the body; or in the world.
    soft_first
        Columns count with (λ₁/λ)^½, so that the PCA keeps what moves most; or all alike.
    """
    agreement = poses.agreement("frames")
    n, turns = len(poses.mesh.vertices), agreement.rotations
    assert turns is not None
    parts = []
    for at in range(len(poses.models)):
        whole, softness = _soft_columns(poses, at)
        if frames:
            whole = rotate(turns[at] * [-1, -1, -1, 1], whole.reshape(n, 3, -1))
        parts.append(whole.reshape(3 * n, -1) * (softness if soft_first else 1.0))
    vectors = mass_pca(np.hstack(parts), poses.mass, count)[0]
    if not frames:
        return lambda pose: vectors
    each = vectors.reshape(n, 3, count)

    def basis(pose: Floats) -> Floats:
        turned = blended_rotations(turns, poses.weights(pose))
        return rotate(turned, each).reshape(3 * n, count)

    return basis


def _soft_columns(poses: ReducedPoses, at: int) -> tuple[Floats, Floats]:
    """A pose's modes within its basis, and (λ₁/λ)^½ of each."""
    values = [np.linalg.eigvalsh(each) for each in poses.models[at].stiffnesses]
    stiffness = np.concatenate(values)
    return _softest_first(poses, at), np.sqrt(stiffness.min() / stiffness)


#: What a figure can ask for by name.
BASES: dict[str, Callable[..., OfPose]] = {
    "interpolated": interpolated,
    "world": lambda poses: interpolated(poses, "world"),
    "naive": naive,
    "neutral": neutral,
    "warped": warped,
    "pca": pose_independent,
}
