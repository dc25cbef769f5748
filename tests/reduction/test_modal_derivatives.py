"""Modal derivatives: the curvature of equilibria, exact under constraints, balanced when free."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from helpers.constraint_samples import (
    bent_beam,
    some_constraints,
)
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.reduction import derivatives
from supple.reduction.derivatives import modal_derivatives, second_forces
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space

KINDS = ["stvk", "neo-hookean", "corotational", "stvk-volume", "orthotropic"]


def pairs(count):
    return list(zip(*np.triu_indices(count), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_second_forces_are_differences_of_stiffness(kind):
    body, rest, _, _ = bent_beam(kind)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, rest.size, 3))
    forces = second_forces(body, rest, np.arange(len(rest)), a, b)
    assert forces.shape == (rest.size, 6)
    h = 1e-7
    for column, (i, j) in enumerate(pairs(3)):
        step = h * a[:, i].reshape(-1, 3)
        plus = body.stiffness(rest + step, rest=rest) @ b[:, j]
        minus = body.stiffness(rest - step, rest=rest) @ b[:, j]
        difference = (plus - minus) / (2 * h)
        np.testing.assert_allclose(
            forces[:, column], difference, atol=2e-7 * np.abs(difference).max()
        )


def equilibrium(body, rest, load, unknowns, start, scale):
    """Displacement with f_int = load on the unknowns, by Newton's method to rounding."""
    u = start.copy()
    with single_threaded():  # small systems wait for threads longer than they compute
        for _ in range(5):
            x = rest + u.reshape(-1, 3)
            K = body.stiffness(x, rest=rest).toarray()[np.ix_(unknowns, unknowns)]
            left = (load - body.force(x, rest=rest).ravel())[unknowns]
            u[unknowns] += np.linalg.solve(K, left)
    assert np.abs(left).max() < 1e-9 * scale
    return u


@pytest.mark.parametrize("kind", ["stvk", "neo-hookean"])
def test_they_are_second_derivatives_of_where_modes_loads_lead(kind):
    body, rest, K, free = bent_beam(kind, (4, 2, 2))
    unknowns = (3 * free[:, None] + np.arange(3)).ravel()
    space = null_space(None, len(rest), free)
    modes = linear_modes(K, body.vertex_masses(), 2, null_space=space)
    derivatives = modal_derivatives(body, rest, modes)
    h = 0.002 / np.abs(modes.vectors).max()
    scale = np.abs(K @ (h * modes.vectors)).max()

    def at(i, p, j, q):
        shape = h * (p * modes.vectors[:, i] + q * modes.vectors[:, j])
        return equilibrium(body, rest, K @ shape, unknowns, shape, scale)

    def difference(i, j, s):
        mixed = at(i, s, j, s) - at(i, s, j, -s) - at(i, -s, j, s) + at(i, -s, j, -s)
        return mixed / (4 * (s * h) ** 2)

    for column, (i, j) in enumerate(pairs(2)):
        # Richardson: the error of central differences is even in the step.
        exact = (4 * difference(i, j, 0.5) - difference(i, j, 1.0)) / 3
        size = np.abs(exact).max()
        np.testing.assert_allclose(derivatives[:, column], exact, atol=1e-5 * size)


@pytest.mark.parametrize("kind", ["stvk", "neo-hookean"])
def test_stiffness_along_a_mode_turns_the_others_by_them(kind):
    """K(x + hψ_i)⁻¹ K ψ_j, the response to the load that mode j resists, moves by h ψ_ij."""
    body, rest, K, free = bent_beam(kind)
    unknowns = (3 * free[:, None] + np.arange(3)).ravel()
    space = null_space(None, len(rest), free)
    modes = linear_modes(K, body.vertex_masses(), 4, null_space=space)
    derivatives = modal_derivatives(body, rest, modes)
    h = 1e-5 / np.abs(modes.vectors).max()
    load = (K @ modes.vectors)[unknowns]
    for i in range(4):
        response = []
        for side in (h, -h):
            x = rest + side * modes.vectors[:, i].reshape(-1, 3)
            stiff = body.stiffness(x, rest=rest).toarray()[np.ix_(unknowns, unknowns)]
            response.append(np.linalg.solve(stiff, load))
        turned = (response[0] - response[1]) / (2 * h)
        for column, (a, b) in enumerate(pairs(4)):
            if a == i:
                size = np.abs(turned[:, b]).max()
                found = derivatives[unknowns, column]
                np.testing.assert_allclose(found, turned[:, b], atol=1e-5 * size)


def test_constraints_hold_for_derivatives_and_weights_localise_them():
    body, rest, K, free = bent_beam("stvk", (10, 3, 3))
    n = len(rest)
    weights = np.clip(1.2 - 2 * np.abs(rest[:, 0] - 0.5), 0, 1)
    free = np.flatnonzero(weights > 0.25)
    C = some_constraints(n, free)
    W = np.repeat(weights, 3)
    space = null_space(sp.csr_array(C @ sp.diags_array(W)), n, free)
    modes = linear_modes(K, body.vertex_masses(), 5, null_space=space, weights=weights)
    derivatives = modal_derivatives(body, rest, modes)
    assert np.abs(C @ derivatives).max() < 1e-10 * np.abs(derivatives).max()
    outside = np.setdiff1d(np.arange(n), free)
    assert not derivatives.reshape(n, 3, -1)[outside].any()
    # eq. 35, with dense matrices
    Z = space.matrix.toarray()
    forces = second_forces(body, rest, np.arange(n), modes.vectors, modes.unweighted)
    z = np.linalg.solve(Z.T @ (K @ Z), -Z.T @ forces)
    expected = W[:, None] * (Z @ z)
    np.testing.assert_allclose(derivatives, expected, atol=1e-9 * np.abs(expected).max())


