"""Bones and points of soft skeletons: derivatives and momenta."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.engines.soft_skeleton.bones.body_points import (
    BodyPoints,
    add_point_terms,
    point_tables,
    write_columns,
)
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain

PARENTS = np.array([-1, 0, 1, 0, 3])
JOINTS = np.array([[0.0, 0, 0], [0.3, 0, 0], [0.6, 0.1, 0], [0, 0.4, 0], [0, 0.7, 0.1]])


def sample(rng, n=12, m=7):
    weights = rng.random((n, 5)) * (rng.random((n, 5)) > 0.5)
    weights[:, 0] += 0.1
    weights /= weights.sum(axis=1, keepdims=True)
    reached = rng.random((n, m)) > 0.5
    shapes = [sp.csr_array(rng.standard_normal((n, m)) * reached) for _ in range(3)]
    tables = point_tables(PARENTS, rng.standard_normal((n, 3)), sp.csr_array(weights), shapes)
    chain = BoneChain(PARENTS, JOINTS)
    chain.change(rng.standard_normal(chain.size))
    return BodyPoints(tables), chain, 0.3 * rng.standard_normal(m)


def dense_jacobian(points, chain, phi):
    """(3n, 3 + 3K + m) ∂x/∂q."""
    body, size = points.posed(chain, phi), chain.size + len(phi)
    jacobian, rows = np.zeros((3 * len(points.x), size)), np.empty((3, size))
    columns, spread = np.empty(size, np.int64), np.empty((len(PARENTS), 3))
    for i in range(len(points.x)):
        count = write_columns(body, i, rows, columns, spread)
        jacobian[3 * i : 3 * i + 3, columns[:count]] = rows[:, :count]
    return jacobian


def test_columns_are_the_derivatives_of_the_points():
    points, chain, phi = sample(np.random.default_rng(1))
    found = dense_jacobian(points, chain, phi)
    size, step = chain.size, 1e-6
    for c in range(found.shape[1]):
        sides = []
        for sign in (1, -1):
            twin, there = chain.fork(), phi.copy()
            by = np.zeros(size)
            if c < size:
                by[c] = sign * step
            else:
                there[c - size] += sign * step
            twin.change(by)
            points.place(twin, there)
            sides.append(points.x.copy())
        slope = (sides[0] - sides[1]).ravel() / (2 * step)
        np.testing.assert_allclose(found[:, c], slope, atol=1e-8)


def test_sums_over_points_are_those_of_the_dense_jacobian():
    rng = np.random.default_rng(2)
    points, chain, phi = sample(rng)
    J, n = dense_jacobian(points, chain, phi), len(points.x)
    away, masses, rate = rng.standard_normal((n, 3)), rng.random(n), 8.0
    gradient, hessian = np.zeros(J.shape[1]), np.zeros((J.shape[1],) * 2)
    weight, gravity = np.zeros(J.shape[1]), np.array([1.0, -9.0, 2.0])
    moved, into = (away, masses, rate, gravity), (gradient, hessian, weight)
    add_point_terms(points.posed(chain, phi), *moved, *into)
    each = np.repeat(masses, 3)
    np.testing.assert_allclose(gradient, rate * J.T @ (each * away.ravel()), atol=1e-12)
    np.testing.assert_allclose(weight, -J.T @ (each * np.tile(gravity, n)), atol=1e-12)
    whole = rate * J.T @ (each[:, None] * J)
    np.testing.assert_allclose(np.triu(hessian), np.triu(whole), atol=1e-12)
