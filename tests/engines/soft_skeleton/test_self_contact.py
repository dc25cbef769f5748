"""Self-contact of soft skeletons: it counts from the overlap that the rig's own pose has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from helpers.soft_skeleton_samples import soft_body, soft_hand
from supple.arrays import Floats
from supple.engines.soft_skeleton.build import build
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.scenes.characters.hand import hand_pose
from supple.scenes.characters.human import human_pose

FINGERS = ("index", "middle", "ring", "pinky")
WEIGHTLESS: dict[str, Any] = {"gravity": (0, 0, 0)}


def fist(part: float = 1.0) -> Floats:
    """Pose of a fist, or part of the way to it; the fingers of a whole one overlap the palm."""
    bend = 95.0 * part, 110.0 * part, 80.0 * part, 0.0
    return hand_pose(dict.fromkeys(FINGERS, bend))


def off(sim: SoftSkeletonSimulator, pose: Floats, root: Floats | None = None) -> float:
    """Largest distance of the skin from the rig's, as a part of the size."""
    root = np.eye(4) if root is None else root
    rig = sim.model.rig(np.asarray(pose)) @ root[:3, :3].T + root[:3, 3]
    size = np.linalg.norm(np.ptp(rig, axis=0))
    return float(np.linalg.norm(sim.surface() - rig, axis=1).max() / size)


def held(model: SoftSkeletonModel, pose: Floats, **options: Any) -> SoftSkeletonSimulator:
    sim = SoftSkeletonSimulator(model, **WEIGHTLESS, **options)
    sim.reset(pose)
    for _ in range(30):
        sim.step(pose)
    return sim


def test_a_held_pose_that_overlaps_is_the_rigs():
    sim = held(soft_hand(), fist())
    assert off(sim, fist()) < 1e-6
    assert sim.contacts().forces.size == 0


def test_a_body_whose_arm_is_in_its_chest_stays_as_the_rig_has_it():
    folded = human_pose({"left_shoulder": (0.0, -60.0, -75.0), "left_elbow": (0.0, -100.0, 0.0)})
    assert off(held(soft_body(), folded), folded) < 1e-6


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
@pytest.mark.parametrize("name", ["CesiumMan", "mh_heavy_male_jump", "q_Snake", "q_Husky"])
def test_held_poses_of_characters_from_files_are_the_rigs(assets, name):
    character = supple.load(assets / "gltf_characters" / f"{name}.glb")
    model = build(character, tets=2_000, handles=12, cubature=40, points=80)
    motion = list(model.motions.values())[-1]
    sim = SoftSkeletonSimulator(model, **WEIGHTLESS)
    for part in (0.3, 0.7):
        pose, root = (each[int(part * motion.n_frames)] for each in (motion.poses, motion.roots))
        sim.reset(pose, root)
        for _ in range(12):
            sim.step(pose, root)
        assert off(sim, pose, root) < 1e-6


def test_a_fist_that_closes_slowly_comes_to_the_rigs():
    sim = SoftSkeletonSimulator(soft_hand(), **WEIGHTLESS)
    for part in np.linspace(0, 1, 45):
        sim.step(fist(part))
    for _ in range(45):
        sim.step(fist())
    assert off(sim, fist()) < 1e-4


def pushed_fist(*, own: bool) -> SoftSkeletonSimulator:
    """A fist whose index finger is pushed into the palm, with its flesh that overlaps already."""
    model = soft_hand()
    tip = int(np.argmin(np.linalg.norm(model.rig(hand_pose({})) - model.joints[6], axis=1)))
    inwards = model.joints[0] - model.rig(fist())[tip]
    inwards *= 3.0 / 20 / np.linalg.norm(inwards)
    places = model.rig(hand_pose({}))
    near = np.argsort(np.linalg.norm(places - places[tip], axis=1))[:20]
    forces = dict.fromkeys(near.tolist(), inwards)
    sim = SoftSkeletonSimulator(model, self_contact=own, tracking=3.0, **WEIGHTLESS)
    sim.reset(fist())
    for _ in range(60):
        sim.step(fist(), forces=forces)
    return sim


def test_fingers_pushed_deeper_than_the_rig_has_them_are_pushed_back():
    free, stopped = pushed_fist(own=False), pushed_fist(own=True)
    assert off(stopped, fist()) < 0.7 * off(free, fist())
    assert np.linalg.norm(stopped.contacts().forces, axis=1).sum() > 0.5


def test_own_forces_sum_to_zero_where_the_rig_overlaps():
    sim = pushed_fist(own=True)
    gradient, hessian = np.zeros(sim.size), np.zeros((sim.size, sim.size))
    body = sim._skin, sim.chain, sim._target, sim.phi, np.zeros(sim.size)
    sim._contact.add(*body, 1.0, gradient, hessian)
    assert np.abs(gradient).max() > 0.01
    # They do no work when the whole body is moved or turned.
    assert np.abs(gradient[:6]).max() < 1e-9 * np.abs(gradient).max()
