"""Painted materials: on the skin or on the tets, once or in each pose (xu2016 §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_number, numbers
from supple.elastic.material import Material
from supple.errors import SuppleError, warn
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.embedding import locate
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import OUTWARD_FACES, TetMesh
from supple.mesh.topology import counted, row_keys

# From values on some tets to all of them: smooth, and never out of range (xu2016 eq. 37).


#: ζ of xu2016 eq. 37. Weights of neighbours are 1 on average, so that it is a pure number: a tet
#: of another value than its four neighbours keeps 1 / (1 + 2 ζ) of the difference.
SMOOTHNESS = 0.1
#: Range of ζ: beyond it the system is nearly singular.
LEAST_SMOOTHNESS, MOST_SMOOTHNESS = 1e-6, 1e6


def tet_graph_laplacian(mesh: TetMesh) -> sp.csr_array:
    """Return the volume-weighted Laplacian L (T, T) of tets that share a face (xu2016 eq. 37).

    The weight of two neighbours of volumes a and b is (a + b) / 2, relative to the mesh's mean. L
    is symmetric, its rows sum to 0, and its off-diagonal entries are not positive.
    """
    one, other = _neighbours(mesh)
    volumes = np.abs(mesh.volumes())
    mean = float(volumes.mean())
    if not mean > 0:
        raise SuppleError("no tet has a volume; nothing can be painted on them")
    # Flat tets of no volume must not disconnect the body.
    ties = np.maximum(0.5 * (volumes[one] + volumes[other]) / mean, 1e-3)
    n = len(mesh.tets)
    off = sp.coo_array((ties, (one, other)), (n, n))
    off = sp.csr_array(off + off.T)
    return sp.csr_array(sp.diags_array(np.asarray(off.sum(axis=1)).ravel()) - off)


def _neighbours(mesh: TetMesh) -> tuple[Ints, Ints]:
    """Return the two tets of each pair with a common face, each pair once."""
    faces = np.sort(mesh.tets[:, OUTWARD_FACES].reshape(-1, 3), axis=1)
    keys = row_keys(faces, len(mesh.vertices))
    order = np.argsort(keys, kind="stable")
    tet = order // 4
    same = keys[order[1:]] == keys[order[:-1]]
    one, other = tet[:-1][same], tet[1:][same]
    # A damaged mesh may have a face twice in one tet, or a pair of tets with two faces.
    pairs = np.unique(np.sort(np.stack([one, other], axis=1)[one != other], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


class TetFit:
    """Fit of values on points of a body to all its tets; `tets` (k,) contain the points."""

    def __init__(self, mesh: TetMesh, tets: Ints, smoothness: float, *, logarithms: bool) -> None:
        zeta = checked_number("smoothness", smoothness)
        if not LEAST_SMOOTHNESS <= zeta <= MOST_SMOOTHNESS:
            raise SuppleError(
                f"smoothness is {zeta:g}; use {LEAST_SMOOTHNESS:g} to {MOST_SMOOTHNESS:g}"
            )
        self.tets, self.logarithms = tets, logarithms
        # Half of eq. 37's gradient: (E − Ē) on painted tets + ζ/2 L E.
        self.smoothing = sp.csr_array(0.5 * zeta * tet_graph_laplacian(mesh))
        self.parts: Ints = connected_components(self.smoothing, directed=False)[1]
        self._solver: SparseCholesky | None = None
        self._held = np.zeros(0, bool)

    def __call__(self, values: Floats, painted: Bools) -> Floats:
        """Return values (T,) of all tets, fitted to values (k,) of the painted points (k,)."""
        tets, values = self.tets[painted], values[painted]
        # Differences from one of the values: exactly zero if all are equal.
        origin = values[0]
        apart = np.log(values) - np.log(origin) if self.logarithms else values - origin
        uses = np.bincount(tets, minlength=len(self.parts))
        sums = np.bincount(tets, apart, minlength=len(self.parts))
        target = sums / np.maximum(uses, 1)
        held = uses > 0
        blank = ~np.isin(self.parts, np.unique(self.parts[held]))
        if blank.any():
            n_parts = len(np.unique(self.parts[blank]))
            warn(
                f"nothing is painted on {counted(int(blank.sum()), 'tet')} in "
                f"{counted(n_parts, 'loose part')} (first: tet {int(np.argmax(blank))}); they "
                "get the mean of the painted values"
            )
            target[blank] = target[held].mean()
        fitted = self._solve(held | blank, target)
        low, high = values.min(), values.max()
        # The matrix is an M-matrix: values stay in the range, up to rounding.
        return np.clip(origin * np.exp(fitted) if self.logarithms else origin + fitted, low, high)

    def _solve(self, held: Bools, target: Floats) -> Floats:
        if self._solver is None or not np.array_equal(held, self._held):
            matrix = sp.csr_array(self.smoothing + sp.diags_array(held.astype(np.float64)))
            matrix.sort_indices()
            self._solver = self._solver or SparseCholesky(matrix)
            self._solver.factorise(matrix)
            self._held = held
        return self._solver.solve(np.where(held, target, 0.0))


Skin: TypeAlias = SurfaceMesh | sp.csr_array
QUANTITIES = {"young": "Young's modulus", "poisson": "Poisson's ratio"}


def painted_material(
    mesh: TetMesh,
    skin: Skin,
    values: ArrayLike,
    *,
    quantity: str = "young",
    painted: ArrayLike | None = None,
    smoothness: float = SMOOTHNESS,
    on: str = "auto",
) -> Floats:
    """Return a material constant of every tet from painted values (xu2016 eq. 37).

    A tet's Ē is the mean of the painted skin vertices in it. The others follow by least squares:
    E minimises Σ (E − Ē)² over painted tets + ζ/2 EᵀLE.

    Parameters
    ----------
    mesh
        The tets, at the neutral pose.
    skin
        The painted surface, at the neutral pose, or the matrix (n̄, n) that embeds it in the tets.
    values
        (n̄,) of the skin's vertices, or (T,) of the tets, which are checked and returned. With a
        row for each pose, (m, n̄) or (m, T), the result also has a row for each pose.
    quantity
        ``"young"``, in Pa, or ``"poisson"``.
    painted
        (n̄,) or (m, n̄) mask of the painted skin vertices; all by default. Values of other
        vertices are ignored.
    smoothness
        ζ. For small ζ each painted tet keeps its value, for large ζ all values are equal.
    on
        ``"skin"`` or ``"tets"``: meaning of the values, if their number is ambiguous.

    Returns
    -------
    (T,) or (m, T) array
        In the range of the painted values, and equal to them if all are equal.

    Raises
    ------
    SuppleError
        For a value that is not finite or not valid, naming its vertex; for a wrong
        number of values; when nothing is painted.

    Warns
    -----
    SuppleWarning
        If parts of the body touch no painted tet: they get the mean of the painted values.

    Notes
    -----
    Young's moduli are averaged and fitted as logarithms. Least squares of the moduli themselves
    would lose fat of 10³ Pa next to bone of 10⁶ Pa.

    Examples
    --------
    >>> from supple.scenes import beam
    >>> bar = beam(cells=(4, 2, 2))
    >>> skin, _ = bar.surface()
    >>> painted_material(bar, skin, np.full(len(skin.vertices), 3e4))[:3]
    array([30000., 30000., 30000.])
    """
    if quantity not in QUANTITIES:
        raise SuppleError(f'cannot paint "{quantity}"; use {", ".join(QUANTITIES)}')
    rows, single = _rows(quantity, values)
    if not (isinstance(skin, SurfaceMesh) or sp.issparse(skin)):
        raise SuppleError("painting needs the surface, or the matrix that embeds it in the tets")
    n_skin = len(skin.vertices) if isinstance(skin, SurfaceMesh) else skin.shape[0]
    if _painted_on(quantity, rows.shape[1], n_skin, len(mesh.tets), on) == "tets":
        if painted is not None:
            raise SuppleError(f"{quantity} is given for every tet; leave out `painted`")
        _check_values(quantity, rows, np.ones(rows.shape, bool), "tet", single)
        return rows[0].copy() if single else rows.copy()
    masks = _masks(painted, rows.shape)
    _check_values(quantity, rows, masks, "vertex", single)
    fit = TetFit(mesh, _tets_of(skin, mesh), smoothness, logarithms=quantity == "young")
    fields = np.array([fit(row, mask) for row, mask in zip(rows, masks, strict=True)])
    return fields[0] if single else fields


def pose_materials(
    material: Material,
    mesh: TetMesh,
    skin: Skin,
    n_poses: int,
    *,
    young: ArrayLike | None = None,
    poisson: ArrayLike | None = None,
    painted: ArrayLike | None = None,
    smoothness: float = SMOOTHNESS,
    on: str = "auto",
) -> tuple[Material, ...]:
    """Return the material at each of the poses, with painted values.

    E(pᵢ) of each pose is fitted to its painted values (xu2016 eq. 37); between poses they blend,
    E(p) = Σ wᵢ(p) E(pᵢ) (eq. 36), see `interpolated_material`.

    Parameters
    ----------
    material
        Kind, density, and constants that are not painted.
    mesh, skin, painted, smoothness, on
        As for `painted_material`.
    n_poses
        m.
    young, poisson
        Painted values: (n̄,) or (T,) for all poses, (m, n̄) or (m, T) for each; None for the
        constants of `material`.

    Returns
    -------
    tuple of m Materials
        The same object at all poses if nothing depends on the pose.
    """
    if not isinstance(material, Material):
        raise SuppleError(f"painting needs a Material, not {material!r}")
    if young is None and poisson is None:
        return (material,) * n_poses
    if not material.isotropic:
        raise SuppleError(f"an {material.kind} material cannot be painted; give it values per tet")
    constants = {"young": numbers("young", material.young)}
    constants["poisson"] = numbers("poisson", material.poisson)
    per_pose = False
    for quantity, values in (("young", young), ("poisson", poisson)):
        if values is None:
            continue
        field = painted_material(
            mesh, skin, values, quantity=quantity, painted=painted, smoothness=smoothness, on=on
        )
        if field.ndim == 2 and len(field) != n_poses:
            raise SuppleError(
                f"{quantity} is painted for {counted(len(field), 'pose')}, and there are "
                f"{n_poses}; give one row for each pose, or one for all"
            )
        constants[quantity], per_pose = field, per_pose or field.ndim == 2
    rows = [
        [field[pose] if field.ndim == 2 else field for field in constants.values()]
        for pose in range(n_poses if per_pose else 1)
    ]
    made = tuple(replace(material, young=one, poisson=other) for one, other in rows)
    return made if per_pose else made * n_poses


def interpolated_material(materials: Sequence[Material], weights: ArrayLike) -> Material:
    """Return the material between poses: E(p) = Σ wᵢ(p) E(pᵢ) (xu2016 eq. 36).

    Pose weights sum to 1, but some may be negative; a tet's constant is clipped to the range of its
    values at the poses.
    """
    first = materials[0]
    shares = numbers("weights of poses", weights)
    if shares.shape != (len(materials),) or not np.isfinite(shares).all():
        raise SuppleError(f"weights of poses: give {len(materials)} finite numbers, one each")
    if all(material is first for material in materials):
        return first
    mixed: dict[str, Floats] = {}
    for quantity in QUANTITIES:
        constants = [numbers(quantity, getattr(material, quantity)) for material in materials]
        stack = np.stack(np.broadcast_arrays(*constants))
        blend = np.tensordot(shares, stack, axes=1)
        mixed[quantity] = np.clip(blend, stack.min(axis=0), stack.max(axis=0))
    return replace(first, young=mixed["young"], poisson=mixed["poisson"])


def _tets_of(skin: Skin, mesh: TetMesh) -> Ints:
    """Return the tet that contains each of the skin's vertices."""
    if isinstance(skin, SurfaceMesh):
        return locate(skin.vertices, mesh).tet
    if skin.shape[1] != len(mesh.vertices):
        raise SuppleError(
            f"the embedding is for {skin.shape[1]} tet vertices, not {len(mesh.vertices)}"
        )
    matrix = sp.csr_array(skin)
    if (np.diff(matrix.indptr) == 4).all():  # `embed` weights the corners of one tet
        n = len(mesh.vertices)
        embedded = row_keys(np.sort(matrix.indices.reshape(-1, 4).astype(np.int64), axis=1), n)
        keys = row_keys(np.sort(mesh.tets, axis=1), n)
        order = np.argsort(keys, kind="stable")
        tets = order[np.minimum(np.searchsorted(keys[order], embedded), len(keys) - 1)]
        if np.array_equal(keys[tets], embedded):
            return tets
    return locate(matrix @ mesh.vertices, mesh).tet


