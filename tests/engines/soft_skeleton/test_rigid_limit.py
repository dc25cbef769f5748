"""Soft skeletons whose flesh is rigid move as MuJoCo's bodies do, and keep their momenta."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from helpers.soft_skeleton_samples import soft_body, soft_hand
from supple.engines.soft_skeleton.bones.body_points import point_tables
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator

MODELS = {"hand": soft_hand, "body": soft_body}


def owners(model: SoftSkeletonModel) -> np.ndarray:
    points = model.points
    n, K = len(points.rest), len(model.parents)
    weights = sp.csr_array((points.weights, points.bones, points.bone_starts), (n, K))
    return np.asarray(weights.argmax(axis=1)).ravel()


@cache
def rigid(name: str) -> SoftSkeletonModel:
    """The model with every point of mass on one bone, and none on flesh."""
    model = MODELS[name]()
    own, K = owners(model), len(model.parents)
    # Bones that no point is on have a little mass: MuJoCo wants some.
    light = np.setdiff1d(np.arange(K), own)
    away = 0.03 * np.ptp(model.joints, axis=0).max() * np.concatenate([np.eye(3), -np.eye(3)])
    rest = np.concatenate([model.points.rest, *(model.joints[k] + away for k in light)])
    own = np.concatenate([own, np.repeat(light, 6)])
    few = 2e-3 * model.masses.sum() * np.ones(6 * len(light))
    masses = np.concatenate([model.masses, few])
    # Second moments of every bone are those of a body: points in a line have none across.
    extra, on, heavy = [], [], []
    for bone in range(K):
        mass, middle = masses[own == bone].sum(), rest[own == bone].mean(axis=0)
        extra.append(middle + away.max() * np.concatenate([np.eye(3), -np.eye(3)]))
        on += [bone] * 6
        heavy += [0.05 * mass] * 6
    rest, own = np.concatenate([rest, *extra]), np.concatenate([own, on])
    masses = np.concatenate([masses, heavy])
    n = len(rest)
    weights = sp.csr_array((np.ones(n), (np.arange(n), own)), (n, K))
    return replace(model, points=point_tables(model.parents, rest, weights), masses=masses)


def moving(model: SoftSkeletonModel, h: float, **options) -> SoftSkeletonSimulator:
    """A simulator of a free body that turns at 2 rad/s, its joints at 1 rad/s."""
    free = {"root": "free", "tracking": 0.0, "joint_damping": 0.0, "self_contact": False}
    none = {"gravity": (0, 0, 0), "obstacles": (), "substep": h, "alpha": 0.0, "beta": 0.0}
    none["joint_limits"] = None
    used: dict[str, Any] = free | none | options
    sim = SoftSkeletonSimulator(model, h, **used)
    sim.start_moving(speeds(model))
    return sim


def speeds(model: SoftSkeletonModel) -> np.ndarray:
    """(3 + 3K,) velocity of the first joint, and of every joint about its parent."""
    random = np.random.default_rng(3)
    K = len(model.parents)
    turns = random.standard_normal((K, 3))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    turns[0] *= 2.0
    return np.concatenate([[0.1, 0.0, 0.05], turns.ravel()])


def run(model: SoftSkeletonModel, h: float, seconds: float, **options) -> SoftSkeletonSimulator:
    sim = moving(model, h, **options)
    for _ in range(round(seconds / h)):
        sim.step()
    return sim


def oracle(model: SoftSkeletonModel, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Joints (K, 3) and turns (K, 3, 3) after a while, by MuJoCo with a tiny step."""
    mujoco = pytest.importorskip("mujoco", reason="no MuJoCo")
    own, parents, joints = owners(model), model.parents, model.joints

    def body(k: int) -> str:
        points, masses = model.points.rest[own == k], model.masses[own == k]
        middle = masses @ points / masses.sum()
        away = points - middle
        spread = (masses[:, None] * away).T @ away
        inertia = np.trace(spread) * np.eye(3) - spread
        offset = joints[k] - (joints[parents[k]] if k else 0)
        numbers = " ".join(f"{inertia[i, j]:.17g}" for i, j in ((0, 0), (1, 1), (2, 2)))
        numbers += " " + " ".join(f"{inertia[i, j]:.17g}" for i, j in ((0, 1), (0, 2), (1, 2)))
        place = " ".join(f"{value:.17g}" for value in offset)
        centre = " ".join(f"{value:.17g}" for value in middle - joints[k])
        joint = "<freejoint/>" if k == 0 else '<joint type="ball" damping="0"/>'
        children = "".join(body(int(c)) for c in np.flatnonzero(parents == k))
        return (
            f'<body pos="{place}">{joint}<inertial pos="{centre}" mass="{masses.sum():.17g}" '
            f'fullinertia="{numbers}"/>{children}</body>'
        )

    h = 1 / 4000
    option = f'<option timestep="{h}" gravity="0 0 0" integrator="RK4"/>'
    limits = '<compiler boundmass="1e-9" boundinertia="1e-12" balanceinertia="true"/>'
    text = f"<mujoco>{limits}{option}<worldbody>{body(0)}</worldbody></mujoco>"
    there = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(there)
    # MuJoCo lists bodies depth first; ours are in their own order.
    order: list[int] = []

    def listed(k: int) -> None:
        order.append(k)
        for child in np.flatnonzero(parents == k):
            listed(int(child))

    listed(0)
    started = speeds(model)
    data.qvel[:3] = started[:3]
    data.qvel[3:] = started[3:].reshape(-1, 3)[order].ravel()
    for _ in range(round(seconds / h)):
        mujoco.mj_step(there, data)
    places, turns = np.empty((len(parents), 3)), np.empty((len(parents), 3, 3))
    places[order], turns[order] = data.xpos[1:], data.xmat[1:].reshape(-1, 3, 3)
    return places, turns


@pytest.mark.parametrize("name", MODELS)
def test_a_rigid_body_moves_as_in_mujoco_and_nearer_with_shorter_steps(name):
    model, seconds = rigid(name), 0.25
    places, turns = oracle(model, seconds)
    size = np.ptp(model.skin.rest, axis=0).max()
    errors = []
    for h in (1 / 80, 1 / 160, 1 / 320):
        sim = run(model, h, seconds)
        errors.append(np.abs(sim.chain.positions - places).max() / size)
        turned = np.abs(sim.chain.rotations - turns).max()
    assert errors[0] < 0.02
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 0.6 * errors[1]
    assert turned < 0.02


@pytest.mark.parametrize("soft", [False, True], ids=["rigid", "with flesh"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("h", "part"), [(1 / 90, 0.03), (1 / 360, 0.01)])
def test_momenta_are_kept(name, soft, h, part):
    model = MODELS[name]() if soft else rigid(name)
    # Flesh hangs on bones that have no mass of their own: joints have their usual damping there.
    sim = moving(model, h, **({"joint_damping": 0.5, "beta": 0.01} if soft else {}))
    start = sim.momentum()
    for _ in range(round(1 / h)):
        sim.step()
    end = sim.momentum()
    for before, after in zip(start, end, strict=True):
        assert np.linalg.norm(after - before) < part * np.linalg.norm(before)
