"""Modelled bodies in the layout of SMPL and MANO: joint regressors and pose corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from supple.arrays import Floats, Ints
from supple.formats.smpl.body_model import BodyModel, joint_layout
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.scene_data import Joints
from supple.scenes.modelling.skinning import strongest

#: Influences of a vertex, as in SMPL.
INFLUENCES = 4
#: Share of the collapse of linear skinning that is corrected; a full correction bulges.
CORRECTED = 0.8
#: Corrections below this share of the body's size are dropped.
INVISIBLE = 2e-5


def parametric_body(
    surface: SurfaceMesh,
    joints: Joints,
    weights: Floats,
    shapes: Sequence[Floats],
    mean: Floats | None = None,
) -> BodyModel:
    """Return the body model of a template surface, with joints in the order of the layout.

    The four largest of the weights (n, K) at each vertex are kept. `shapes` are displacements
    (n, 3) for each coefficient; `mean` is the mean pose (45,) of a hand.
    """
    names = list(joints)
    layout = joint_layout(len(names))
    assert tuple(names) == layout.names, "joints are not in the order of the layout"
    parents = np.array([-1 if up is None else names.index(up) for up, _ in joints.values()])
    places = np.array([place for _, place in joints.values()])
    indices, influences = strongest(weights, INFLUENCES)
    sparse = np.zeros_like(weights)
    np.put_along_axis(sparse, indices, influences, axis=1)
    return BodyModel(
        layout.kind,
        surface.vertices,
        surface.triangles,
        sparse,
        _regressor(surface.vertices, places, sparse, parents),
        parents,
        np.stack(shapes, axis=2),
        _pose_corrections(surface.vertices, sparse, parents, places),
        len(shapes),
        mean,
        None if mean is None else np.eye(len(mean)),
    )


def _regressor(points: Floats, places: Floats, weights: Floats, parents: Ints) -> Floats:
    """Return the matrix (K, n) from vertices to joints, exact under linear changes of shape.

    Vertices near the joint with weights for it and for its parent contribute most.
    """
    regressor = np.zeros((len(places), len(points)))
    for joint, (place, parent) in enumerate(zip(places, parents, strict=True)):
        offsets = points - place
        near = np.sort(np.linalg.norm(offsets, axis=1))[:60].mean()
        shared = 1.0 if parent < 0 else 0.02 + weights[:, joint] * weights[:, parent]
        share = shared * np.exp(-0.5 * (offsets**2).sum(axis=1) / near**2)
        share[share < 1e-3 * share.max()] = 0.0
        rows = np.column_stack([np.ones(len(points)), offsets])
        solved = np.linalg.solve((rows.T * share) @ rows, [1.0, 0.0, 0.0, 0.0])
        regressor[joint] = share * (rows @ solved)
    return regressor


def _pose_corrections(points: Floats, weights: Floats, parents: Ints, places: Floats) -> Floats:
    """Return pose directions (n, 3, 9 (K − 1)) against the collapse of linear skinning.

    A joint with rotation R moves skin of weight s to (1 − s) x + s R x; a rotation by R^s would
    preserve its distance from the joint. The difference, in the rest shape, is fitted by a
    linear function of R − 1, which contains sin and 1 − cos of the angle.
    """
    count = len(parents)
    below = np.eye(count)
    for joint in range(count - 1, 0, -1):
        below[:, parents[joint]] += below[:, joint]
    shares = weights @ below
    axes = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]], float)
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    vectors = np.concatenate([angle * axes for angle in (-1.4, -0.8, 0.8, 1.4)])
    rotations = Rotation.from_rotvec(vectors).as_matrix()
    features = (rotations - np.eye(3)).reshape(-1, 9)
    inverse = np.linalg.solve(features.T @ features + 0.02 * np.eye(9), features.T)
    directions = np.zeros((len(points), 3, 9 * (count - 1)))
    threshold = INVISIBLE * float(np.ptp(points, axis=0).max())
    for joint in range(1, count):
        blended = np.flatnonzero((shares[:, joint] > 0.01) & (shares[:, joint] < 0.99))
        share, offsets = shares[blended, joint], points[blended] - places[joint]
        targets = np.empty((len(vectors), len(blended), 3))
        for k, (vector, rotation) in enumerate(zip(vectors, rotations, strict=True)):
            blend = np.eye(3) + share[:, None, None] * (rotation - np.eye(3))
            exact = Rotation.from_rotvec(share[:, None] * vector).as_matrix()
            lost = np.einsum("nij,nj->ni", exact - blend, offsets)
            targets[k] = np.linalg.solve(blend, lost[..., None])[..., 0]
        fitted = CORRECTED * np.einsum("fk,kni->nif", inverse, targets)
        fitted[np.abs(fitted).max(axis=(1, 2)) < threshold] = 0.0
        directions[blended, :, 9 * (joint - 1) : 9 * joint] = fitted
    return directions


def pose_vector(joints: Joints, rotations: Mapping[str, ArrayLike]) -> Floats:
    """Return the pose (3 K,) in radians from rotation vectors in degrees by joint."""
    names = list(joints)
    pose = np.zeros((len(names), 3))
    for name, degrees in rotations.items():
        pose[names.index(name)] = np.radians(np.asarray(degrees, float))
    return pose.ravel()
