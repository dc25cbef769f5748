"""The pose-space model: all that a simulation needs, and what `supple build` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Singles
from supple.checks import checked_whole_numbers
from supple.elastic.material import Material
from supple.engines.pose_space.model.fields import checked_fields
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.reduction.regions.region import Region
from supple.rig.motion.motion import Motion
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig

__all__ = ["PoseSpaceModel"]

Ints = NDArray[np.int32]
Interpolation = Literal["frames", "world"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PoseSpaceModel:
    """Reduced models of a character at several poses that agree (xu2016 §5 to §8).

    All fields are checked, brought to the precision of the model file and made read-only when
    a model is made, so that a saved and loaded one is the same to the bit. `make` also does
    that to the rigs, and takes what the stages of a build give.

    Attributes
    ----------
    name
        The character's.
    surface, rig, motions
        The skin (n̄ vertices) at the neutral pose, its rig Φ̄(p), and motions by name.
    mesh, tet_rig
        The tets (n vertices, T tets) at the neutral pose, and their rig Φ(p).
    embedding_vertices, embedding_weights
        (n̄, 4) the tet vertices that carry each vertex of the skin, and how much.
    fixed
        (f,) tet vertices that bones hold, ascending.
    material_kind, young, poisson, density
        Of `Material`. Young's modulus and Poisson's ratio are numbers, (T,), or (m, T) with a
        row for each pose (xu2016 §8); the density is a number or (T,).
    pose_weights
        The m poses, the neutral one first, their names, and how much each counts at a pose.
    interpolation
        ``"frames"``: bases are blended in the neutral pose's frames and turned by the blended
        rotations of the vertices. ``"world"``: as in the paper.
    regions
        Where bases live. Columns are the regions' columns one after another, r in all.
    basis_vertices
        For each region (k,) the vertices of it at which its basis is stored, ascending: all
        that carry the skin or a cubature point.
    bases
        For each region (m, k, 3, r_ρ), the aligned bases U_i, in frames R_iᵀ U_i.
    rotations
        (m, b, 4) quaternions (x, y, z, w) from the neutral pose to each, on `rotation_vertices`;
        None in the world.
    root_eigenvalues
        (r,) λ of the neutral pose's columns.
    mass_products
        (m(m+1)/2, r(r+1)/2) what reduced mass matrices are summed from (xu2016 eq. 16). A row
        for each pair of poses i ≤ j, in the order 00, 01, …, 11, 12, …: U_iᵀMU_j, plus its
        transpose where i < j, of which the upper triangle is kept, row by row.
    elastic_tets, elastic_weights
        (c,), (m, c) elastic cubature (xu2016 eq. 21), none negative.
    stiffness_corrections, correction_ends
        (m + k, r(r+1)/2), (k, 2) ΔK, what that cubature misses of the reduced stiffness at rest,
        of the poses and of pairs of poses, upper triangles row by row; see
        `supple.reduction.blended_correction`. None and empty for the paper's cubature.
    inertial_vertices, inertial_weights
        (c′,), (m, c′) inertial cubature (xu2016 eq. 23), none negative.
    inertial_corrections
        (m, c′, 3, r) what is added to the weighted basis rows of those vertices, in the same
        frames as the bases; None for the paper's cubature.
    parents
        (m,) the alignment tree: −1 for pose 0.
    basis_bits
        16: `bases` are rounded to that (see `basis_rounding`), which halves the file.
        32: to float32.
    seed
        Of the cubature's samples.
    report
        Figures of the build that are the same for the same seed, as JSON holds them.
    extras
        Arrays of other engines, called "<engine>.<name>".
    """

    #: Row of `supple.engines.ENGINES` that steps it.
    engine: ClassVar[str] = "pose-space"

    name: str
    surface: SurfaceMesh
    rig: Rig
    motions: Mapping[str, Motion] = field(default_factory=dict)
    mesh: TetMesh
    tet_rig: Rig
    embedding_vertices: Ints
    embedding_weights: Singles
    fixed: Ints
    material_kind: str
    young: float | Singles
    poisson: float | Singles
    density: float | Singles
    pose_weights: PoseWeights
    interpolation: Interpolation
    regions: tuple[Region, ...]
    basis_vertices: tuple[Ints, ...]
    bases: tuple[Singles, ...]
    rotations: Singles | None
    root_eigenvalues: Floats
    mass_products: Singles
    elastic_tets: Ints
    elastic_weights: Singles
    stiffness_corrections: Singles | None = None
    correction_ends: Ints = field(default_factory=lambda: np.empty((0, 2), np.int32))
    inertial_vertices: Ints
    inertial_weights: Singles
    inertial_corrections: Singles | None = None
    parents: Ints
    basis_bits: Literal[16, 32] = 16
    seed: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, NDArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in checked_fields(self).items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        counts = [
            counted(self.n_poses, "pose"),
            f"{self.n_modes} modes",
            counted(len(self.regions), "region"),
            counted(len(self.mesh.tets), "tet"),
        ]
        return f'PoseSpaceModel("{self.name}", {", ".join(counts)})'

    @classmethod
    def make(
        cls,
        *,
        rig: Rig,
        tet_rig: Rig,
        embedding: Any,
        material: Material | Sequence[Material],
        pose_weights: PoseWeights,
        regions: Sequence[Region],
        bases: Sequence[Sequence[ArrayLike]],
        rotations: ArrayLike | None,
        mass_products: ArrayLike,
        **fields: Any,
    ) -> PoseSpaceModel:
        """A model of what the stages of a build give.

        Parameters
        ----------
        rig, tet_rig
            They are stored and restored, so that they are as a file would hold them.
        embedding
            (n̄, n) sparse.
        material
            One, or one for each pose.
        pose_weights, regions
            As the class has them.
        bases
            For each pose, for each region (k_ρ, 3, r_ρ) on all its vertices; kept where they
            carry the skin or cubature.
        rotations
            (m, n, 4) of all tet vertices; None in the world.
        mass_products
            (m(m+1)/2, r, r), as `supple.engines.pose_space.mass_products` gives them.
        **fields
            The others, as the class has them.
        """
        from supple.engines.pose_space.model.built_fields import made_fields

        own = {"rig": rig, "tet_rig": tet_rig, "embedding": embedding, "material": material}
        own |= {"pose_weights": pose_weights, "regions": tuple(regions), "bases": bases}
        own |= {"rotations": rotations, "mass_products": mass_products}
        return cls(**made_fields(**own, **fields))

    @property
    def n_poses(self) -> int:
        """The number of poses, m."""
        return self.pose_weights.n_poses

    @property
    def n_modes(self) -> int:
        """Columns of all regions, r."""
        return sum(basis.shape[3] for basis in self.bases)

    @property
    def poses(self) -> Floats:
        """(m, s), the neutral one first."""
        return self.pose_weights.poses

    @property
    def pose_names(self) -> tuple[str, ...]:
        """Names of the poses."""
        return self.pose_weights.names

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """Which columns are each region's."""
        ends = np.cumsum([0, *(basis.shape[3] for basis in self.bases)]).tolist()
        return tuple(slice(*ends[k : k + 2]) for k in range(len(self.bases)))

    @cached_property
    def rotation_vertices(self) -> Ints:
        """(b,) tet vertices at which some basis is stored, ascending."""
        return np.unique(np.concatenate(self.basis_vertices))

    @cached_property
    def embedding(self) -> sp.csr_array:
        """(n̄, n): the skin's vertices from the tet vertices; rows add up to 1."""
        weights = self.embedding_weights.astype(np.float64)
        weights[:, 0] = 1 - weights[:, 1:].sum(axis=1)
        starts = np.arange(0, weights.size + 1, 4)
        shape = (len(weights), len(self.mesh.vertices))
        matrix = sp.csr_array(
            (weights.ravel(), self.embedding_vertices.ravel().copy(), starts), shape=shape
        )
        matrix.sum_duplicates()
        return matrix

    @property
    def figures(self) -> dict[str, int]:
        """Sizes: ``tets``, ``poses``, ``modes`` and ``regions``."""
        return {
            "tets": len(self.mesh.tets),
            "poses": self.n_poses,
            "modes": self.n_modes,
            "regions": len(self.regions),
        }

    def material(self, pose: int | ArrayLike | None = None) -> Material:
        """What the flesh is made of at a pose.

        Parameters
        ----------
        pose
            Its number, weights (m,) of the poses between which it is, or None for the neutral
            one.
        """
        if pose is not None and np.ndim(pose) == 1:
            from supple.anatomy.painted_material import interpolated_material

            changing = np.ndim(self.young) == 2 or np.ndim(self.poisson) == 2
            each = [self.material(i if changing else 0) for i in range(self.n_poses)]
            return interpolated_material(each if changing else each[:1] * len(each), pose)
        (index,) = checked_whole_numbers("pose", [0 if pose is None else pose])  # type: ignore[list-item]
        if not 0 <= index < self.n_poses:
            raise SuppleError(f"pose {index} is not there; the model has {self.n_poses}")
        young, poisson = (
            value[index] if np.ndim(value) == 2 else value  # type: ignore[index]
            for value in (self.young, self.poisson)
        )
        return Material(self.material_kind, young, poisson, self.density)

    def mass_product(self, i: int, j: int) -> Floats:
        """The pair's row of `mass_products` as a symmetric matrix, (r, r)."""
        i, j = min(i, j), max(i, j)
        if not 0 <= i <= j < self.n_poses:
            raise SuppleError(f"poses {i} and {j}; the model has {self.n_poses}")
        row = i * self.n_poses - i * (i - 1) // 2 + j - i
        matrix = np.empty((self.n_modes, self.n_modes))
        upper = np.triu_indices(self.n_modes)
        matrix[upper] = self.mass_products[row]
        matrix.T[upper] = self.mass_products[row]
        return matrix

    def interpolated_basis(self, pose: ArrayLike) -> Floats:
        """U(p), (3n, r), at a pose (s,): zero where it is not stored. For analysis."""
        from supple.engines.pose_space.model.built_fields import interpolated

        return interpolated(self, self.pose_weights(pose))

    def sizes(self) -> dict[str, int]:
        """Bytes that each part of the model takes in a file."""
        from supple.engines.pose_space.model.model_file import part_sizes

        return part_sizes(self)

    def save(self, path: str | Path) -> None:
        """Write the model to a file: the same model gives the same bytes; see `load`."""
        from supple.engines.pose_space.model.model_file import save_model

        save_model(self, path)

    @classmethod
    def load(cls, path: str | Path, rig: Rig | None = None) -> PoseSpaceModel:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path
            The file. All of it is checked, and nothing in it is run.
        rig
            The surface's rig, for a model of a black box (`FunctionRig`, or a class of your
            own), which no file can hold. Others bring their own, and one given must be the same.

        Raises
        ------
        SuppleError
            If the file is cut off, edited or of another version, or a rig is missing.
        """
        from supple.engines.pose_space.model.model_file import load_model

        return load_model(path, rig)