def _rows(quantity: str, values: ArrayLike) -> tuple[Floats, bool]:
    """Return values with a row for each pose, and whether one row was given for all poses."""
    array = numbers(f"painted {quantity}", values)
    if array.ndim == 0:
        example = f"material=Material(…, {quantity}={array:g})"
        raise SuppleError(f"painted {quantity} is one number; for a uniform body use {example}")
    if array.ndim not in (1, 2) or array.size == 0:
        raise SuppleError(
            f"painted {quantity} has shape {array.shape}; give a value for each vertex of the "
            "surface or each tet, or a row of them for each pose"
        )
    return np.atleast_2d(array), array.ndim == 1


def _painted_on(quantity: str, count: int, n_skin: int, n_tets: int, on: str) -> str:
    if on not in ("auto", "skin", "tets"):
        raise SuppleError(f'on is "{on}"; use "skin", "tets" or "auto"')
    fits = [name for name, size in (("skin", n_skin), ("tets", n_tets)) if size == count]
    if on in fits:
        return on
    if on == "auto" and len(fits) == 1:
        return fits[0]
    if on == "auto" and fits:
        raise SuppleError(
            f'the skin has {count} vertices and the body as many tets; give on="skin" or on="tets"'
        )
    raise SuppleError(
        f"painted {quantity} has {count} values; the surface has {n_skin} vertices and the body "
        f"{n_tets} tets: paint again on this surface"
    )


