"""Small bodies in the layouts of SMPL and MANO, their files, and the formula they follow."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

SMPL_PARENTS = [-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19, 20, 21]
MANO_PARENTS = [-1, 0, 1, 2, 0, 4, 5, 0, 7, 8, 0, 10, 11, 0, 13, 14]


def parents_of(joints: int) -> list[int]:
    """Return parents of a body of 16, 24, 52 or 55 joints; of another number, a chain."""
    if joints == 16:
        return MANO_PARENTS
    if joints not in (24, 52, 55):
        return list(range(-1, joints - 1))
    hand = [p for wrist in (20, 21) for p in _fingers(wrist)]
    if joints == 24:
        return SMPL_PARENTS
    body = SMPL_PARENTS[:22] + ([15, 15, 15] if joints == 55 else [])
    first = len(body)
    return body + [p if p < 22 else p - 100 + first for p in hand]


def _fingers(wrist: int) -> list[int]:
    """Return parents of fifteen finger joints; above 99 those within the hands."""
    begin = 100 + (0 if wrist == 20 else 15)
    return [wrist if k % 3 == 0 else begin + k - 1 for k in range(15)]


def body_fields(joints: int = 24, *, shapes: int = 10, seed: int = 0) -> dict[str, Any]:
    """Return the arrays of a small closed body, random but smooth enough."""
    rng = np.random.default_rng(seed)
    count = 3 * joints
    points = rng.standard_normal((count, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    hull = ConvexHull(points)
    faces = hull.simplices.astype(np.uint32)
    inward = (
        np.einsum(
            "ij,ij->i",
            np.cross(*(points[faces[:, k]] - points[faces[:, 0]] for k in (1, 2))),
            points[faces[:, 0]],
        )
        < 0
    )
    faces[inward] = faces[inward][:, ::-1]
    weights = rng.random((count, joints)) * (rng.random((count, joints)) < 4 / joints)
    weights[np.arange(count), np.arange(count) % joints] += 0.5
    regressor = rng.random((joints, count)) * (rng.random((joints, count)) < 0.2)
    regressor[np.arange(joints), np.arange(joints)] += 0.5
    table = np.array([parents_of(joints), range(joints)])
    table[0, 0] = 2**32 - 1
    fields: dict[str, Any] = {
        "v_template": points * [0.4, 0.9, 0.2],
        "f": faces,
        "weights": weights / weights.sum(axis=1, keepdims=True),
        "J_regressor": regressor / regressor.sum(axis=1, keepdims=True),
        "kintree_table": table,
        "shapedirs": 0.02 * rng.standard_normal((count, 3, shapes)),
        "posedirs": 0.01 * rng.standard_normal((count, 3, 9 * (joints - 1))),
    }
    if joints == 16:
        fields["hands_mean"] = 0.2 * rng.standard_normal(45)
        fields["hands_components"] = np.linalg.qr(rng.standard_normal((45, 45)))[0]
    return fields


def expected(fields: dict[str, Any], pose: Any, shape: Any, trans: Any = (0, 0, 0)) -> np.ndarray:
    """Return the vertices of the body by its formula, vertex by vertex."""
    shaped = fields["v_template"] + fields["shapedirs"] @ np.asarray(shape)
    joints = fields["J_regressor"] @ shaped
    turns = Rotation.from_rotvec(np.reshape(pose, (-1, 3))).as_matrix()
    posed = shaped + fields["posedirs"] @ (turns[1:] - np.eye(3)).ravel()
    world: list[np.ndarray] = []
    for k, parent in enumerate(fields["kintree_table"][0]):
        local = np.eye(4)
        local[:3, :3] = turns[k]
        local[:3, 3] = joints[k] if k == 0 else joints[k] - joints[parent]
        world.append(local if k == 0 else world[parent] @ local)
    moved = np.array(world)
    moved[:, :3, 3] -= np.einsum("kij,kj->ki", moved[:, :3, :3], joints)
    blended = np.einsum("vk,kij->vij", fields["weights"], moved)
    return np.einsum("vij,vj->vi", blended[:, :3, :3], posed) + blended[:, :3, 3] + trans


def write_body(path: Path, fields: dict[str, Any], protocol: int = 2) -> Path:
    """Write a body as an archive or as a pickle of plain arrays."""
    if path.suffix == ".npz":
        np.savez(path, **fields)
    else:
        path.write_bytes(pickle.dumps(fields, protocol=protocol))
    return path