def test_a_region_on_its_own_gives_the_same_as_the_whole_body_held_outside_it():
    body, rest, K, _ = bent_beam("neo-hookean", (8, 2, 2))
    inside = np.flatnonzero(np.abs(rest[:, 0] - 0.5) < 0.3)
    unknowns = (3 * inside[:, None] + np.arange(3)).ravel()
    mass = body.vertex_masses()
    whole = linear_modes(K, mass, 4, null_space=null_space(None, len(rest), inside))
    part = linear_modes(sp.csr_array(K[unknowns][:, unknowns]), mass[inside], 4)
    np.testing.assert_allclose(part.eigenvalues, whole.eigenvalues, rtol=1e-10)
    expected = modal_derivatives(body, rest, whole)[unknowns]
    found = modal_derivatives(body, rest, part, vertices=inside)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    with pytest.raises(SuppleError, match="pass their numbers as `vertices`"):
        modal_derivatives(body, rest, part)


def test_a_free_body_is_balanced_and_does_not_drift():
    body, rest, K, _ = bent_beam("stvk", (6, 2, 2))
    mass = body.vertex_masses()
    modes = linear_modes(K, mass, 4)
    derivatives = modal_derivatives(body, rest, modes)
    n = len(rest)
    momenta = mass[:, None, None] * derivatives.reshape(n, 3, -1)
    scale = np.abs(momenta).sum(axis=0).max()
    assert np.abs(momenta.sum(axis=0)).max() < 1e-10 * scale
    assert np.abs(np.cross(rest[:, :, None], momenta, axis=1).sum(axis=0)).max() < 1e-10 * scale
    # What stiffness and second forces leave is inertia of a rigid motion.
    left = K @ derivatives + second_forces(
        body, rest, np.arange(n), modes.vectors, modes.unweighted
    )
    turning = np.cross(np.eye(3)[:, None], rest[None]).reshape(3, -1).T
    rigid = np.hstack([np.tile(np.eye(3), (n, 1)), turning])
    acceleration = left / np.repeat(mass, 3)[:, None]
    fit = rigid @ np.linalg.lstsq(rigid, acceleration, rcond=None)[0]
    scale = np.abs(K @ derivatives / np.repeat(mass, 3)[:, None]).max()
    assert np.abs(acceleration - fit).max() < 1e-9 * scale


def test_chosen_tets_add_up_and_threads_do_not_change_bits():
    body, rest, _, _ = bent_beam("neo-hookean", (8, 4, 4))
    rng = np.random.default_rng(1)
    a = rng.standard_normal((rest.size, 4))
    everything = np.arange(len(rest))
    whole = second_forces(body, rest, everything, a, a)
    halves = [
        second_forces(body, rest, everything, a, a, tets=np.arange(s, body.n_tets, 2))
        for s in (0, 1)
    ]
    np.testing.assert_allclose(sum(halves), whole, atol=1e-10 * np.abs(whole).max())
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = second_forces(body, rest, everything, a, a)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(alone, whole)
    with pytest.raises(SuppleError, match="tet 99999 does not exist"):
        second_forces(body, rest, everything, a, a, tets=[99999])
    with pytest.raises(SuppleError, match="inverts"):
        second_forces(body, -rest, everything, a, a)
    with pytest.raises(SuppleError, match=r"more than 0\.5 GB"):
        second_forces(body, rest, everything, np.zeros((rest.size, 1500)), a)


def test_derivatives_solved_for_a_few_at_a_time_are_the_same(monkeypatch):
    body, rest, K, free = bent_beam("stvk", (6, 2, 2))
    modes = linear_modes(K, body.vertex_masses(), 5, null_space=null_space(None, len(rest), free))
    whole = modal_derivatives(body, rest, modes)
    monkeypatch.setattr(derivatives, "_BLOCK_ENTRIES", 4 * rest.size)
    some = modal_derivatives(body, rest, modes)
    np.testing.assert_allclose(some, whole, rtol=0, atol=1e-12 * np.abs(whole).max())


def test_vertices_that_do_not_ascend_are_refused():
    """Rows of modes would belong to other vertices than their forces."""
    body, rest, K, free = bent_beam("stvk", (6, 2, 2))
    modes = linear_modes(K[free_rows(free)][:, free_rows(free)], body.vertex_masses()[free], 2)
    for vertices in (free[::-1], np.concatenate([free[:1], free[:-1]])):
        with pytest.raises(SuppleError, match="ascending"):
            modal_derivatives(body, rest, modes, vertices=vertices)
    with pytest.raises(SuppleError, match="list of whole numbers"):
        modal_derivatives(body, rest, modes, vertices=free.astype(float))


def free_rows(vertices):
    return (3 * vertices[:, None] + np.arange(3)).ravel()
