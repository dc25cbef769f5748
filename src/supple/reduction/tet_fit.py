"""From values on some tets to all of them: smooth, and never out of range (xu2016 eq. 37)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from supple.checks import checked_number
from supple.errors import SuppleError, warn
from supple.linalg import SparseCholesky
from supple.mesh import TetMesh
from supple.mesh.tets import OUTWARD_FACES
from supple.mesh.topology import counted, row_keys

__all__ = ["SMOOTHNESS", "TetFit", "tet_laplacian"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: ζ of xu2016 eq. 37. Weights of neighbours are 1 on average, so that it is a pure number: a tet
#: of another value than its four neighbours keeps 1 / (1 + 2 ζ) of the difference.
SMOOTHNESS = 0.1
#: Beyond these the system is too close to singular for what is painted to be found again.
LEAST_SMOOTHNESS, MOST_SMOOTHNESS = 1e-6, 1e6


def tet_laplacian(mesh: TetMesh) -> sp.csr_array:
    """The volume-weighted Laplacian L (T, T) of tets that share a face (xu2016 eq. 37).

    Two neighbours of volumes a and b are tied by (a + b) / 2, in units of the mesh's mean: L is
    symmetric, its rows add up to 0, and nothing off its diagonal is positive.
    """
    one, other = _neighbours(mesh)
    volumes = np.abs(mesh.volumes())
    mean = float(volumes.mean())
    if not mean > 0:
        raise SuppleError("no tet has a volume; nothing can be painted on them")
    # A flat tet between two others of no volume must not cut the body apart.
    ties = np.maximum(0.5 * (volumes[one] + volumes[other]) / mean, 1e-3)
    n = len(mesh.tets)
    off = sp.coo_array((ties, (one, other)), (n, n))
    off = sp.csr_array(off + off.T)
    return sp.csr_array(sp.diags_array(np.asarray(off.sum(axis=1)).ravel()) - off)


def _neighbours(mesh: TetMesh) -> tuple[Ints, Ints]:
    """Pairs of tets with a common face, each once."""
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
    """From values on points of a body to all its tets.

    Parameters
    ----------
    mesh
        The body.
    tets
        (k,) the tet that each point is in.
    smoothness
        ζ.
    logarithms
        Whether ratios count rather than differences.
    """

    def __init__(self, mesh: TetMesh, tets: Ints, smoothness: float, *, logarithms: bool) -> None:
        zeta = checked_number("smoothness", smoothness)
        if not LEAST_SMOOTHNESS <= zeta <= MOST_SMOOTHNESS:
            raise SuppleError(
                f"smoothness is {zeta:g}; use {LEAST_SMOOTHNESS:g} to {MOST_SMOOTHNESS:g}"
            )
        self.tets, self.logarithms = tets, logarithms
        # Half of eq. 37's gradient: (E − Ē) on painted tets + ζ/2 L E.
        self.smoothing = sp.csr_array(0.5 * zeta * tet_laplacian(mesh))
        self.parts: Ints = connected_components(self.smoothing, directed=False)[1]
        self._solver: SparseCholesky | None = None
        self._held = np.zeros(0, bool)

    def __call__(self, values: Floats, painted: Mask) -> Floats:
        """(T,) fitted to the values (k,) of those points that are painted (k,)."""
        tets, values = self.tets[painted], values[painted]
        # Differences from one of the values: where all are the same they are exactly zero.
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
                "get the mean of what is painted"
            )
            target[blank] = target[held].mean()
        fitted = self._solve(held | blank, target)
        low, high = values.min(), values.max()
        # The matrix is an M-matrix: no value can leave the range, but for rounding.
        return np.clip(origin * np.exp(fitted) if self.logarithms else origin + fitted, low, high)

    def _solve(self, held: Mask, target: Floats) -> Floats:
        if self._solver is None or not np.array_equal(held, self._held):
            matrix = sp.csr_array(self.smoothing + sp.diags_array(held.astype(np.float64)))
            matrix.sort_indices()
            self._solver = self._solver or SparseCholesky(matrix)
            self._solver.factorise(matrix)
            self._held = held
        return self._solver.solve(np.where(held, target, 0.0))
