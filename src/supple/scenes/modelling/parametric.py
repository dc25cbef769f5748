"""Modelled bodies in the layout of SMPL and MANO: regressed joints, and shapes of poses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from supple.arrays import Floats, Ints
from supple.formats.smpl.body_model import BodyModel, joint_layout
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.skin_weights import strongest

#: Joint: parent and place in the rest pose, in the order of the layout.
Joints = Mapping[str, tuple[str | None, tuple[float, float, float]]]
#: Influences of a vertex, as in SMPL.
INFLUENCES = 4
#: How much of the collapse of linear skinning is made up for: all of it would bulge.
CURED = 0.8
#: Displacements that are left out, in parts of the body's size.
INVISIBLE = 2e-5


def parametric_body(
    surface: SurfaceMesh,
    joints: Joints,
    weights: Floats,
    shapes: Sequence[Floats],
    mean: Floats | None = None,
) -> BodyModel:
    """Return a body model of a modelled surface.

    Parameters
    ----------
    surface
        The template.
    joints
        As many as a layout has, and in its order.
    weights
        (n, K) weights of the joints; the strongest four of each vertex are kept.
    shapes
        Displacements (n, 3) for each coefficient of shape.
    mean
        (45,) the mean pose of a hand.
    """
    names = list(joints)
    layout = joint_layout(len(names))
    assert tuple(names) == layout.names, "joints are not in the order of the layout"
    parents = np.array([-1 if up is None else names.index(up) for up, _ in joints.values()])
    places = np.array([place for _, place in joints.values()])
    listed, kept = strongest(weights, INFLUENCES)
    sparse = np.zeros_like(weights)
    np.put_along_axis(sparse, listed, kept, axis=1)
    return BodyModel(
        layout.kind,
        surface.vertices,
        surface.triangles,
        sparse,
        _regressor(surface.vertices, places, sparse, parents),
        parents,
        np.stack(shapes, axis=2),
        _cures(surface.vertices, sparse, parents, places),
        len(shapes),
        mean,
        None if mean is None else np.eye(len(mean)),
    )


def _regressor(points: Floats, places: Floats, weights: Floats, parents: Ints) -> Floats:
    """Return (K, n) that gives the joints, exactly and after any linear change of shape.

    Weighted by how much a vertex is both of the joint and of its parent, and by how near it is:
    then a joint goes where the skin around it goes.
    """
    found = np.zeros((len(places), len(points)))
    for joint, (place, parent) in enumerate(zip(places, parents, strict=True)):
        away = points - place
        near = np.sort(np.linalg.norm(away, axis=1))[:60].mean()
        shared = 1.0 if parent < 0 else 0.02 + weights[:, joint] * weights[:, parent]
        share = shared * np.exp(-0.5 * (away**2).sum(axis=1) / near**2)
        share[share < 1e-3 * share.max()] = 0.0
        rows = np.column_stack([np.ones(len(points)), away])
        solved = np.linalg.solve((rows.T * share) @ rows, [1.0, 0.0, 0.0, 0.0])
        found[joint] = share * (rows @ solved)
    return found


def _cures(points: Floats, weights: Floats, parents: Ints, places: Floats) -> Floats:
    """Return pose directions (n, 3, 9 (K − 1)) against the collapse of linear skinning.

    Where a joint turns by R, skin of which it moves a share s goes to (1 − s) x + s R x; it keeps
    its distance from the joint when turned by R^s. The difference, turned back to the rest
    shape, is fitted by a linear function of R − 1: sin and 1 − cos of the angle are both in it.
    """
    count = len(parents)
    below = np.eye(count)
    for joint in range(count - 1, 0, -1):
        below[:, parents[joint]] += below[:, joint]
    shares = weights @ below
    axes = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]], float)
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    vectors = np.concatenate([angle * axes for angle in (-1.4, -0.8, 0.8, 1.4)])
    turns = Rotation.from_rotvec(vectors).as_matrix()
    features = (turns - np.eye(3)).reshape(-1, 9)
    inverse = np.linalg.solve(features.T @ features + 0.02 * np.eye(9), features.T)
    found = np.zeros((len(points), 3, 9 * (count - 1)))
    least = INVISIBLE * float(np.ptp(points, axis=0).max())
    for joint in range(1, count):
        own = np.flatnonzero((shares[:, joint] > 0.01) & (shares[:, joint] < 0.99))
        share, away = shares[own, joint], points[own] - places[joint]
        wanted = np.empty((len(vectors), len(own), 3))
        for k, (vector, turn) in enumerate(zip(vectors, turns, strict=True)):
            blend = np.eye(3) + share[:, None, None] * (turn - np.eye(3))
            whole = Rotation.from_rotvec(share[:, None] * vector).as_matrix()
            lost = np.einsum("nij,nj->ni", whole - blend, away)
            wanted[k] = np.linalg.solve(blend, lost[..., None])[..., 0]
        cure = CURED * np.einsum("fk,kni->nif", inverse, wanted)
        cure[np.abs(cure).max(axis=(1, 2)) < least] = 0.0
        found[own, :, 9 * (joint - 1) : 9 * joint] = cure
    return found


def joint_turns(joints: Joints, turns: Mapping[str, ArrayLike]) -> Floats:
    """Return the pose (3 K,) of rotation vectors in degrees, by names of joints."""
    names = list(joints)
    pose = np.zeros((len(names), 3))
    for name, degrees in turns.items():
        pose[names.index(name)] = np.radians(np.asarray(degrees, float))
    return pose.ravel()
