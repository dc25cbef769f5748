"""Detection of StVK bodies that stay inverted, and their return to the rest shape.

Forces of a Saint Venant–Kirchhoff body vanish where it is flattened, so an inverted body can be in
equilibrium. The deformation gradient F = I + Σ_k q_k G_k is evaluated at a few sample points in
each step. If samples stay inverted and no load holds them (`supple.engines.common.inversion`), q is
scaled towards zero in each step until det F exceeds `RESTORED` at all samples. Other steps do not
change.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.engines.common.inversion import HOLDS, LONGEST, PATIENCE, RESTORED, RETURN
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.model import StvkModel

#: Largest number of samples, and that of bodies with fewer modes than `FEW_MODES`, whose steps take
#: a few microseconds.
SAMPLES, FEW_SAMPLES, FEW_MODES = 256, 128, 20
#: Numbers of neighbours that F is fitted to: the first ones with which at least a part of the
#: samples is well fitted.
NEIGHBOURS, ENOUGH = (8, 12, 24, 48, 96, 192), 0.5
#: Samples per block, evaluated together, and the period in s in which all samples are checked.
BLOCK, SWEEP = 4, 0.02
#: Part of the samples that must be inverted.
INVERTED = 0.04
#: Largest relative error of the fitted F of a sample, and its least thickness relative to its
#: length: neighbours may lie on other parts of the body, or in a plane.
POOR_FIT, THIN = 0.5, 1e-3
#: Largest |F − I| at the start of the restoration; a larger q is scaled down.
FARTHEST = 10.0
#: Entries of `WatchArrays.progress`: next block, inverted samples in this sweep and in the last
#: sweep, whether the body is being restored, whether the last step restored it, and steps since
#: the last block.
NEXT, FOUND, FOUND_BEFORE, RESTORING, RESTORED_NOW, SKIPPED = range(6)


class WatchArrays(NamedTuple):
    """Sampled gradients, and the state of the detection."""

    blocks: Floats  # (b, r, 36) G of the samples of a block; zeros fill up the last one
    reaches: Floats  # (r,) largest spectral norm of G over the samples, of each column
    weight: Floats  # (r,) reduced weight: other forces are loads
    bounds: Floats  # (2,) number of samples that must be inverted, and ∫E dV in J of a sample
    lasting: Floats  # (1,) seconds for which samples have been inverted, or the body restored
    progress: Ints  # (6,) see `NEXT`
    entries: Floats  # (36,) scratch: F − I of the samples of a block

    @classmethod
    def of(cls, model: StvkModel | CubicModel, weight: Floats) -> WatchArrays:
        """Return arrays for a model; without a mesh there are no samples, and nothing acts."""
        r, gradients, energy = model.modes, np.zeros((0, 9, model.modes)), 0.0
        if isinstance(model, StvkModel):
            gradients = sampled_gradients(model.rest, model.basis)
            energy = _elastic_energy(model)
        count = len(gradients)
        squares = gradients.reshape(-1, 3, 3, r).transpose(0, 3, 1, 2)
        reaches = np.linalg.norm(squares, 2, axis=(2, 3)).max(axis=0, initial=0.0)
        filled = np.zeros((-(-count // BLOCK) * BLOCK, 9, r))
        filled[:count] = gradients
        blocks = np.ascontiguousarray(filled.reshape(-1, 9 * BLOCK, r).swapaxes(1, 2))
        bounds = np.array([INVERTED * count, energy / max(count, 1)])
        progress, entries = np.zeros(6, np.int64), np.zeros(9 * BLOCK)
        return cls(blocks, reaches, weight.copy(), bounds, np.zeros(1), progress, entries)

    def reset(self) -> None:
        """Reset the detection."""
        self.lasting[:], self.progress[:] = 0.0, 0


def sampled_gradients(rest: Floats, basis: Floats) -> Floats:
    """Return ∂u/∂X (s, 9, r) at vertices spread over the body, fitted to neighbouring vertices.

    The nearest vertices may lie in a plane, or too far apart for an affine fit. Samples without a
    good fit are left out, unless no sample has one.
    """
    r, moving = basis.shape[2], np.flatnonzero(basis.any(axis=(1, 2)))
    spread = moving[_spread(rest[moving], SAMPLES if r >= FEW_MODES else FEW_SAMPLES)]
    tree, best = cKDTree(rest), np.full(len(spread), np.inf)
    gradients = np.zeros((len(spread), 9, r))
    for neighbours in NEIGHBOURS:
        poor = np.flatnonzero(best > POOR_FIT)
        if len(poor) <= (1 - ENOUGH) * len(spread):
            break
        count = min(neighbours + 1, len(rest))
        near = tree.query(rest[spread[poor]], k=count)[1].reshape(len(poor), count)
        fitted, errors = _fits(rest[near], basis[near])
        better = errors < best[poor]
        best[poor[better]], gradients[poor[better]] = errors[better], fitted[better]
    good = best <= POOR_FIT if (best <= POOR_FIT).any() else best < np.inf
    return np.ascontiguousarray(gradients[good])


def _spread(points: Floats, most: int) -> Ints:
    """Return up to `most` points, each the farthest from those before it."""
    listed = [0] if len(points) else []
    far = np.linalg.norm(points - points[:1], axis=1)
    while len(listed) < min(most, len(points)):
        listed.append(int(far.argmax()))
        far = np.minimum(far, np.linalg.norm(points - points[listed[-1]], axis=1))
    return np.array(listed, np.int64)


def _fits(points: Floats, basis: Floats) -> tuple[Floats, Floats]:
    """Return ∂u/∂X (s, 9, r) fitted to points (s, k, 3) that move by `basis` (s, k, 3, r).

    Also return their relative errors (s,), which are infinite for points in a plane.
    """
    edges = points - points.mean(axis=1, keepdims=True)
    r = basis.shape[3]
    displacements = (basis - basis.mean(axis=1, keepdims=True)).reshape(*basis.shape[:2], -1)
    fitted = np.linalg.pinv(edges) @ displacements  # (s, 3, 3r): rows are the axes of X
    residuals = (displacements - edges @ fitted).reshape(len(edges), -1, r)
    scale = np.linalg.norm(displacements.reshape(len(edges), -1, r), axis=1)
    largest = scale.max(axis=0, initial=0.0) + 1e-300
    errors = np.linalg.norm(np.linalg.norm(residuals, axis=1) / largest, axis=1)
    errors /= np.linalg.norm(scale / largest, axis=1) + 1e-300
    sizes = np.linalg.svd(edges, compute_uv=False)
    thick = sizes[:, -1] > THIN * sizes[:, 0] if sizes.shape[1] == 3 else np.zeros(len(edges), bool)
    turned = fitted.reshape(len(edges), 3, 3, r).swapaxes(1, 2).reshape(-1, 9, r)
    return turned, np.where(thick, errors, np.inf)


def _elastic_energy(model: StvkModel) -> float:
    """Return ∫E dV over the body in J, with E Young's modulus."""
    groups = model.groups
    if model.inertia is None:  # a model of an old file
        return float(groups.young.mean() * np.prod(np.ptp(model.rest, axis=0)))
    return float(groups.young @ model.inertia.volumes)