def _masks(painted: ArrayLike | None, shape: tuple[int, ...]) -> Bools:
    if painted is None:
        return np.ones(shape, bool)
    try:
        mask = np.asarray(painted)
    except ValueError:
        raise SuppleError("painted must be True or False for each vertex") from None
    if mask.dtype.kind != "b" or mask.shape not in (shape, shape[1:]):
        raise SuppleError(
            f"painted must be True or False for each of {shape[1]} vertices, not "
            f"{mask.dtype} of shape {mask.shape}"
        )
    masks = np.broadcast_to(mask, shape)
    if not masks.any(axis=1).all():
        raise SuppleError("no vertex is painted; paint some, or leave the painting out")
    return masks


def _check_values(quantity: str, rows: Floats, masks: Bools, noun: str, single: bool) -> None:
    if quantity == "young":
        right, rule = (rows > 0) & np.isfinite(rows), "must be positive and finite, in Pa"
    else:
        right, rule = (rows > -1) & (rows < 0.5), "must lie between -1 and 0.5"
    wrong = masks & ~right
    if not wrong.any():
        return
    pose, place = np.argwhere(wrong)[0]
    where = "" if single else f" at pose {pose}"
    more = f" ({int(wrong.sum())} such values)" if wrong.sum() > 1 else ""
    advice = "paint it again"
    if noun == "vertex":
        advice += ", or leave it out of `painted`"
    raise SuppleError(
        f"painted {quantity}{where}: {noun} {place} is {rows[pose, place]:g}{more}; "
        f"{QUANTITIES[quantity]} {rule}; {advice}"
    )
