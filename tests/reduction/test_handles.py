"""Handles from bones: a skeleton's limbs, and where their regions have their middle."""

import warnings
from functools import cache

import numpy as np
import pytest

import supple
from supple.errors import SuppleError, SuppleWarning
from supple.mesh.embedding import locate
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.reduction.regions.handles import Handle, handle_vertices, handles_from_bones
from supple.reduction.regions.limbs import limbs_of
from supple.reduction.regions.region_weights import regions_of
from supple.rig.protocol import FunctionRig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig, skinned_rigs
from supple.scenes.modelling.solids import polygonise, smooth_union, tapered_limb

# Joints of an animal: parent, place, radius of the flesh between the parent and it.
ANIMAL = {
    "root": (None, (0.0, 0.0, 0.0), 0.0),
    "hips": ("root", (0.3, 0.5, 0.0), 0.0),
    "spine": ("hips", (0.0, 0.55, 0.0), 0.14),
    "chest": ("spine", (-0.3, 0.5, 0.0), 0.14),
    "neck": ("chest", (-0.45, 0.65, 0.0), 0.09),
    "head": ("neck", (-0.6, 0.72, 0.0), 0.1),
    "jaw": ("head", (-0.68, 0.66, 0.0), 0.03),
    "tail1": ("hips", (0.5, 0.55, 0.0), 0.04),
    "tail2": ("tail1", (0.8, 0.5, 0.0), 0.03),
    **{
        f"{end}{part}.{side}": (parent, (x, y, sign * z), 0.05 if part != "Toe" else 0.02)
        for side, sign in (("L", 1), ("R", -1))
        for end, stem, x0 in (("front", "chest", -0.3), ("back", "hips", 0.3))
        for part, parent, x, y, z in (
            ("Leg", stem, x0, 0.42, 0.12),
            ("Shin", f"{end}Leg.{side}", x0, 0.2, 0.14),
            ("Foot", f"{end}Shin.{side}", x0, 0.03, 0.14),
            ("Toe", f"{end}Foot.{side}", x0 - 0.06, 0.02, 0.14),
        )
    },
}


def skinned(surface: SurfaceMesh, joints: dict, parents: dict | None = None) -> SkinnedRig:
    """Every vertex follows the start of the nearest bone."""
    names = list(joints)
    hangs = {name: (parents or {}).get(name, joints[name][0]) for name in names}
    places = {name: np.array(joints[name][1]) for name in names}
    local = [places[name] - (places[hangs[name]] if hangs[name] else np.zeros(3)) for name in names]
    skeleton = Skeleton(names, [names.index(hangs[n]) if hangs[n] else -1 for n in names], local)
    owners, away = [], []
    for name, (parent, place, radius) in joints.items():
        if radius == 0:
            continue
        start, along = places[parent], np.array(place) - places[parent]
        t = np.clip((surface.vertices - start) @ along / (along @ along), 0, 1)
        owners.append(names.index(parent))
        away.append(np.linalg.norm(surface.vertices - start - t[:, None] * along, axis=1) - radius)
        if not any(joints[other][0] == name for other in names):  # and the tip has some flesh
            owners.append(names.index(name))
            away.append(np.linalg.norm(surface.vertices - place, axis=1) - radius)
    nearest = np.array(owners)[np.argmin(away, axis=0)]
    bind = np.linalg.inv(skeleton.rest_world())
    weights = np.ones((len(nearest), 1))
    return SkinnedRig(JointPose(skeleton), surface.vertices, nearest[:, None], weights, bind)


@cache
def animal() -> tuple[SurfaceMesh, TetMesh]:
    solids = [
        tapered_limb(ANIMAL[parent][1], place, radius, radius)
        for parent, place, radius in ANIMAL.values()
        if parent is not None and radius > 0
    ]
    surface = polygonise(smooth_union(solids, 0.03), ((-0.9, -0.1, -0.3), (1, 0.95, 0.3)), 0.025)
    return surface, tetrahedralise(surface, tets=9000)


def test_an_animal_has_a_trunk_a_head_four_legs_and_a_tail():
    surface, mesh = animal()
    limbs = limbs_of(skinned(surface, ANIMAL), surface, mesh)
    groups = {limb.name: set(limb.joints) for limb in limbs}
    assert [len(limbs), limbs[0].name in ("hips", "spine")] == [7, True]
    assert {"root", "hips", "spine", "chest"} == set(limbs[0].joints)
    assert {"neck", "head", "jaw"} in groups.values()
    assert {"tail1", "tail2"} in groups.values()
    for end in ("front", "back"):
        for side in "LR":
            leg = {f"{end}{part}.{side}" for part in ("Leg", "Shin", "Foot", "Toe")}
            assert leg in groups.values()
    assert sum(limb.part for limb in limbs) == pytest.approx(1.0)
    together = np.concatenate([limb.vertices for limb in limbs])
    np.testing.assert_array_equal(np.sort(together), np.arange(len(mesh.vertices)))


