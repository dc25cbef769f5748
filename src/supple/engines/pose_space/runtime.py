"""Read-only tables of a pose-space model for the kernels, shared by all its simulators.

Bases stay in the int16 steps of the model, which halves the memory traffic. Lengths of steps are
powers of two, so that blends equal blends of float32 bases.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.compiled.simd import LANES
from supple.elastic.body import ElasticBody
from supple.elastic.densities.density import lame_parameters
from supple.elastic.densities.dispatch import material_number
from supple.elastic.material import Material
from supple.engines.pose_space.blend import PoseTables
from supple.engines.pose_space.elastic_force import ElasticTables
from supple.engines.pose_space.inertia import InertialTables
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.model.reduction_schema import packed_basis
from supple.engines.pose_space.rest_shape_rotations import frame_tables, no_frame_tables
from supple.engines.pose_space.skin import SurfaceTables
from supple.engines.pose_space.step_options import Frames
from supple.errors import SuppleError
from supple.maths.rotations import to_matrix
from supple.mesh.tets import hat_gradients
from supple.rig.tets.character_placement import CharacterPlacement


class RegionGroups(NamedTuple):
    """Groups of tets or vertices with the same regions, whose basis rows are dense blocks."""

    first: Ints
    """(g + 1,) first point of each group in the new order."""
    width: Ints
    """(g,) columns of each block, padded."""
    start: Ints
    """(g + 1,) first entry of each block in the flat array of all blocks."""
    columns: Ints
    """(g, widest) basis columns of each block; −1 for padding."""


def group_by_regions(
    met: NDArray[np.bool_], columns: Sequence[slice], rows: int
) -> tuple[Ints, RegionGroups]:
    """Group points by the regions that reach them, `met` (k, regions); return order and groups.

    `columns` are each region's columns; a point has 12 basis `rows` if it is a tet, 3 if a vertex.
    In the order (k,), points without a region are last, in no group.
    """
    patterns, of_point = np.unique(met, axis=0, return_inverse=True)
    used = [p for p in range(len(patterns)) if patterns[p].any()]
    members = [np.flatnonzero(of_point.reshape(-1) == p) for p in used]
    ranges = [np.arange(c.start, c.stop) for c in columns]
    listed = [np.concatenate([ranges[k] for k in np.flatnonzero(patterns[p])]) for p in used]
    width = np.array([-(-len(each) // LANES) * LANES for each in listed], np.int64)
    table = np.full((len(used), int(width.max(initial=0))), -1, np.int64)
    for row, each in zip(table, listed, strict=True):
        row[: len(each)] = each
    counts = np.array([len(each) for each in members], np.int64)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(counts * width * rows)]).astype(np.int64)
    rest = np.flatnonzero(~met.any(axis=1))
    order = np.concatenate([*members, rest]).astype(np.int64)
    return order, RegionGroups(first, width, start, table)


def basis_blocks(groups: RegionGroups, dense: NDArray) -> NDArray:
    """Return basis rows (m, k, rows, r), in the groups' order, as flat blocks (m, start[-1])."""
    out = np.zeros((len(dense), int(groups.start[-1])), dense.dtype)
    for g in range(len(groups.width)):
        points = slice(groups.first[g], groups.first[g + 1])
        columns = groups.columns[g, : groups.width[g]]
        real = columns >= 0
        block = np.zeros((*dense[:, points].shape[:3], len(columns)), dense.dtype)
        block[..., real] = dense[:, points][..., columns[real]]
        out[:, groups.start[g] : groups.start[g + 1]] = block.reshape(len(dense), -1)
    return out


def block_columns(groups: RegionGroups, values: NDArray) -> Singles:
    """Return values of columns (m, r) in the order of the groups, (m, Σ width); 0 for padding."""
    listed = [row[:width] for row, width in zip(groups.columns, groups.width, strict=True)]
    columns = np.concatenate([np.zeros(0, np.int64), *listed])
    return np.where(columns >= 0, values[:, columns], 0).astype(np.float32)


