"""A small pose-space model for tests: a bent beam of two joints, two overlapping regions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.interpolation import mass_products
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.mesh.embedding import embed
from supple.mesh.tets import TetMesh
from supple.reduction.regions.region import Region
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.motion.motion import Motion
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.tet_rig import fit_tet_rig
from supple.scenes.bodies.beam import beam

MODES = (4, 3)


@cache
def bent_beam() -> dict[str, Any]:
    """Return the beam's surface, rig, tets and embedding."""
    mesh: TetMesh = beam(cells=(10, 2, 2))
    surface, _ = mesh.surface()
    low, high = surface.bounds
    along = (surface.vertices[:, 0] - low[0]) / (high[0] - low[0])
    share = np.clip(3 * along - 1, 0.05, 0.95)
    middle = (low + high) / 2
    skeleton = Skeleton(
        ["root", "tip"], [-1, 0], [[low[0], *middle[1:]], [(high - low)[0] / 2, 0, 0]]
    )
    bind = np.linalg.inv(skeleton.rest_world())
    weights = np.stack([1 - share, share], axis=1)
    joints = np.broadcast_to([0, 1], weights.shape)
    skin = SkinnedRig(JointPose(skeleton), surface.vertices, joints, weights, bind)
    poses = np.zeros((3, 6))
    poses[1, 5], poses[2, 4] = 0.6, -0.5
    swelling = np.zeros((3, len(surface.vertices), 3))
    swelling[1, :, 1] = 0.01 * share
    rig = PoseSpaceDeformation(skin, poses, swelling, names=["neutral", "up", "side"])
    tet_rig = fit_tet_rig(rig, surface, mesh, poses[1:], names=["up", "side"])
    fixed = np.flatnonzero(mesh.vertices[:, 0] <= low[0] + 1e-9)
    embedding = embed(surface.vertices, mesh)
    return {
        "surface": surface,
        "rig": rig,
        "mesh": mesh,
        "tet_rig": tet_rig,
        "fixed": fixed,
        "embedding": embedding,
    }


def _sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return random values with the same zero columns at all poses."""
    reached = rng.random((1, shape[1], 1, shape[3])) < 0.4
    return np.where(reached, rng.standard_normal(shape), 0.0)


def _triangles(rng: np.random.Generator, count: int, r: int) -> np.ndarray:
    """Upper triangles, random but for one entry that is 0 in all: two regions that are apart."""
    packed = rng.standard_normal((count, r * (r + 1) // 2))
    packed[:, r - 1] = 0.0
    return packed


def sample_fields(seed: int = 0, interpolation: str = "frames") -> dict[str, Any]:
    """Return arguments of `PoseSpaceModel.make`, with random bases and cubature."""
    rng = np.random.default_rng(seed)
    body = bent_beam()
    mesh, fixed = body["mesh"], body["fixed"]
    n, m = len(mesh.vertices), 3
    x = mesh.vertices[:, 0]
    part = (x - x.min()) / np.ptp(x)
    free = np.setdiff1d(np.arange(n), fixed)
    first, second = free[part[free] < 0.7], free[part[free] > 0.4]
    regions = (
        Region("near", first, 1 - part[first]),
        Region("far", second, part[second]),
    )
    material = Material("stvk", young=3e4, poisson=0.4)
    mass = ElasticBody(mesh, material).vertex_masses()
    bases = [
        tuple(
            _basis(rng, region, mass, count) for region, count in zip(regions, MODES, strict=True)
        )
        for _ in range(m)
    ]
    turns = np.concatenate([0.3 * rng.standard_normal((m, n, 3)), np.ones((m, n, 1))], axis=2)
    turns[0] = [0, 0, 0, 1]
    turns /= np.linalg.norm(turns, axis=2, keepdims=True)
    times = np.linspace(0, 1, 13)
    motion = Motion(times, np.sin(times)[:, None] * np.linspace(0, 0.4, 6), name="wag")
    return body | {
        "name": "beam",
        "motions": {"wag": motion},
        "material": material,
        "pose_weights": PoseWeights(
            body["tet_rig"].poses,
            body["tet_rig"].pose_weights.scales,
            names=["neutral", "up", "side"],
        ),
        "interpolation": interpolation,
        "regions": regions,
        "bases": bases,
        "rotations": turns if interpolation == "frames" else None,
        "mass_products": mass_products(bases, regions, mass),
        "root_eigenvalues": np.linspace(10, 90, sum(MODES)),
        "elastic_tets": np.sort(rng.choice(len(mesh.tets), 12, replace=False)),
        "elastic_weights": rng.random((m, 12)),
        "stiffness_corrections": _triangles(rng, m + 1, sum(MODES)),
        "correction_ends": np.array([[0, 2]]),
        "inertial_vertices": np.sort(rng.choice(free, 8, replace=False)),
        "inertial_weights": rng.random((m, 8)),
        "inertial_corrections": _sparse(rng, (m, 8, 3, sum(MODES))),
        "parents": np.array([-1, 0, 0]),
        "seed": seed,
        "report": {"elastic_error": {"train": 0.01, "held_out": 0.015}, "poses": 3},
        "extras": {"stvk.cubic": rng.standard_normal((3, 2)).astype(np.float32)},
    }


def _basis(rng: np.random.Generator, region: Region, mass: np.ndarray, count: int) -> np.ndarray:
    """Random columns that are zero where the weight is, with UᵀMU = 1."""
    share = mass[region.vertices]
    columns = rng.standard_normal((len(share), 3, count)) * region.weights[:, None, None]
    root = np.sqrt(share)[:, None, None]
    unit, _ = np.linalg.qr((columns * root).reshape(-1, count))
    return unit.reshape(len(share), 3, count) / root


@cache
def sample_model(seed: int = 0, interpolation: str = "frames") -> PoseSpaceModel:
    """A model of the beam."""
    return PoseSpaceModel.make(**sample_fields(seed, interpolation))
