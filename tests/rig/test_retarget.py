"""Retargeting: the target's limbs point where the source's do, whatever joints are called."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from supple.errors import SuppleError
from supple.formats.bvh import read_bvh
from supple.rig.motion.joint_names import joint_roles, match_joints, normalised_name
from supple.rig.motion.motion import Motion
from supple.rig.motion.retarget import retarget
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton

#: Parent and place at rest, arms out, of a person 1.7 m tall.
BODY: dict[str, tuple[str, list[float]]] = {
    "hips": ("", [0, 0.95, 0]),
    "spine": ("hips", [0, 1.05, 0]),
    "chest": ("spine", [0, 1.25, 0]),
    "neck": ("chest", [0, 1.45, 0]),
    "head": ("neck", [0, 1.55, 0.02]),
    "clavicle": ("chest", [0.05, 1.4, 0]),
    "upperarm": ("clavicle", [0.18, 1.4, 0]),
    "forearm": ("upperarm", [0.45, 1.4, 0]),
    "hand": ("forearm", [0.7, 1.4, 0]),
    "thigh": ("hips", [0.1, 0.9, 0]),
    "shin": ("thigh", [0.1, 0.5, 0]),
    "foot": ("shin", [0.1, 0.1, 0]),
    "toe": ("foot", [0.1, 0.03, 0.15]),
}
MIDDLE = ("hips", "spine", "chest", "neck", "head")
ARM, LEG = ("clavicle", "upperarm", "forearm", "hand"), ("thigh", "shin", "foot", "toe")
MIXAMO = {
    "hips": "Hips",
    "spine": "Spine",
    "chest": "Spine1",
    "neck": "Neck",
    "head": "Head",
    "clavicle": "Shoulder",
    "upperarm": "Arm",
    "forearm": "ForeArm",
    "hand": "Hand",
    "thigh": "UpLeg",
    "shin": "Leg",
    "foot": "Foot",
    "toe": "ToeBase",
}
LIMBS = [("upperarm", "forearm"), ("forearm", "hand"), ("thigh", "shin"), ("shin", "foot")]


def mixamo(role: str, side: str) -> str:
    return "mixamorig:" + {"L": "Left", "R": "Right", "": ""}[side] + MIXAMO[role]


def blender(role: str, side: str) -> str:
    plain = {
        "hips": "pelvis",
        "chest": "spine.002",
        "upperarm": "upper_arm",
        "clavicle": "shoulder",
    }
    return plain.get(role, role) + (f".{side}" if side else "")


def person(name, scale=1.0, arms=0.0, legs=0.0, frames=None, turned=None) -> JointPose:
    """A person; arms and legs turned down and out by degrees, rest frames at random by a seed."""
    rng = np.random.default_rng(frames)
    names: list[str] = []
    parents: list[int] = []
    places: list[np.ndarray] = []
    index: dict[tuple[str, str], int] = {}
    for side, sign in (("", 1), ("L", 1), ("R", -1)):
        for role, (parent, place) in BODY.items():
            if (side == "") != (role in MIDDLE):
                continue
            where = np.array(place, dtype=float)
            for chain, degrees, at in ((ARM[1:], -arms, "upperarm"), (LEG[:3], legs, "thigh")):
                if role in chain or (role == "toe" and at == "thigh"):
                    pivot, swing = (
                        np.array(BODY[at][1]),
                        Rotation.from_euler("z", degrees, degrees=True),
                    )
                    flat = where if role != "toe" else np.array(BODY["foot"][1], dtype=float)
                    where = pivot + swing.apply(flat - pivot) + (where - flat)
            above = (side if parent and parent not in MIDDLE else "", parent)
            index[side, role] = len(names)
            parents.append(index[above] if parent else -1)
            names.append(name(role, side))
            places.append(scale * where * [sign, 1, 1])
    world = np.array(places)
    if turned is not None:
        world = turned.apply(world)
    turns = (
        Rotation.random(len(names), rng=rng)
        if frames is not None
        else Rotation.identity(len(names))
    )
    moves, locals_ = [], []
    for joint, upper in enumerate(parents):
        above = turns[upper] if upper >= 0 else Rotation.identity()
        start = world[upper] if upper >= 0 else np.zeros(3)
        moves.append(above.inv().apply(world[joint] - start))
        locals_.append((above.inv() * turns[joint]).as_quat())
    return JointPose(Skeleton(names, parents, moves, locals_))


def lively(joints: JointPose, frames: int = 40) -> Motion:
    """Every joint swings; the body walks, turns and hops."""
    rng = np.random.default_rng(11)
    t = np.arange(frames) / 30
    phases, sizes = (
        rng.uniform(0, 6, joints.n_parameters),
        rng.uniform(0.1, 0.7, joints.n_parameters),
    )
    roots = np.tile(np.eye(4), (frames, 1, 1))
    roots[:, :3, :3] = Rotation.from_rotvec(np.outer(t, [0.1, 2.0, 0])).as_matrix()
    roots[:, :3, 3] = np.column_stack([t, 0.1 * np.sin(6 * t), 0.5 * t])
    return Motion(t, np.sin(5 * t[:, None] + phases) * sizes, roots, "lively", [7])


def world_places(motion: Motion, joints: JointPose) -> np.ndarray:
    return (motion.roots[:, None] @ joints.matrices(motion.poses))[..., :3, 3]


def limb_directions(motion: Motion, joints: JointPose, name) -> np.ndarray:
    """Unit directions of all limbs, (t, 8, 3)."""
    places = world_places(motion, joints)
    directions = []
    for side in ("L", "R"):
        for start, end in LIMBS:
            a, b = (joints.skeleton.joint(name(role, side)) for role in (start, end))
            directions.append(places[:, b] - places[:, a])
    stack = np.stack(directions, axis=1)
    return stack / np.linalg.norm(stack, axis=-1, keepdims=True)


def test_limbs_follow_whatever_the_names_rest_poses_frames_and_sizes():
    source = person(mixamo, frames=1)
    motion = lively(source)
    for arms, legs, frames, scale in ((0, 0, 2, 1.0), (45, 10, None, 1.3), (60, -5, 4, 0.4)):
        target = person(blender, scale, arms, legs, frames)
        result = retarget(motion, source, target)
        ours, theirs = (
            limb_directions(result, target, blender),
            limb_directions(motion, source, mixamo),
        )
        assert np.abs(ours - theirs).max() < 1e-9
        hips = world_places(result, target)[:, 0]
        # Legs spread at rest lower the hips a little.
        lower = np.cos(np.deg2rad(legs)) if legs else 1.0
        path = scale * world_places(motion, source)[:, 0]
        assert np.allclose(hips, path, rtol=1e-9 + 1.1 * (1 - lower))
        assert (result.cuts, result.name) == ((7,), "lively")
        assert result.poses.shape == (40, target.n_parameters)


def test_rest_gives_rest_when_rest_poses_agree_and_hands_follow_forearms_when_not():
    source = person(mixamo, frames=1)
    still = Motion([0.0], np.zeros((1, source.n_parameters)))
    same = retarget(still, source, person(blender, frames=3))
    assert np.abs(same.poses).max() < 1e-12
    assert np.abs(same.roots - np.eye(4)).max() < 1e-12
    target = person(blender, arms=50)
    lifted = retarget(still, source, target)
    arm, hand = (target.skeleton.joint(name) for name in ("upper_arm.L", "hand.L"))
    assert np.allclose(lifted.poses[0, 3 * arm : 3 * arm + 3], [0, 0, np.deg2rad(50)])
    assert np.abs(lifted.poses[0, 3 * hand : 3 * hand + 3]).max() < 1e-12
    foot = target.skeleton.joint("foot.L")
    assert np.abs(lifted.poses[0, 3 * foot : 3 * foot + 3]).max() < 1e-12


def test_a_body_that_faces_elsewhere_moves_its_own_way():
    source = person(mixamo, frames=1)
    motion = lively(source)
    for turned in (
        Rotation.from_euler("y", 180, degrees=True),
        Rotation.from_euler("y", -90, degrees=True),
    ):
        target = person(blender, frames=6, turned=turned)
        result = retarget(motion, source, target)
        ours, theirs = (
            limb_directions(result, target, blender),
            limb_directions(motion, source, mixamo),
        )
        assert np.abs(ours - turned.apply(theirs.reshape(-1, 3)).reshape(ours.shape)).max() < 1e-9
        hips = turned.apply(world_places(motion, source)[:, 0])
        assert np.abs(world_places(result, target)[:, 0] - hips).max() < 1e-9


def test_joints_without_a_match_keep_their_rest():
    source = person(mixamo)
    whole = person(blender).skeleton
    extra = Skeleton(
        [*whole.names, "tail", "sword"],
        [*whole.parents, 0, whole.joint("hand.L")],
        np.vstack([whole.translations, [[0, 0, -0.2], [0.1, 0, 0]]]),
    )
    result = retarget(lively(source), source, JointPose(extra))
    assert not result.poses[:, -6:].any()
    matched = match_joints(source.skeleton, extra)
    assert set(extra.names) - set(matched) == {"tail", "sword"}
    assert matched["upper_arm.L"] == "mixamorig:LeftArm"


def test_unmatched_skeletons_are_refused_without_a_name_map():
    source = person(mixamo)
    snake = Skeleton([f"segment {i}" for i in range(9)], range(-1, 8), [[0, 0, 0.1]] * 9)
    with pytest.raises(SuppleError, match="only 0 of the target's 9 joints"):
        retarget(lively(source), source, JointPose(snake))
    names = {"segment 0": "mixamorig:Hips", "segment 4": "mixamorig:Spine"}
    assert match_joints(source.skeleton, snake, names) == names
    moved = retarget(lively(source), source, JointPose(snake), names)
    assert moved.poses[:, 12:15].any()
    with pytest.raises(SuppleError, match="no joint"):
        retarget(lively(source), source, JointPose(snake), {"segment 77": "mixamorig:Hips"})
    other = Motion([0.0], np.zeros((1, 3)))
    with pytest.raises(SuppleError, match="have 3 numbers"):
        retarget(other, source, source)


@pytest.mark.parametrize(
    ("name", "side", "plain"),
    [
        ("mixamorig:LeftUpLeg", "L", "upleg"),
        ("Bip01 R Forearm", "R", "forearm"),
        ("ValveBiped.Bip01_L_Calf", "L", "calf"),
        ("DEF-upper_arm.R", "R", "upperarm"),
        ("LoArm_L", "L", "loarm"),
        ("lefthand", "L", "hand"),
        ("LHipJoint", "L", "hip"),
        ("rShin", "R", "shin"),
        ("Armature|Spine_01", "", "spine1"),
        ("clavicle", "", "clavicle"),
        ("root", "", "root"),
        ("Ring1_L", "L", "ring1"),
        ("", "", ""),
    ],
)
def test_names_are_understood(name, side, plain):
    assert normalised_name(name) == (side, plain)


def test_shoulder_leg_and_hip_mean_what_the_others_leave_them():
    def roles(*names: str) -> dict[tuple[str, str], str]:
        skeleton = Skeleton(names, range(-1, len(names) - 1), np.zeros((len(names), 3)))
        return {key: names[joints[0]] for key, joints in joint_roles(skeleton).items()}

    old = roles(
        "Hips", "LeftCollar", "LeftShoulder", "LeftElbow", "LeftWrist", "LeftHip", "LeftKnee"
    )
    assert old["L", "clavicle"] == "LeftCollar"
    assert old["L", "upperarm"] == "LeftShoulder"
    assert old["L", "thigh"] == "LeftHip"
    assert old["L", "hand"] == "LeftWrist"
    new = roles("Hips", "LeftShoulder", "LeftArm", "LeftForeArm", "LeftUpLeg", "LeftLeg")
    assert new["L", "clavicle"] == "LeftShoulder"
    assert new["L", "upperarm"] == "LeftArm"
    assert new["L", "shin"] == "LeftLeg"
    assert new["", "hips"] == "Hips"
    short = roles("pelvis", "leg.L", "shin.L")
    assert short["L", "thigh"] == "leg.L"


def makehuman(assets: Path, frames: int | None) -> JointPose:
    """The MakeHuman skeleton, its joints where the base mesh has them, in metres."""
    folder = assets / "makehuman"
    rows = [line.split() for line in (folder / "base.obj").read_text().splitlines()]
    vertices = 0.1 * np.array([row[1:4] for row in rows if row[:1] == ["v"]], dtype=float)
    data = json.loads((folder / "default.mhskel").read_text())
    names: list[str] = []
    left = dict(data["bones"])
    while left:  # parents first
        ready = [name for name, bone in left.items() if bone["parent"] in (None, *names)]
        assert ready
        names += ready
        for name in ready:
            del left[name]
    bones = [data["bones"][name] for name in names]
    places = np.array([vertices[data["joints"][bone["head"]]].mean(axis=0) for bone in bones])
    parents = [names.index(bone["parent"]) if bone["parent"] else -1 for bone in bones]
    turns = Rotation.random(len(names), rng=np.random.default_rng(frames))
    moves, locals_ = [], []
    for joint, parent in enumerate(parents):
        above = turns[parent] if parent >= 0 else Rotation.identity()
        start = places[parent] if parent >= 0 else np.zeros(3)
        moves.append(above.inv().apply(places[joint] - start))
        locals_.append((above.inv() * turns[joint]).as_quat())
    return JointPose(Skeleton(names, parents, moves, locals_))


def test_a_recorded_jump_moves_the_makehuman_body(assets: Path):
    file = read_bvh(assets / "motion_bvh" / "cmu_01_01_jumps.bvh")
    motion = Motion(file.motion.times[1::40], file.motion.poses[1::40], file.motion.roots[1::40])
    target = makehuman(assets, 8)
    matched = match_joints(file.skeleton, target.skeleton)
    assert matched["root"] == "Hips"
    assert matched["lowerleg01.R"] == "RightLeg"
    assert matched["wrist.L"] == "LeftHand"
    assert (matched["spine05"], matched["spine01"]) == ("LowerBack", "Spine1")
    result = retarget(motion, file.joint_pose, target)
    ours, theirs = world_places(result, target), world_places(motion, file.joint_pose)
    bones = [("upperarm01", "lowerarm01"), ("lowerarm01", "wrist")]
    bones += [("upperleg01", "lowerleg01"), ("lowerleg01", "foot")]
    for start, end in bones:
        for side in (".L", ".R"):
            a, b = (target.skeleton.joint(name + side) for name in (start, end))
            c, d = (file.skeleton.joint(matched[name + side]) for name in (start, end))
            mine, wanted = ours[:, b] - ours[:, a], theirs[:, d] - theirs[:, c]
            cosines = np.sum(mine * wanted, axis=1)
            cosines /= np.linalg.norm(mine, axis=1) * np.linalg.norm(wanted, axis=1)
            assert cosines.min() > 1 - 1e-9
    # The feet neither sink nor hover, and the jump is as high as the body is large.
    assert -0.1 < ours[..., 1].min() < 0.1
    ratio = np.ptp(ours[:, 0, 1]) / np.ptp(theirs[:, 0, 1])
    assert 0.7 < ratio < 1.4


def test_a_walk_moves_from_makehumans_older_skeleton_to_a_person(assets: Path):
    file = read_bvh(assets / "motion_bvh" / "mh_walk1.bvh")
    target = person(blender, frames=5)
    result = retarget(file.motion, file.joint_pose, target)
    matched = match_joints(file.skeleton, target.skeleton)
    assert matched["thigh.L"] == "UpLeg_L"
    assert len(matched) == target.skeleton.n_joints
    shins = world_places(result, target)[:, target.skeleton.joint("foot.L")]
    assert np.ptp(shins[:, 2]) > 0.3  # steps forward and back
    assert -0.1 < world_places(result, target)[..., 1].min() < 0.1