#: Part of the body's size below which displacements of the skin are skipped: micrometres.
UNSEEN = 2e-6


class RuntimeModel:
    """Tables of a model for the kernels, read only.

    Bases between poses rotate as the rest shape does if `frames` is ``"followed"``, and by the
    poses' weights alone if it is ``"blended"``; see `rest_shape_rotations`.

    Attributes
    ----------
    poses, elastic, inertial, frames, skin
        Tables for the kernels.
    placement
        Placement of `vertices` by the rig; each thread forks it.
    vertices
        (k,) tet vertices of the elastic and inertial cubature, which a step places.
    carriers
        (b,) tet vertices in which the skin is embedded and that a basis moves.
    size, unseen
        Size of the body, and the largest invisible displacement, in m.
    least_damping
        Factor on β where flesh is damped least; see `local_damping`.
    tops, peaks
        (m, r) and (r,) largest displacement of a vertex for a unit of each column, at each of the
        poses, and at any.
    spread
        Largest displacement of a skin vertex whose carriers move by 1.
    """

    #: Name of the engine in `supple.engines.ENGINES`.
    engine: ClassVar[str] = "pose-space"

    def __init__(self, model: PoseSpaceModel, *, frames: Frames = "followed") -> None:
        if frames not in ("followed", "blended"):
            raise SuppleError(f"frames is {frames!r}; use followed or blended")
        self.model, self.turning = model, frames
        self.n_poses, self.n_modes = model.n_poses, model.n_modes
        self.least_damping = 1.0
        self.size = float(model.surface.size)
        self.unseen = UNSEEN * self.size
        self.kind = material_number(model.material_kind)
        corners = model.mesh.tets[model.elastic_tets]
        self.vertices = np.unique(np.concatenate([corners.ravel(), model.inertial_vertices]))
        self._places = np.full((len(model.bases), len(model.mesh.vertices)), -1, np.int64)
        for place, listed in zip(self._places, model.basis_vertices, strict=True):
            place[listed] = np.arange(len(listed))
        # Vertices that a basis moves and in which the skin is embedded.
        bearing = model.embedding_vertices[model.embedding_weights != 0]
        self.carriers = np.intersect1d(model.rotation_vertices, bearing)
        squares = [(basis.astype(np.float64) ** 2).sum(axis=2) for basis in model.bases]
        self.tops = np.concatenate([np.sqrt(each.max(axis=1)) for each in squares], axis=1)
        self.peaks = self.tops.max(axis=0)
        self._stored, self._steps = _stored_bases(model)
        self.poses = self._pose_tables()
        self.elastic = self._elastic_tables(corners)
        self.inertial = self._inertial_tables()
        self.skin = self._surface_tables()
        # Skin outside of the tets has negative weights, and may move farther than its carriers.
        self.spread = float(np.abs(self.skin.shares).sum(axis=1).max(initial=1.0))
        self.normalise = bool(model.pose_weights.normalise)
        self.placement = CharacterPlacement(model.rig, model.tet_rig, self.vertices)
        follows = frames == "followed" and self.in_frames and self.n_poses > 1
        if follows and len(self.elastic.corners):
            self.frames = frame_tables(model, self.elastic.corners, self.vertices, self.carriers)
        else:
            self.frames = no_frame_tables(self.n_poses)

    @classmethod
    def of(
        cls, model: PoseSpaceModel | RuntimeModel, *, frames: Frames = "followed"
    ) -> RuntimeModel:
        """Return the tables of a model; tables with the same frames are returned unchanged."""
        if isinstance(model, RuntimeModel):
            if frames != model.turning:
                raise SuppleError(f'these tables have frames "{model.turning}", not "{frames}"')
            return model
        if not isinstance(model, PoseSpaceModel):
            raise SuppleError(
                f"a simulator needs a PoseSpaceModel, not {type(model).__name__}; see supple.build"
            )
        return cls(model, frames=frames)

    @property
    def in_frames(self) -> bool:
        """Whether the model's interpolation is "frames"; otherwise it is "world"."""
        return self.model.interpolation == "frames"

    def _reached(self, vertices: NDArray) -> NDArray[np.bool_]:
        """Return whether each region reaches each of the vertices, (…, regions)."""
        return np.moveaxis(self._places[:, vertices] >= 0, 0, -1)

    def basis_rows(self, vertices: NDArray) -> NDArray:
        """Return basis rows (m, k, 3, r) of tet vertices (k,), dense."""
        return self._dense_rows(self.model.bases, vertices)

    def vertex_rotations(self, vertices: NDArray) -> Floats:
        """Return rotations (m, k, 3, 3) of the basis rows of tet vertices (k,) at the poses."""
        quaternions = self._vertex_quaternions(vertices)
        if not quaternions.size:
            return np.broadcast_to(np.eye(3), (self.n_poses, len(vertices), 3, 3))
        return to_matrix(quaternions.reshape(self.n_poses, -1, 4))

    def _dense_rows(self, bases: Sequence[NDArray], vertices: NDArray) -> NDArray:
        kind = bases[0].dtype if bases else np.float32
        out = np.zeros((self.n_poses, len(vertices), 3, self.n_modes), kind)
        for place, basis, columns in zip(self._places, bases, self.model.columns, strict=True):
            at = place[vertices]
            inside = at >= 0
            out[:, inside, :, columns] = basis[:, at[inside]]
        return out

    def _vertex_quaternions(self, vertices: NDArray) -> Singles:
        """Return quaternions (m, 4k) of vertices, (m, 0) for "world"; identity without a basis."""
        model = self.model
        if model.rotations is None:
            return np.zeros((self.n_poses, 0), np.float32)
        out = np.zeros((self.n_poses, len(vertices), 4), np.float32)
        out[..., 3] = 1
        at = np.searchsorted(model.rotation_vertices, vertices)
        at = np.minimum(at, len(model.rotation_vertices) - 1)
        matched = model.rotation_vertices[at] == vertices
        out[:, matched] = model.rotations[:, at[matched]]
        return out.reshape(self.n_poses, -1)

    def _pose_tables(self) -> PoseTables:
        model, weights = self.model, self.model.pose_weights
        packed = self.n_modes * (self.n_modes + 1) // 2
        corrections, energies = model.stiffness_corrections, model.trained_energies
        if corrections is None:
            corrections = np.zeros((0, packed), np.float32)
        return PoseTables(
            weights.scales,
            weights.scaled_poses,
            weights.matrix,
            weights.constant,
            self._vertex_quaternions(self.vertices),
            model.mass_products,
            corrections,
            model.correction_ends.astype(np.int64).reshape(-1, 2),
            np.zeros(0) if energies is None else energies.astype(np.float64),
            np.zeros((0, packed), np.float32),
        )

    def _elastic_tables(self, corners: NDArray) -> ElasticTables:
        model = self.model
        reached = np.asarray(self._reached(corners).any(axis=1))
        order, groups = group_by_regions(reached, model.columns, 12)
        order = order[: groups.first[-1]]  # tets that no basis moves have no stress
        corners = corners[order]
        dense = self._dense_rows(self._stored, corners.ravel())
        dense = dense.reshape(self.n_poses, len(order), 12, self.n_modes)
        tets = model.elastic_tets[order]
        poses = self.n_poses if model.material_varies else 0
        young, poisson = (
            self._per_pose(each, tets)[:poses] for each in (model.young, model.poisson)
        )
        parameters = model.material(0).element_parameters(len(model.mesh.tets))[tets]
        return ElasticTables(
            basis_blocks(groups, dense),
            block_columns(groups, self._steps),
            *groups,
            np.searchsorted(self.vertices, corners),
            model.elastic_weights[:, order].astype(np.float64),
            model.mesh.volumes()[tets],
            np.ascontiguousarray(parameters),
            self._moduli(model.material(0), tets),
            young,
            poisson,
        )

    def _moduli(self, material: Material, tets: NDArray) -> Floats:
        """Return Lamé's μ and λ (c, 2) of tets; none unless the model stores K₀."""
        if self.model.trained_energies is None:
            return np.zeros((0, 2))
        count = len(self.model.mesh.tets)
        mu, lam = lame_parameters(material.young, material.poisson)
        return np.stack([np.broadcast_to(each, count)[tets] for each in (mu, lam)], axis=1)

    def _per_pose(self, value: object, tets: NDArray) -> Floats:
        array = np.asarray(value, np.float64)
        if array.ndim:
            array = array[..., tets]
        return np.ascontiguousarray(np.broadcast_to(array, (self.n_poses, len(tets))))

    def _inertial_tables(self) -> InertialTables:
        model = self.model
        vertices = model.inertial_vertices
        plain = self.basis_rows(vertices)
        rows = plain * model.inertial_weights[:, :, None, None]
        if model.inertial_corrections is not None:
            rows = rows + model.inertial_corrections
        reached = np.stack(
            [(rows[..., c] != 0).any(axis=(0, 2, 3)) for c in model.columns], axis=-1
        )
        reached |= self._reached(vertices)
        order, groups = group_by_regions(reached, model.columns, 3)
        order = order[: groups.first[-1]]
        masses = ElasticBody(model.mesh, model.material(0)).vertex_masses()
        return InertialTables(
            basis_blocks(groups, rows[:, order].astype(np.float32)),
            basis_blocks(groups, self._dense_rows(self._stored, vertices[order])),
            block_columns(groups, self._steps),
            *groups,
            np.searchsorted(self.vertices, vertices[order]),
            masses[vertices[order]],
        )

    def _surface_tables(self) -> SurfaceTables:
        model = self.model
        # Vertices without a region use the last row, which stays zero.
        lookup = np.full(len(model.mesh.vertices), len(self.carriers), np.int64)
        lookup[self.carriers] = np.arange(len(self.carriers))
        blocks, listed = [], []
        for vertices, stored in zip(model.basis_vertices, self._stored, strict=True):
            used = np.isin(vertices, self.carriers)
            listed.append(vertices[used])
            columns_first = stored[:, used].transpose(0, 3, 1, 2)  # (m, r, k, 3)
            blocks.append(np.ascontiguousarray(columns_first).reshape(-1))
        starts = [0, *np.cumsum([len(block) for block in blocks])]
        counts = [0, *np.cumsum([len(each) for each in listed])]
        columns = [0, *(c.stop for c in model.columns)]
        shares = model.embedding_weights.astype(np.float64)
        shares[:, 0] = 1 - shares[:, 1:].sum(axis=1)
        return SurfaceTables(
            np.concatenate(blocks),
            self._steps,
            self.tops,
            np.array(starts, np.int64),
            np.array(columns, np.int64),
            np.array(counts, np.int64),
            np.concatenate([lookup[each] for each in listed]),
            self._vertex_quaternions(self.carriers),
            lookup[model.embedding_vertices].astype(np.int32),
            shares.astype(np.float32),
        )


