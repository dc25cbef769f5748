"""Fields of a pose-space model's reduction: their declaration, and the rules that they satisfy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Singles
from supple.checks import checked_whole_numbers
from supple.engines.common.accuracy import Accuracy
from supple.engines.common.flesh_fields import (
    FLESH_SCHEMA,
    UNIT_TOLERANCE,
    FleshFields,
    distinct_indices,
    frozen,
    stored_array,
)
from supple.engines.pose_space.model.reduction_schema import REDUCTION_SCHEMA, rounded_basis
from supple.errors import SuppleError
from supple.reduction.regions.region import Region
from supple.rig.stored.field_reader import Field, Values
from supple.rig.stored.packed_arrays import rounded

Ints = NDArray[np.int32]
Interpolation = Literal["frames", "world"]

INTERPOLATIONS = ("frames", "world")
EXTRA_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+", re.ASCII)
EXTRA_TYPES = (np.float32, np.float64, np.int32, np.uint16, np.uint8)
LONGEST_REPORT = 1_000_000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelFields(FleshFields):
    """Fields of a pose-space model: its flesh (see `FleshFields`), and the reduction.

    All fields are checked and rounded as the fields of the flesh are.

    Attributes
    ----------
    interpolation
        ``"frames"``: bases are blended in the neutral pose's frames and rotated by the blended
        rotations of the vertices. ``"world"``: bases are blended as in the paper.
    regions
        Parts of the body, each with a basis. The r columns belong to one region after another.
    basis_vertices
        For each region (k,) vertices at which its basis is stored, ascending: all that carry the
        skin or a cubature point.
    bases
        For each region (m, k, 3, r_ρ), the aligned bases U_i, or R_iᵀ U_i for ``"frames"``.
    rotations
        (m, b, 4) quaternions (x, y, z, w) from the neutral pose to each pose, at
        `rotation_vertices`; None if interpolation is ``"world"``.
    root_eigenvalues
        (r,) λ of the neutral pose's columns, in rad²/s².
    mass_products
        (m(m+1)/2, r(r+1)/2) terms of the reduced mass matrix (xu2016 eq. 16). A row for each
        pair of poses i ≤ j, in the order 00, 01, …, 11, 12, …: U_iᵀMU_j, plus its
        transpose where i < j, of which the upper triangle is stored, row by row.
    elastic_tets, elastic_weights
        (c,) tets of the elastic cubature (xu2016 eq. 21), and (m, c) weights, not negative.
    stiffness_corrections, correction_ends
        (m + k, r(r+1)/2), (k, 2) ΔK, the error of this cubature in the reduced stiffness at rest,
        at the poses and at pairs of poses, upper triangles row by row; see
        `supple.reduction.blended_correction`. None and empty for the paper's cubature.
    trained_energies
        (m,) largest ½qᵀK₀q, in J, of the motions that trained the cubature. The corrections are
        then K₀, the whole reduced stiffness at rest, and cubature has the nonlinear forces only.
        None for cubature of random samples.
    inertial_vertices, inertial_weights
        (c′,) vertices of the inertial cubature (xu2016 eq. 23), and (m, c′) weights, not negative.
    inertial_corrections
        (m, c′, 3, r) corrections of the weighted basis rows of those vertices, in the same
        frames as the bases; None for the paper's cubature.
    parents
        (m,) the alignment tree: −1 for pose 0.
    basis_bits
        16: `bases` are rounded to 16 bits (see `reduction_schema`), which halves the file. 32: they
        are rounded to float32.
    seed
        Seed of the cubature's samples.
    report
        Figures of the build, as JSON values; equal for equal seeds.
    extras
        Arrays of other engines, named "<engine>.<name>".
    """

    engine: ClassVar[str] = "pose-space"
    schema: ClassVar[tuple[Field, ...]] = (*FLESH_SCHEMA, *REDUCTION_SCHEMA)

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
    trained_energies: Singles | None = None
    inertial_vertices: Ints
    inertial_weights: Singles
    inertial_corrections: Singles | None = None
    parents: Ints
    basis_bits: Literal[16, 32] = 16
    seed: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, NDArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(_checked(self))


def _checked(model: ModelFields) -> Values:
    """Return all fields of a reduction in the precision of files; refuse contradictory fields."""
    if model.interpolation not in INTERPOLATIONS:
        raise SuppleError(f'interpolation "{model.interpolation}"; use frames or world')
    fields: Values = {"parents": checked_tree(model.parents, model.n_poses)}
    fields |= _bases(model)
    fields |= _cubature(model, fields)
    _check_stored(model, fields)
    (seed,) = checked_whole_numbers("seed", [model.seed])
    if not 0 <= seed < 2**63:
        raise SuppleError(f"seed {seed}; use a whole number from 0 to 2⁶³ − 1")
    report, extras = checked_report(model.report), checked_extras(model.extras)
    return fields | {"seed": seed, "report": report, "extras": extras}


def _bases(model: ModelFields) -> Values:
    n, m = len(model.mesh.vertices), model.n_poses
    regions = tuple(rounded_region(region, n, model.fixed) for region in model.regions)
    if not regions or not len(regions) == len(model.bases) == len(model.basis_vertices):
        counts = f"{len(model.bases)} bases and {len(model.basis_vertices)} lists of vertices"
        raise SuppleError(f"{counts} for {len(regions)} regions; each region needs one")
    stored = tuple(
        _stored_vertices(region.name, region.vertices, listed)
        for region, listed in zip(regions, model.basis_vertices, strict=True)
    )
    bases = []
    for region, listed, basis in zip(regions, stored, model.bases, strict=True):
        what = f'basis of region "{region.name}"'
        shape = np.shape(basis)
        if len(shape) != 4 or shape[:3] != (m, len(listed), 3) or shape[3] < 1:
            raise SuppleError(f"{what}: shape {shape}; expected ({m}, {len(listed)}, 3, modes)")
        bases.append(_rounded(stored_array(what, basis, shape), model.basis_bits))
    r = sum(basis.shape[3] for basis in bases)
    eigenvalues = stored_array("eigenvalues", model.root_eigenvalues, (r,), double=True)
    if eigenvalues.min() < 0:
        raise SuppleError(f"an eigenvalue is {eigenvalues.min():.3g}; none may be negative")
    return {
        "regions": regions,
        "basis_vertices": stored,
        "bases": tuple(bases),
        "basis_bits": int(model.basis_bits),
        "rotations": _rotations(model, m, len(np.unique(np.concatenate(stored)))),
        "root_eigenvalues": eigenvalues,
        "mass_products": _products(model, m, r),
    }


def _rounded(basis: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    if bits not in (16, 32):
        raise SuppleError(f"bases of {bits!r} bits; use 16 or 32")
    return frozen(rounded_basis(basis)) if bits == 16 else basis


def _stored_vertices(name: str, vertices: NDArray, listed: Any) -> Ints:
    what = f'vertices of the basis of region "{name}"'
    stored = distinct_indices(what, listed, int(vertices[-1]) + 1)
    if (np.diff(stored) < 0).any() or not np.isin(stored, vertices).all():
        raise SuppleError(f"{what} must be vertices of the region, ascending")
    return stored


def _rotations(model: ModelFields, m: int, b: int) -> NDArray[np.float32] | None:
    if model.interpolation == "world":
        if model.rotations is not None:
            raise SuppleError("a model with interpolation 'world' has no rotations")
        return None
    if model.rotations is None:
        raise SuppleError("a model with interpolation 'frames' needs rotations")
    quaternions = stored_array("vertex rotations", model.rotations, (m, b, 4))
    lengths = np.linalg.norm(quaternions, axis=2)
    if lengths.size and not np.abs(lengths - 1).max() < UNIT_TOLERANCE:
        raise SuppleError("vertex rotations must be unit quaternions")
    if not np.allclose(quaternions[0], [0, 0, 0, 1], rtol=0, atol=UNIT_TOLERANCE):
        raise SuppleError("vertex rotations of the neutral pose must be the identity, (0, 0, 0, 1)")
    exact = quaternions.copy()
    exact[0] = [0, 0, 0, 1]
    return frozen(exact)


def _products(model: ModelFields, m: int, r: int) -> NDArray[np.float32]:
    products = stored_array(
        "mass products", model.mass_products, (m * (m + 1) // 2, r * (r + 1) // 2)
    )
    i, j = np.triu_indices(m)
    diagonal = products[np.flatnonzero(i == j)]
    row, column = np.triu_indices(r)
    if not diagonal[:, row == column].min() > 0:
        raise SuppleError("a column of a basis has no mass; build the model again")
    return products


def _cubature(model: ModelFields, fields: Values) -> Values:
    mesh, m = model.mesh, model.n_poses
    checked: Values = {}
    for kind, points, count in (
        ("elastic", "tets", len(mesh.tets)),
        ("inertial", "vertices", len(mesh.vertices)),
    ):
        what = f"{kind} cubature"
        chosen = distinct_indices(what, getattr(model, f"{kind}_{points}"), count)
        weights = getattr(model, f"{kind}_weights")
        weights = stored_array(f"weights of the {what}", weights, (m, len(chosen)))
        if weights.size and weights.min() < 0:
            raise SuppleError(f"{what}: a weight is {weights.min():.3g}; none may be negative")
        checked |= {f"{kind}_{points}": chosen, f"{kind}_weights": weights}
    r = sum(basis.shape[3] for basis in fields["bases"])
    checked |= _stiffness_corrections(model, m, r)
    rows = model.inertial_corrections
    if rows is not None:
        shape = (m, len(checked["inertial_vertices"]), 3, r)
        rows = stored_array("corrections of the inertial cubature", rows, shape)
    return checked | {"inertial_corrections": rows}


def _stiffness_corrections(model: ModelFields, m: int, r: int) -> Values:
    ends = np.asarray(model.correction_ends)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise SuppleError(f"pairs of poses of shape {ends.shape}; expected (pairs, 2) numbers")
    if ends.size and not (ends.min() >= 0 and ends.max() < m and (ends[:, 0] != ends[:, 1]).all()):
        raise SuppleError(f"a correction has a pair of poses that is not among {m} poses")
    corrections = model.stiffness_corrections
    if corrections is None and len(ends):
        raise SuppleError("there are pairs of poses, but no corrections of the stiffness")
    if corrections is not None:
        shape = (m + len(ends), r * (r + 1) // 2)
        corrections = stored_array("corrections of the stiffness", corrections, shape)
    energies = model.trained_energies
    if energies is not None:
        energies = stored_array("training energies", energies, (m,))
        if corrections is None or not energies.min() > 0:
            raise SuppleError("training energies must be positive and need stiffness corrections")
        _check_definite(corrections[:m], r)
    return {
        "stiffness_corrections": corrections,
        "correction_ends": frozen(ends.astype(np.int32)),
        "trained_energies": energies,
    }


def _check_definite(packed: Singles, r: int) -> None:
    """Refuse stiffnesses at rest (m, r(r+1)/2) that are not positive definite."""
    upper = np.triu_indices(r)
    for pose, row in enumerate(packed):
        matrix = np.zeros((r, r))
        matrix[upper] = matrix.T[upper] = row
        if not np.linalg.eigvalsh(matrix)[0] > 0:
            raise SuppleError(f"the stiffness at rest of pose {pose} is not positive definite")


def _check_stored(model: ModelFields, fields: Values) -> None:
    """Refuse a model without bases at vertices that the skin or cubature needs."""
    carrying = model.embedding_vertices[model.embedding_weights != 0]
    corners = model.mesh.tets[fields["elastic_tets"]].ravel()
    needed = np.concatenate([carrying, corners, fields["inertial_vertices"]])
    for region, stored in zip(fields["regions"], fields["basis_vertices"], strict=True):
        missing = np.setdiff1d(np.intersect1d(region.vertices, needed), stored)
        if len(missing):
            raise SuppleError(
                f'region "{region.name}" stores no basis at vertex {missing[0]}, which carries the'
                " surface or a cubature point"
            )


def rounded_region(region: Region, n_vertices: int, fixed: Ints) -> Region:
    """Return the region with weights rounded to float32; refuse unknown and fixed vertices."""
    if region.vertices[-1] >= n_vertices:
        raise SuppleError(
            f'region "{region.name}" has vertex {region.vertices[-1]}, but the mesh has only '
            f"{n_vertices} vertices (0 to {n_vertices - 1})"
        )
    if np.isin(region.vertices, fixed).any():
        raise SuppleError(f'region "{region.name}" has vertices that are fixed; remove them')
    return Region(str(region.name), region.vertices, rounded(region.weights).astype(np.float64))


def checked_tree(parents: ArrayLike, count: int) -> Ints:
    """Return parents of an alignment tree, (count,) int32, with −1 for the root, pose 0."""
    array = np.asarray(parents)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise SuppleError(f"the alignment tree needs a parent for each of {count} poses")
    tree = array.astype(np.int32)
    if tree[0] != -1 or (count > 1 and not (tree[1:].min() >= 0 and tree[1:].max() < count)):
        raise SuppleError("the alignment tree must have pose 0 as its only root")
    ancestor = np.arange(count)
    for _ in range(count):
        ancestor = np.where(ancestor > 0, tree[ancestor], 0)
    if ancestor.any():
        raise SuppleError("the alignment tree has a cycle")
    return frozen(tree)


def checked_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the report as JSON values; refuse other values and long reports."""
    try:
        text = json.dumps(report, allow_nan=False, sort_keys=True)
        figures = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise SuppleError(f"a model's report must have finite JSON values ({error})") from error
    if not isinstance(figures, dict) or len(text) > LONGEST_REPORT:
        raise SuppleError("a model's report must be a dict of less than a megabyte of JSON")
    Accuracy.of(figures)  # refuses invalid figures
    return figures


def checked_extras(extras: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Return arrays of other engines by "<engine>.<name>"; refuse unknown types."""
    checked = {}
    for name in sorted(extras):
        array = np.array(extras[name], order="C")
        if not EXTRA_NAME.fullmatch(str(name)) or len(name) > 100:
            raise SuppleError(f'extra array "{name}"; name it <engine>.<name>, in lower case')
        if array.dtype not in EXTRA_TYPES:
            raise SuppleError(
                f'extra array "{name}" is {array.dtype}; use float32, float64 or int32'
            )
        if not np.isfinite(array).all():
            raise SuppleError(f'extra array "{name}" is not finite everywhere')
        checked[name] = frozen(array)
    return checked
