"""The hand and the person have the layouts of MANO and SMPL, and are sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import igl
import numpy as np
import pytest

from helpers.build_samples import kept_scenes
from helpers.smpl_samples import MANO_PARENTS, SMPL_PARENTS
from supple.errors import FormatError
from supple.formats.load import load
from supple.formats.smpl.body_model import (
    BodyModel,
    joint_layout,
    read_body_model,
    write_body_model,
)
from supple.mesh.surface import SurfaceMesh
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.scenes.characters import hand, human
from supple.scenes.characters.character_scene import PAPERS, Scene, scene

#: Joints, parents, fewest and most vertices, and size in m.
LAYOUTS = {
    "hand": (16, MANO_PARENTS, (1_500, 3_000), 0.19),
    "human": (24, SMPL_PARENTS, (3_000, 7_000), 1.70),
}


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


@pytest.fixture(params=PAPERS["tapia2021"])
def shown(request: pytest.FixtureRequest) -> Scene:
    return scene(request.param)


def body(shown: Scene) -> BodyModel:
    found = shown.character.source.body
    assert isinstance(found, BodyModel)
    return found


def test_skins_are_closed_outward_and_of_one_piece(shown: Scene) -> None:
    surface = shown.character.surface
    fewest, most = LAYOUTS[shown.name][2]
    assert fewest <= len(surface.vertices) <= most
    assert surface.defects() == []
    assert surface.volume() > 0
    assert surface.components().max() == 0
    assert len(surface.vertices) - len(surface.triangles) // 2 == 2


def test_sizes_are_those_of_people() -> None:
    tips = scene("hand").character.surface.vertices
    assert np.linalg.norm(tips, axis=1).max() == pytest.approx(0.19, abs=0.01)
    person = scene("human").character.surface
    assert np.ptp(person.vertices[:, 1]) == pytest.approx(1.70, abs=0.01)
    assert 1030 * person.volume() == pytest.approx(70, abs=4)  # kg


def test_joints_are_in_the_order_of_the_layout(shown: Scene) -> None:
    count, parents, _, _ = LAYOUTS[shown.name]
    model, rig = body(shown), shown.character.rig
    assert isinstance(rig, PoseBlendShapeRig)
    assert model.kind == {"hand": "MANO", "human": "SMPL"}[shown.name]
    assert tuple(rig.base.skeleton.names) == joint_layout(count).names
    assert model.parents.tolist() == parents
    assert len(rig.parameters) == 3 * count


def test_weights_sum_to_one_and_are_few(shown: Scene) -> None:
    weights = body(shown).weights
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    assert weights.min() >= 0
    assert (weights > 0).sum(axis=1).max() <= 4
    assert (weights.max(axis=0) > 0.6).all()


@pytest.mark.parametrize("name", PAPERS["tapia2021"])
def test_a_written_body_loads_back_equal(name: str, tmp_path: Path) -> None:
    model = body(scene(name))
    write_body_model(tmp_path / "body.npz", model)
    again = read_body_model(tmp_path / "body.npz")
    for field, value in model.__dict__.items():
        np.testing.assert_array_equal(getattr(again, field), value, err_msg=field)
    character = load(tmp_path / "body.npz")
    pose = scene(name).poses[-1]
    np.testing.assert_array_equal(character.rig(pose), scene(name).character.rig(pose))
    with pytest.raises(FormatError, match=r"body.pkl: body models are written as .npz"):
        write_body_model(tmp_path / "body.pkl", model)


def test_joints_are_regressed_where_they_are_and_go_along_with_the_shape(shown: Scene) -> None:
    model = body(shown)
    names, places = model.joint_names, model.regressor @ model.template
    given = {"hand": hand.JOINTS, "human": human.JOINTS}[shown.name]
    np.testing.assert_allclose(places, [given[name][1] for name in names], atol=1e-9)
    grown = model.regressor @ model.shaped([1.0])
    size = {"hand": 1.05, "human": 1.04}[shown.name]
    np.testing.assert_allclose(grown, size * places, atol=1e-9)
    count = len({"hand": hand.SHAPES, "human": human.SHAPES}[shown.name])
    assert model.n_betas == count
    for k in range(count):
        betas = 2.0 * np.eye(count)[k]
        changed = SurfaceMesh(model.shaped(betas), model.triangles)
        assert changed.volume() > shown.character.surface.volume(), k
        assert np.abs(model.regressor @ changed.vertices - places).max() < 0.12 * np.ptp(places)


def test_blend_shapes_cure_the_collapse_of_bent_joints() -> None:
    shown = scene("hand")
    rig, pose = shown.character.rig, shown.pose("fist")
    assert isinstance(rig, PoseBlendShapeRig)
    triangles, whole = shown.character.surface.triangles, shown.character.surface.volume()
    bare, cured = (SurfaceMesh(each(pose), triangles).volume() for each in (rig.base, rig))
    assert abs(cured - whole) < 0.75 * abs(bare - whole)
    assert np.abs(rig(rig.rest_pose) - rig.base(rig.rest_pose)).max() == 0


def test_bones_are_closed_and_inside_the_skin(shown: Scene) -> None:
    assert shown.skeleton is not None
    surface = shown.character.surface
    assert set(shown.skeleton) == set(body(shown).joint_names)
    pieces = 0
    for name, bones in shown.skeleton.items():
        assert bones.defects() == [], name
        pieces += int(bones.components().max()) + 1
        inside = igl.fast_winding_number(surface.vertices, surface.triangles, bones.vertices)
        assert inside.min() > 0.5, name
        squares, _, _ = igl.point_mesh_squared_distance(
            bones.vertices, surface.vertices, surface.triangles
        )
        assert np.sqrt(squares.min()) > 0.001, name
    assert pieces == {"hand": 27, "human": 25}[shown.name]


def test_poses_keep_their_volume(shown: Scene) -> None:
    triangles, whole = shown.character.surface.triangles, shown.character.surface.volume()
    for name, pose in zip(shown.pose_names, shown.poses, strict=True):
        volume = SurfaceMesh(shown.character.rig(pose), triangles).volume()
        assert volume == pytest.approx(whole, rel=0.06), name


def test_motions_are_smooth_and_none_jolts(shown: Scene) -> None:
    character = shown.character
    some = np.arange(0, len(character.surface.vertices), 97)
    for motion in character.motions.values():
        assert np.isfinite(motion.poses).all()
        assert np.isfinite(motion.roots).all()
        fastest = []
        for rate in (120, 240):
            poses, roots = motion.at(np.arange(0, motion.duration, 1 / rate))
            places = np.array([character.rig(pose, some) for pose in poses])
            world = np.einsum("tij,tnj->tni", roots[:, :3, :3], places) + roots[:, None, :3, 3]
            fastest.append(np.linalg.norm(np.diff(world, 2, axis=0), axis=2).max() * rate**2)
        assert fastest[1] < 250, motion.name
        assert fastest[1] < 1.6 * fastest[0] + 1, motion.name


def test_the_motions_do_what_they_are_called() -> None:
    motions, rig = scene("human").character.motions, scene("human").character.rig
    assert list(motions) == ["walk", "jump", "fall", "rest"]
    walk = motions["walk"]
    np.testing.assert_allclose(walk.poses[0], walk.poses[-1], atol=1e-12)
    assert 1.0 < np.ptp(walk.roots[:, 2, 3]) / walk.duration < 2.0  # m/s
    low = {name: _lowest(rig, motion) for name, motion in motions.items()}
    for name in ("walk", "fall", "rest"):
        assert np.abs(low[name]).max() < 0.02, name  # always on the ground
    assert 0.2 < low["jump"].max() < 0.4
    fallen = rig(motions["fall"].poses[-1]) @ motions["fall"].roots[-1, :3, :3].T
    assert np.ptp(fallen[:, 1]) < 0.6
    assert list(scene("hand").character.motions) == ["grasp", "pinch", "wave", "point"]


def _lowest(rig, motion) -> np.ndarray:
    frames = range(0, motion.n_frames, 12)
    return np.array(
        [
            (rig(motion.poses[k]) @ motion.roots[k, :3, :3].T + motion.roots[k, :3, 3])[:, 1].min()
            for k in frames
        ]
    )


def test_the_pinch_brings_two_fingertips_together_and_the_grasp_is_around_a_ball() -> None:
    shown = scene("hand")
    skin, parts = shown.character.rig(shown.pose("pinch")), shown.parts
    index, thumb = (skin[parts == shown.part_names.index(n)] for n in ("index3", "thumb3"))
    gap = np.linalg.norm(index[:, None] - thumb, axis=2).min()
    assert gap < 0.004
    centre, radius = hand.GRASPED
    away = np.linalg.norm(shown.character.rig(shown.pose("grasp")) - centre, axis=1) - radius
    for finger in ("index", "middle", "ring", "pinky", "thumb"):
        touching = away[parts == shown.part_names.index(f"{finger}3")].min()
        assert abs(touching) < 0.006, finger