def _stored_bases(model: PoseSpaceModel) -> tuple[list[NDArray], Singles]:
    """Return bases as int16 steps or float32, and the length of a step of each column, (m, r)."""
    if model.basis_bits != 16:
        return list(model.bases), np.ones((model.n_poses, model.n_modes), np.float32)
    packed = [packed_basis(basis) for basis in model.bases]
    exponents = np.concatenate([each for _, each in packed], axis=1).astype(np.int32)
    return [steps for steps, _ in packed], np.ldexp(np.float32(1), exponents).astype(np.float32)


def stiffened(runtime: RuntimeModel, factors: Floats) -> RuntimeModel:
    """Return tables of the same model with factors (T,) on Young's modulus of each tet.

    Cubature tets use their factors. The correction ΔK, or K₀, is scaled to S ΔK S, with sᵢ² the
    ratio of K̂ᵢᵢ with factors to K̂ᵢᵢ without. Modes and cubature do not change; a model
    built with these stiffnesses is more accurate.
    """
    model = runtime.model
    material, tets = model.material(0), _cubature_tets(runtime)
    stiffer = replace(material, young=factors * np.asarray(material.young))
    parameters = stiffer.element_parameters(len(model.mesh.tets))[tets]
    elastic = runtime.elastic
    tables = copy.copy(runtime)
    tables.elastic = elastic._replace(
        parameters=np.ascontiguousarray(parameters),
        moduli=runtime._moduli(stiffer, tets),
        young=elastic.young * factors[tets],
    )
    poses = runtime.poses
    if len(poses.corrections):
        scales = _column_scales(runtime, factors[tets], tets)
        ends, (i, j) = poses.ends, np.triu_indices(runtime.n_modes)
        rows = np.concatenate([scales, 0.5 * (scales[ends[:, 0]] + scales[ends[:, 1]])])
        corrections = (poses.corrections * rows[:, i] * rows[:, j]).astype(np.float32)
        energies = poses.trained_energies
        if len(energies):  # they grow with the stiffness, so that the range of displacements stays
            diagonals = (each[: len(scales), i == j] for each in (poses.corrections, corrections))
            before, after = (each.sum(axis=1, dtype=np.float64) for each in diagonals)
            energies = energies * after / before
        tables.poses = poses._replace(corrections=corrections, trained_energies=energies)
    return tables