def test_handles_are_inside_of_the_limbs_they_are_for():
    surface, mesh = animal()
    rig = skinned(surface, ANIMAL)
    handles = handles_from_bones(rig, surface, mesh)
    limbs = {limb.name: limb for limb in limbs_of(rig, surface, mesh)}
    assert {handle.name for handle in handles} == set(limbs)
    held = handle_vertices(mesh, handles)
    for handle, vertices in zip(handles, held, strict=True):
        assert locate(handle.points, mesh).distance.max() == 0
        assert np.isin(vertices, limbs[handle.name].vertices).mean() > 0.5
    regions = regions_of(mesh, handles)
    assert len(regions) == 7
    for region in regions:
        assert np.isin(limbs[region.name].vertices, region.vertices).mean() > 0.8


def test_feet_that_hang_from_the_root_go_with_the_legs_they_touch():
    surface, mesh = animal()
    loose = {f"{end}Foot.{side}": "root" for end in ("front", "back") for side in "LR"}
    limbs = limbs_of(skinned(surface, ANIMAL, loose), surface, mesh)
    for limb in limbs:
        for joint in limb.joints:
            if "Foot" in joint:
                assert joint.replace("Foot", "Shin") in limb.joints


@pytest.mark.parametrize("most", [1, 2, 3, 5, 6])
def test_fewer_handles_may_be_requested_and_left_and_right_stay_alike(most):
    surface, mesh = animal()
    limbs = limbs_of(skinned(surface, ANIMAL), surface, mesh, most=most)
    assert 1 <= len(limbs) <= most
    assert sum(limb.part for limb in limbs) == pytest.approx(1.0)
    names = [joint for limb in limbs[1:] for joint in limb.joints]
    for end in ("front", "back"):
        assert (f"{end}Shin.L" in names) == (f"{end}Shin.R" in names)


@pytest.mark.parametrize("most", [0, -1, 2.5, True, "x"])
def test_a_bad_number_of_handles_is_an_error(most):
    surface, mesh = animal()
    with pytest.raises(SuppleError, match="use a positive number of handles"):
        handles_from_bones(skinned(surface, ANIMAL), surface, mesh, most=most)


def test_a_rig_without_a_skeleton_has_no_handles():
    surface, mesh = animal()
    still = FunctionRig(lambda pose: surface.vertices, [], len(surface.vertices))
    assert handles_from_bones(still, surface, mesh) == ()


def test_one_joint_is_one_limb():
    surface, mesh = animal()
    everything = SkinnedRig(
        JointPose(Skeleton(["all"], [-1], [[0, 0.5, 0]])),
        surface.vertices,
        np.zeros((len(surface.vertices), 1), int),
        np.ones((len(surface.vertices), 1)),
        np.eye(4)[None],
    )
    (handle,) = handles_from_bones(everything, surface, mesh)
    assert handle.name == "all"
    assert len(regions_of(mesh, [handle])) == 1


def test_a_limb_that_is_all_bone_has_no_handle():
    surface, mesh = animal()
    rig = skinned(surface, ANIMAL)
    tail = next(limb for limb in limbs_of(rig, surface, mesh) if "tail2" in limb.joints)
    names = {handle.name for handle in handles_from_bones(rig, surface, mesh)}
    left = handles_from_bones(rig, surface, mesh, fixed=tail.vertices)
    assert {handle.name for handle in left} == names - {tail.name}
    regions_of(mesh, left, tail.vertices)
    with pytest.raises(SuppleError, match="fixed vertex 99999 does not exist"):
        handles_from_bones(rig, surface, mesh, fixed=[99999])


def test_the_same_handles_every_time():
    surface, mesh = animal()
    first, second = (handles_from_bones(skinned(surface, ANIMAL), surface, mesh) for _ in range(2))
    assert [h.name for h in first] == [h.name for h in second]
    for one, other in zip(first, second, strict=True):
        assert (one.points == other.points).all()


def test_handles_keep_their_points():
    points = np.zeros((1, 3))
    handle = Handle("h", points)
    points[:] = 1
    assert (handle.points == 0).all()


WANTED = {
    "mh_heavy_male_jump.glb": [
        ("spine01", "spine05"),
        ("head", "neck01"),
        ("upperarm01.L", "wrist.L"),
        ("upperarm01.R", "wrist.R"),
        ("upperleg01.L", "foot.L"),
        ("upperleg01.R", "foot.R"),
    ],
    "q_Rat.glb": [
        ("Head", "Neck"),
        ("Tail1", "Tail7"),
        ("BackUpLeg.L", "BackFoot.L"),
        ("BackUpLeg.R", "BackFoot.R"),
        ("FrontUpLeg.L", "FrontFoot.L"),
        ("FrontUpLeg.R", "FrontFoot.R"),
    ],
}


@pytest.mark.parametrize("name", WANTED)
def test_real_characters_have_the_limbs_one_would_name(assets, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # of the files, which are as they are
        character = supple.load(assets / "gltf_characters" / name)
    mesh = tetrahedralise(character.surface, tets=8000)
    (rig,) = skinned_rigs(character.rig)
    limbs = limbs_of(rig, character.surface, mesh)
    assert len(limbs) <= 8
    found = [next(limb.name for limb in limbs if first in limb.joints) for first, _ in WANTED[name]]
    for limb, (_, last) in zip(found, WANTED[name], strict=True):
        assert last in next(each.joints for each in limbs if each.name == limb)
    assert len(set(found)) == len(found)
    handles = handles_from_bones(character.rig, character.surface, mesh)
    regions = regions_of(mesh, handles)
    assert len(regions) == len(limbs)
