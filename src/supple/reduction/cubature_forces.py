"""Reduced elastic forces of many samples at one pose: all tets', or a weighted few's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.compiled import taking_turns
from supple.elastic.body import ElasticBody
from supple.errors import MeshError, SuppleError
from supple.reduction.checks import checked_indices
from supple.reduction.elastic_kernels import (
    LINEAR,
    WHOLE,
    element_forces,
    gather_at_vertices,
)
from supple.reduction.region import Region
from supple.reduction.samples import checked_basis, displacements, projected

__all__ = ["ForceBatch", "PoseForces", "force_norms"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Element forces held at once, in bytes.
_CHUNK_BYTES = 64_000_000


@dataclass(frozen=True, eq=False)
class ForceBatch:
    """Forces of a few samples.

    Attributes
    ----------
    samples
        Which columns of the q asked for.
    elements
        (e, 9, t) forces of the tets, without their first corners'.
    total
        (r, t) their sum, projected.
    """

    samples: slice
    elements: Floats
    total: Floats


@dataclass(frozen=True, eq=False)
class PoseForces:
    """A pose as cubature sees it, restricted to some tets.

    Attributes
    ----------
    body, rest, basis, regions
        Material and mesh, rest shape (n, 3), localised basis.
    tets
        (e,) which tets are evaluated: by default all that touch a region, as the others' forces
        project to zero.
    part
        WHOLE, LINEAR or REMAINDER: which part of the elements' forces is meant.
    """

    body: ElasticBody
    rest: Floats
    basis: tuple[Floats, ...]
    regions: tuple[Region, ...]
    tets: Ints
    part: int = WHOLE

    @classmethod
    def of(
        cls,
        body: ElasticBody,
        rest: ArrayLike,
        basis: Sequence[NDArray[np.float64]],
        regions: Sequence[Region],
        *,
        tets: ArrayLike | None = None,
        name: str = "this pose",
    ) -> PoseForces:
        """Checked."""
        if not isinstance(body, ElasticBody):
            raise SuppleError(f"{name} needs an ElasticBody, not {type(body).__name__}")
        rest = checked_array(f"rest shape of {name}", rest, body.rest.shape)
        checked = checked_basis(f"basis of {name}", basis, regions, body.n_vertices)
        if tets is None:
            inside = np.zeros(body.n_vertices, bool)
            for region in regions:
                inside[region.vertices] = True
            chosen = np.flatnonzero(inside[body.mesh.tets].any(axis=1))
        else:
            chosen = _checked_tets(tets, body.n_tets)
        return cls(body, rest, checked, tuple(regions), chosen)

    @property
    def rank(self) -> int:
        """Number of columns r."""
        return sum(array.shape[2] for array in self.basis)

    @property
    def corners(self) -> Ints:
        """(e, 4) vertices of the tets."""
        return np.ascontiguousarray(self.body.mesh.tets[self.tets], np.int64)

    def only(self, tets: Ints) -> PoseForces:
        """The same pose, restricted to other tets."""
        return replace(self, tets=tets)

    def of_part(self, part: int) -> PoseForces:
        """The same pose and tets, another part of their forces."""
        return replace(self, part=part)

    def batches(self, q: Floats, weights: Floats | None = None) -> Iterator[ForceBatch]:
        """Forces at reduced displacements q (r, t), a few samples at a time."""
        corners = self.corners
        parameters = self.body.material.element_parameters(self.body.n_tets)[self.tets]
        around = _around_vertices(corners, self.body.n_vertices)
        step = max(1, min(32, _CHUNK_BYTES // (72 * max(1, len(corners)))))
        for first in range(0, q.shape[1], step):
            chunk = slice(first, min(first + step, q.shape[1]))
            moved = displacements(self.basis, self.regions, self.body.n_vertices, q[:, chunk])
            elements = np.empty((len(corners), 9, moved.shape[2]))
            with taking_turns():
                volume = element_forces(
                    self.body.material.code,
                    self.rest,
                    moved,
                    corners,
                    np.ascontiguousarray(parameters),
                    self.part,
                    elements,
                )
            if not volume > 0:
                raise MeshError(f"the rest shape inverts or flattens a tet (volume {volume:.3g})")
            if weights is not None:
                elements *= weights[:, None, None]
            at_vertices = np.empty_like(moved)
            with taking_turns():
                gather_at_vertices(elements, *around, at_vertices)
            yield ForceBatch(chunk, elements, projected(self.basis, self.regions, at_vertices))

    def reduced(self, q: Floats, weights: Floats | None = None) -> Floats:
        """f̃ (r, t) of the tets, weighted (xu2016 eq. 21)."""
        return np.concatenate([batch.total for batch in self.batches(q, weights)], axis=1)

    def stiffness(self, weights: Floats | None = None) -> Floats:
        """K̃ (r, r) at rest of the tets, weighted (xu2016 eq. 22)."""
        reduced = self.of_part(LINEAR).reduced(np.eye(self.rank), weights)
        return (reduced + reduced.T) / 2


def force_norms(total: Floats, first: int = 0, where: str = "") -> Floats:
    """‖f̃‖ (t,) of samples' forces (r, t), which rows are divided by (xu2016 eq. 18).

    `first` is the number of the first sample, and `where` stands before it in errors.
    """
    norms = np.linalg.norm(total, axis=0)
    wrong = ~(np.isfinite(norms) & (norms > 0))
    if wrong.any():
        bad = int(np.argmax(wrong))
        what = "makes no elastic force" if norms[bad] == 0 else "makes a force beyond all numbers"
        advice = "larger" if norms[bad] == 0 else "smaller"
        raise SuppleError(f"{where}sample {first + bad} {what}; draw {advice} ones")
    return norms


def _checked_tets(tets: ArrayLike, n_tets: int) -> Ints:
    listed = checked_indices("cubature tet", tets, n_tets)
    if len(listed) == 0:
        raise SuppleError("there are no cubature tets; give some")
    return listed


def _around_vertices(corners: Ints, n_vertices: int) -> tuple[Ints, Ints]:
    """Start of each vertex's run (n + 1,), and 4e + corner of the tets around it."""
    flat = corners.ravel()
    order = np.argsort(flat, kind="stable")
    return np.searchsorted(flat[order], np.arange(n_vertices + 1)), order