def _cubature_tets(runtime: RuntimeModel) -> np.ndarray:
    """Return the tets (c,) of the mesh in the order of the elastic tables."""
    model = runtime.model
    corners = runtime.vertices[runtime.elastic.corners]
    place = {tuple(model.mesh.tets[tet]): tet for tet in model.elastic_tets.tolist()}
    return np.array([place[tuple(each)] for each in corners], np.int64)


def _column_scales(runtime: RuntimeModel, factors: Floats, tets: np.ndarray) -> Floats:
    """Return the factors s (m, r) of the columns at each pose; see `stiffened`."""
    energies = _mode_energies(runtime, tets)
    before, after = energies.sum(axis=1), (energies * factors[:, None]).sum(axis=1)
    positive = before > 0
    squares = np.divide(after, before, out=np.ones_like(before), where=positive)
    return np.sqrt(np.where(positive, squares, 1.0))


def _mode_energies(runtime: RuntimeModel, tets: np.ndarray) -> Floats:
    """Return parts (m, c, r) of each cubature tet in the diagonal of K̂, at small strain."""
    model = runtime.model
    gradients = hat_gradients(model.mesh)[tets]
    basis = runtime.basis_rows(model.mesh.tets[tets].ravel())
    basis = basis.reshape(runtime.n_poses, len(tets), 4, 3, runtime.n_modes)
    energies = np.empty((runtime.n_poses, len(tets), runtime.n_modes))
    young, poisson = (
        np.broadcast_to(value, (len(model.mesh.tets),))[tets]
        for value in (model.material(0).young, model.material(0).poisson)
    )
    shear = young / (2 * (1 + poisson))
    volume = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    for pose, rows in enumerate(basis):
        slope = np.einsum("caj,cair->cijr", gradients, rows)
        strain = 0.5 * (slope + slope.transpose(0, 2, 1, 3))
        squares = 2 * shear[:, None] * (strain**2).sum(axis=(1, 2))
        spread = volume[:, None] * np.einsum("ciir->cr", strain) ** 2
        weights = runtime.elastic.weights[pose] * runtime.elastic.volumes
        energies[pose] = weights[:, None] * (squares + spread)
    return energies
