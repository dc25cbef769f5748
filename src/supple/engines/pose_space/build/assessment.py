"""Assessment of an interpolated basis at a pose between the poses it was made at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.compiled.jit import at_most_threads
from supple.elastic.body import ElasticBody
from supple.engines.pose_space.alignment import subspace_angles
from supple.engines.pose_space.build.aligned_poses import AlignedPoses
from supple.engines.pose_space.build.pose_basis import PoseModel, PoseTask
from supple.engines.pose_space.interpolation import frequency_ratios, reduced_frequencies
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.reduction.compliance import Compliance
from supple.reduction.contact_constraints import contact_constraints
from supple.reduction.cubature.samples import dense_basis
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region

#: Number of lowest frequencies that are compared.
FREQUENCIES = 6
#: Least eigenvalue of a mass matrix with 1 on its diagonal: below, columns say the same twice,
#: and in the float32 of a model there would be nothing left of the difference.
DISTINCT = 1e-6


@dataclass(frozen=True, eq=False)
class Assessment:
    """Comparison of an interpolated basis with the one computed at the same pose.

    Attributes
    ----------
    to_recomputed
        Lowest frequencies over those of the recomputed basis: the price of interpolation.
    to_exact
        Lowest frequencies over those of the full body: the price of reduction included.
    angles
        Angles between the two spaces, ascending, in radians (xu2016 fig. 10).
    """

    to_recomputed: Floats
    to_exact: Floats
    angles: Floats

    @property
    def worst(self) -> float:
        """Largest part by which interpolation changes a frequency, as a ratio of 1 or more."""
        return float(np.maximum(self.to_recomputed, 1 / self.to_recomputed).max())


def assess_pose(
    task: PoseTask, model: PoseModel, aligned: AlignedPoses, weights: Floats
) -> Assessment:
    """Compare the basis interpolated at a pose with the one computed there.

    Parameters
    ----------
    task, model
        The pose, and its reduced model by `reduce_pose`.
    aligned
        Bases of the other poses.
    weights
        (m,) of those poses at this one.

    Raises
    ------
    SuppleError
        If there is nothing to compare: a blended column vanishes, say.
    """
    count = len(task.rest)
    with single_threaded(), at_most_threads(1):
        body = ElasticBody(task.mesh, task.material)
        stiffness = body.stiffness(task.rest, task.rest, out=body.pattern.zeros())
        mass = body.vertex_masses()
        blended = aligned.basis(weights, count)
        recomputed = dense_basis(model.bases, aligned.regions, count).reshape(3 * count, -1)
        gram = recomputed.T @ (np.repeat(mass, 3)[:, None] * recomputed)
        ours = reduced_frequencies(blended, stiffness, aligned.mass(weights))
        theirs = reduced_frequencies(recomputed, stiffness, gram)
        exact = _exact_frequencies(task, model, stiffness, mass)
        angles = subspace_angles(
            blended.reshape(count, 3, -1), recomputed.reshape(count, 3, -1), mass
        )
    return Assessment(
        frequency_ratios(ours, theirs, FREQUENCIES),
        frequency_ratios(ours, exact, FREQUENCIES),
        angles,
    )


def _exact_frequencies(
    task: PoseTask, model: PoseModel, stiffness: sp.csr_array, mass: Floats
) -> Floats:
    """Return frequencies of the full body, fixed where no region reaches and where it touches."""
    free = np.unique(np.concatenate([region.vertices for region in task.regions]))
    rows = sp.csr_array((0, 3 * len(task.rest)))
    if model.contacts is not None and task.contacts is not None:
        rows = contact_constraints(model.contacts, len(task.rest), kind=task.contacts)
    bound = None
    if len(free) < len(task.rest) or rows.shape[0]:
        bound = null_space(rows, len(task.rest), free=free)
    factor = Compliance(stiffness, mass, bound)
    count = min(FREQUENCIES, factor.n_unknowns)
    # A frequency's error is the square of its vector's.
    modes = linear_modes(stiffness, mass, count, null_space=bound, factor=factor, tolerance=1e-4)
    return np.sqrt(modes.eigenvalues) / (2 * np.pi)


def check_independent(aligned: AlignedPoses, names: Sequence[str]) -> None:
    """Refuse regions whose columns at a pose are nearly those of other regions.

    Parameters
    ----------
    aligned
        Bases of all poses.
    names
        (m,) names of the poses.
    """
    if len(aligned.regions) < 2:
        return
    ends = np.cumsum([0, *(basis.shape[2] for basis in aligned.bases[0])])
    columns = [np.arange(start, end) for start, end in pairwise(ends)]
    for pose, name in enumerate(names):
        mass = aligned.mass(np.eye(len(names))[pose])
        if _least(mass) >= DISTINCT:
            continue
        first, second = min(
            combinations(range(len(columns)), 2),
            key=lambda pair: _least(mass, np.concatenate([columns[at] for at in pair])),
        )
        one, other = aligned.regions[first].name, aligned.regions[second].name
        raise SuppleError(
            f'pose "{name}": regions "{one}" and "{other}" overlap so much that their columns '
            "are nearly the same; merge them or give fewer modes"
        )


def _least(mass: Floats, among: NDArray[np.int64] | None = None) -> float:
    part = mass if among is None else mass[np.ix_(among, among)]
    return float(np.linalg.eigvalsh(part)[0])


def split_basis(
    basis: Floats, regions: tuple[Region, ...], modes: tuple[int, ...]
) -> tuple[Floats, ...]:
    """Return the regions' parts (k, 3, r_ρ) of a basis of the whole mesh, (3n, r)."""
    rows = basis.reshape(len(basis) // 3, 3, -1)
    ends = np.cumsum([0, *modes])
    return tuple(
        rows[region.vertices][:, :, ends[at] : ends[at + 1]] for at, region in enumerate(regions)
    )
