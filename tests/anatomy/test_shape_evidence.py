"""Shape tells sides, limbs, ears, machines and hands, whatever the pose, mesh and names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.sample_bodies import BodyParts, figure, refined, rod
from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.roles import HARD
from supple.formats.load import load
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs

pytestmark = pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")


def nameless(parts: BodyParts) -> list[str]:
    return [f"joint_{number}" for number in range(len(parts.names))]


def entries(parts: BodyParts, anatomy: Anatomy) -> dict[str, str]:
    """Roles by the names that the parts have."""
    own = {f"joint_{k}": name for k, name in enumerate(parts.names)}
    return {own.get(joint, joint): each.role for joint, each in anatomy.entries.items()}


def area_of(anatomy: Anatomy, *roles: str) -> float:
    """Part of the skin that has some roles."""
    area = anatomy.surface.vertex_areas()
    return float(area[np.isin(anatomy.role, roles)].sum() / area.sum())


def test_left_and_right_are_distinguished_without_names():
    parts = figure()
    anatomy = anatomy_of(parts.character(names=nameless(parts)), use_names=False)
    own = {f"joint_{k}": name for k, name in enumerate(parts.names)}
    twins = {own[joint]: own[other] for joint, other in anatomy.mirrored.items()}
    assert {name for name in parts.names if name.endswith(".L")} <= {*twins}
    assert all(
        other == name[:-1] + ("R" if name[-1] == "L" else "L") for name, other in twins.items()
    )


def test_uneven_weights_give_even_maps():
    even, uneven = figure(), figure()
    arm = next(k for k, (v, _, _) in enumerate(uneven.skins) if v[:, 0].min() > 0.05)
    vertices, triangles, weights = uneven.skins[arm]
    forearm, hand = (uneven.names.index(f"{name}.L") for name in ("forearm", "hand"))
    weights = weights.copy()
    weights[:, forearm] += 0.3 * weights[:, hand]
    weights[:, hand] *= 0.7
    uneven.skins[arm] = (vertices, triangles, weights)
    anatomy = anatomy_of(uneven.character())
    skin = anatomy.skin
    assert skin is not None
    assert skin.mirror is not None
    other = skin.mirror.counterpart @ anatomy.share
    np.testing.assert_allclose(other, anatomy.share, atol=1e-3)
    assert entries(even, anatomy_of(even.character())) == entries(uneven, anatomy)


def test_sides_are_those_of_the_pose_the_skin_was_bound_in():
    """A rest pose may be a stride; then left and right mirror each other no more."""
    body = figure().character()
    (rig,) = skinned_rigs(body.rig)
    pose = rig.rest_pose.copy()
    bent = [k for k, each in enumerate(rig.parameters) if each.name.startswith("thigh.L")]
    pose[bent[0]] += 0.7
    strode = Character("stride", SurfaceMesh(rig(pose), body.surface.triangles), rig, {})
    anatomy = anatomy_of(strode, use_names=False)
    usual = anatomy_of(body, use_names=False)
    assert anatomy.mirrored == usual.mirrored
    assert anatomy.mirrored["thigh.L"] == "thigh.R"


def test_an_ankle_belongs_to_the_foot_whatever_its_regions_are():
    """SMPL has an ankle and toes, others one foot: all beyond the ankle is hard."""
    parts = figure()
    for side, x in (("L", 1), ("R", -1)):
        parts.joint(f"toes.{side}", f"foot.{side}", (0.1 * x, 0.05, 0))
        leg = rod((0.1 * x, 0.95, 0), (0.1 * x, 0.0, 0), np.linspace(0.085, 0.05, 28))
        own = next(
            k
            for k, (v, _, _) in enumerate(parts.skins)
            if v[:, 1].max() < 1.0 and np.sign(v[:, 0].mean()) == x
        )
        names = [f"{name}.{side}" for name in ("thigh", "shin", "foot", "toes")]
        parts.skins.pop(own)
        parts.skin(leg, names, 0.03)
    found = entries(parts, anatomy_of(parts.character(names=nameless(parts)), use_names=False))
    assert {found[f"{name}.{side}"] for name in ("foot", "toes") for side in "LR"} == {"end"}
    assert {found["shin.L"], found["thigh.R"]} <= {"forearm", "limb"}


def machine() -> BodyParts:
    """Boxes, each on a joint of its own."""
    parts = BodyParts()
    parts.joint("joint_0", None, (0, 0, 0))
    parts.skin(rod((0, 0, 0), (0, 1, 0), [0.3] * 4), ["joint_0"], 0.1)
    for k, x in enumerate((-0.6, 0.6, -0.4, 0.4)):
        parts.joint(f"joint_{k + 1}", "joint_0", (x, 0.5, 0))
        parts.skin(rod((x, 0.5, 0), (x, -0.4, 0), [0.1] * 4), [f"joint_{k + 1}"], 0.1)
    return parts


def test_a_machine_of_rigid_pieces_is_hard_all_over():
    anatomy = anatomy_of(machine().character())
    assert anatomy.hard.all()
    assert anatomy.hard_part == pytest.approx(1.0)


def test_bending_parts_of_a_machine_are_firm_not_hard():
    parts = machine()
    parts.joint("joint_5", "joint_1", (-0.6, 0, 0))
    vertices, triangles, weights = parts.skins[1]
    weights = weights.copy()
    low = vertices[:, 1] < 0.1
    weights[low, 5], weights[low, 1] = 0.6, 0.4
    parts.skins[1] = (vertices, triangles, weights)
    anatomy = anatomy_of(parts.character())
    assert 0 < anatomy.hard.mean() < 1
    assert anatomy.firmness[~anatomy.hard].min() > 1


def hand() -> BodyParts:
    """A palm on a stump of arm with five fingers of two joints."""
    parts = BodyParts()
    parts.joint("wrist", None, (0, 0, 0))
    parts.joint("palm", "wrist", (0.05, 0, 0))
    palm = rod((-0.05, 0, 0), (0.14, 0, 0), [0.03, 0.03, 0.03, 0.035, 0.04, 0.04, 0.04, 0.035])
    parts.skin(palm, ["wrist", "palm"], 0.02)
    for k in range(5):
        start, way = np.array([0.12, 0.0, 0.035 - 0.022 * k]), np.array([0.05 + 0.012 * k, 0, 0])
        if k == 0:  # the thumb
            start, way = np.array([0.05, 0.0, 0.03]), np.array([0.03, 0, 0.05])
        parts.joint(f"finger{k}a", "palm", tuple(start))
        parts.joint(f"finger{k}b", f"finger{k}a", tuple(start + way / 2))
        finger = rod(tuple(start - 0.2 * way), tuple(start + way), [0.008] * 8, around=8)
        parts.skin(finger, [f"finger{k}a", f"finger{k}b"], 0.01)
    return parts


@pytest.mark.parametrize("named", [True, False])
def test_a_hand_by_itself_has_flesh_but_for_its_stump(named: bool):
    parts = hand()
    anatomy = anatomy_of(parts.character(), use_names=named)
    shares = {joint: each.share for joint, each in anatomy.entries.items()}
    assert {each.role for each in anatomy.entries.values()} == {"hand"}
    assert shares["wrist"] < HARD
    assert all(share >= HARD for joint, share in shares.items() if joint != "wrist")


@pytest.mark.parametrize("file", ["gltf_characters/q_Cow.glb", "untuned/q_Bull.glb"])
def test_ears_and_horns_are_found_without_joints_or_names(assets: Path, file: str):
    anatomy = anatomy_of(load(assets / file), use_names=False)
    assert 0.005 < area_of(anatomy, "ear") < 0.03
    assert 0.005 < area_of(anatomy, "horn") < 0.03
    assert not anatomy.hard[np.array(anatomy.role) == "ear"].any()


def test_a_frill_on_a_neck_is_hard_and_the_neck_is_not(assets: Path):
    anatomy = anatomy_of(load(assets / "gltf_characters/q_Triceratops.glb"))
    neck = np.array(anatomy.joints)[anatomy.region] == "Neck"
    role, area = np.array(anatomy.role), anatomy.surface.vertex_areas()
    frill = neck & (role == "head")
    assert 0.2 < area[frill].sum() / area[neck].sum() < 0.8
    assert anatomy.hard[frill].all()
    assert not anatomy.hard[neck & (role == "neck")].any()


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("gltf_characters/q_Cow.glb", True),
        ("gltf_characters/q_Rat.glb", False),
        ("gltf_characters/q_Triceratops.glb", True),
        ("gltf_characters/hand_left.glb", False),
        ("untuned/q_Apatosaurus.glb", False),
        ("rig_space/m2m_dragon.glb", False),
    ],
)
def test_four_times_as_many_triangles_change_little(assets: Path, file: str, named: bool):
    usual = load(assets / file)
    (rig,) = skinned_rigs(usual.rig)
    weights = rig.weight_matrix().toarray()
    triangles = usual.surface.triangles
    bound, faces, shares = refined(rig.vertices, triangles, weights)
    joints = np.tile(np.arange(weights.shape[1]), (len(bound), 1))
    fine = rig.with_influences(bound, joints, shares)
    denser = Character("denser", SurfaceMesh(fine(fine.rest_pose), faces), fine, {})
    coarse = Character("coarse", SurfaceMesh(rig(rig.rest_pose), triangles), rig, {})
    before, after = (anatomy_of(each, use_names=named) for each in (coarse, denser))
    # The first vertices are those of the coarse mesh.
    n, area = len(rig.vertices), coarse.surface.vertex_areas()
    changed = before.hard != after.hard[:n]
    assert area[changed].sum() < 0.03 * area.sum()