@compiled_sums
def watch_inversion(h, force, watch, q, v, a):  # type: ignore[no-untyped-def]
    """Check some samples after a step of h; change q, v and a of a body that is being restored.

    Returns whether samples are inverted or the body is being restored. `force` (r,) are the reduced
    forces, with the weight; a body that they hold inverted is not restored.
    """
    progress, count = watch.progress, len(watch.blocks)
    progress[RESTORED_NOW] = 0
    if progress[RESTORING]:
        watch.lasting[0] += h
        _restore(math.exp(-h / RETURN), watch, q, v, a)
        return True
    progress[SKIPPED] += 1
    if progress[SKIPPED] * h * count >= SWEEP:
        _check_blocks(h * progress[SKIPPED], force, watch, q, v, a)
    return max(progress[FOUND], progress[FOUND_BEFORE]) > watch.bounds[0]


@compiled_sums
def _is_held(force, watch, q):  # type: ignore[no-untyped-def]
    """Return whether forces other than the weight hold the samples that are inverted."""
    work = 0.0
    for i in range(len(q)):
        work += (force[i] - watch.weight[i]) * q[i]
    return abs(work) > HOLDS * watch.bounds[1] * watch.progress[FOUND]


@compiled_sums
def _check_blocks(seconds, force, watch, q, v, a):  # type: ignore[no-untyped-def]
    """Check the next blocks, `seconds` after the last check; start the restoration when due."""
    progress, count, bound = watch.progress, len(watch.blocks), 0.0
    progress[SKIPPED] = 0
    for i in range(len(q)):
        bound += abs(q[i]) * watch.reaches[i]
    if bound < 1.0:  # no sample can be inverted
        _restart(watch)
        return
    looked = max(1, math.ceil(count * seconds / SWEEP - 1.0))
    end = min(progress[NEXT] + looked, count)
    for block in range(progress[NEXT], end):
        progress[FOUND] += _count_below(0.0, watch.blocks[block], q, watch.entries)
    progress[NEXT] = end
    if end < count:
        return
    if progress[FOUND] <= watch.bounds[0] or _is_held(force, watch, q):
        watch.lasting[0] = max(0.0, watch.lasting[0] - 0.5 * SWEEP)
    else:
        watch.lasting[0] += max(SWEEP, seconds)
    progress[FOUND_BEFORE], progress[FOUND], progress[NEXT] = progress[FOUND], 0, 0
    if watch.lasting[0] > PATIENCE:
        progress[RESTORING], watch.lasting[0] = 1, 0.0
        _restore(min(1.0, FARTHEST / bound), watch, q, v, a)


@compiled_fused
def _restart(watch):  # type: ignore[no-untyped-def]
    watch.lasting[0] = 0.0
    for i in range(len(watch.progress)):
        watch.progress[i] = 0


@compiled_fused
def _restore(part, watch, q, v, a):  # type: ignore[no-untyped-def]
    """Scale q by `part`; set v and a to zero.

    The restoration ends once all samples are well oriented, or after `LONGEST` seconds.
    """
    for i in range(len(q)):
        q[i] *= part
        v[i], a[i] = 0.0, 0.0
    flat = 0
    for block in range(len(watch.blocks)):
        flat += _count_below(RESTORED, watch.blocks[block], q, watch.entries)
    if flat == 0 or watch.lasting[0] > LONGEST:
        _restart(watch)
    watch.progress[RESTORED_NOW] = 1


@compiled_fused
def _count_below(least, block, q, entries):  # type: ignore[no-untyped-def]
    """Return the number of samples of a block (r, 36) whose det F is at most `least`."""
    entries[:] = 0.0
    for i in range(len(q)):
        row, factor = block[i], q[i]
        for j in range(len(entries)):
            entries[j] += factor * row[j]
    count = 0
    for s in range(BLOCK):
        at = 9 * s
        a, b, c = 1.0 + entries[at], entries[at + 1], entries[at + 2]
        d, e, f = entries[at + 3], 1.0 + entries[at + 4], entries[at + 5]
        g, k, m = entries[at + 6], entries[at + 7], 1.0 + entries[at + 8]
        count += a * (e * m - f * k) + b * (f * g - d * m) + c * (d * k - e * g) <= least
    return count
