"""Obstacles of motions: said in words, led along paths, recorded with the frames."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from helpers.soft_skeleton_samples import elbow, soft_elbow
from supple.app.contact_options import ContactOptions
from supple.dynamics.rigid_object import RigidObject
from supple.errors import SuppleError
from supple.mesh.obstacles import Box, Capsule, Plane, Sphere
from supple.playback.bake_plan import bake_plan
from supple.playback.obstacles.words import FASTEST, ClipPlace, obstacle_of
from supple.rig.skeleton.skinning import skinned_core


@pytest.fixture(scope="module")
def swing() -> ClipPlace:
    return bake_plan(elbow(), "Swing").place_of(elbow())


def joint_at_start(clip: ClipPlace, name: str) -> np.ndarray:
    """The skin's own skeleton, posed by the first frame."""
    core = skinned_core(clip.rig)
    assert core is not None
    pose, root = clip.motion.at(clip.start)
    world = core.rig.skeleton.world(*core.rig.joint_pose.unpack(pose[None, core.entries]))[0]
    return (root @ world[core.rig.skeleton.joint(name)])[:3, 3]


def test_a_joint_stands_for_its_place_at_the_first_frame_and_percent_for_the_size(swing):
    ball = obstacle_of("sphere:fore,10%", swing)
    assert isinstance(ball, Sphere)
    assert np.allclose(ball.centre, joint_at_start(swing, "fore"))
    assert ball.radius == pytest.approx(0.1 * swing.size)
    below = obstacle_of("sphere:fore,0,-20%,0.1,0.05", swing)
    assert isinstance(below, Sphere)
    assert np.allclose(below.centre - np.asarray(ball.centre), [0, -0.2 * swing.size, 0.1])
    bar = obstacle_of("capsule:upper,fore,3%", swing)
    assert isinstance(bar, Capsule)
    assert np.allclose(bar.start, joint_at_start(swing, "upper"))
    assert np.allclose(bar.end, joint_at_start(swing, "fore"))
    crate = obstacle_of("box:fore,0,-1,0,10%,10%,10%", swing)
    assert isinstance(crate, Box)
    assert np.allclose(crate.half, 0.1 * swing.size)
    wall = obstacle_of("plane:fore,0,0,-1", swing)
    assert isinstance(wall, Plane)
    assert np.allclose(wall.point, joint_at_start(swing, "fore"))


def test_the_ground_is_below_the_lowest_point_of_the_skin_in_the_motion(swing):
    ground = obstacle_of("plane:ground", swing)
    assert isinstance(ground, Plane)
    times = np.linspace(swing.start, swing.end, 60)
    poses, roots = swing.motion.at(times)
    lowest = min(
        float((swing.rig(pose) @ root[1, :3]).min() + root[1, 3])
        for pose, root in zip(poses, roots, strict=True)
    )
    assert np.asarray(ground.point)[1] == pytest.approx(lowest, abs=1e-3 * swing.size)
    assert np.allclose(ground.normal, [0, 1, 0])


def test_an_obstacle_that_flies_is_where_its_velocity_takes_it(swing):
    ball = obstacle_of("sphere:1,0,0,0.1@-2,0,0", swing)
    assert isinstance(ball, RigidObject)
    assert ball.kinematic
    assert ball.path is not None
    assert np.allclose(np.asarray(ball.path(swing.start + 0.25))[:3, 3], [-0.5, 0, 0])


def test_words_that_need_a_character_are_checked_without_one():
    assert obstacle_of("sphere:hand,10%") is None
    assert obstacle_of("plane:ground") is None
    assert isinstance(obstacle_of("sphere:0,0,0,1"), Sphere)


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("sphere:nan,0,0,1", "use numbers within"),
        ("sphere:0,0,0,1e300", "use numbers within"),
        ("sphere:0,0,0,inf%", "use numbers within"),
        ("sphere:0,0,0,-0.1", "it must be positive"),
        ("sphere:fore,-10%", "it must be positive"),
        ("sphere:for,0.1", 'no joint "for"; similar names: "fore"'),
        ("sphere:0,0,0", "3 numbers; a sphere has 4"),
        ("sphere:", "0 numbers; a sphere has 4"),
        ("capsule:fore,0.1", "2 numbers; a capsule has 7, and a point is X,Y,Z or a joint"),
        ("plane:fore", "1 numbers; a plane has 6"),
        ("plane:0,0,0,0,0,0", "normal of a plane is zero"),
        ("plane:ground@1,0,0", "a plane cannot move; use a box"),
        ("sphere:0,0,0,1@1,0", "a velocity is @VX,VY,VZ"),
        ("sphere:0,0,0,1@1000,0,0", f"use at most {FASTEST:g}"),
        ("cone:0,0,0,1", "no cone"),
        ("sphere:0,0,0,100000", "at 0 s the body is inside it, up to 1e+05 m deep"),
        ("plane:fore,0,200%,0,0,1,0", "the body is inside it"),
        ("box:0,0,0,1,x,1", '"x" is not a number'),
    ],
)
def test_bad_words_are_one_line(word, what, swing):
    with pytest.raises(SuppleError) as error:
        obstacle_of(word, swing)
    said = str(error.value)
    assert what in said
    assert "\n" not in said
    assert len(said) < 200


def test_500_obstacles_are_one_line():
    many = ContactOptions(obstacle=[f"sphere:{k},0,0,0.1" for k in range(500)])
    with pytest.raises(SuppleError, match="there are more than 64"):
        many._obstacles(None)


def test_a_bake_carries_its_obstacles_and_each_take_begins_with_them_where_they_were():
    ball = RigidObject(Sphere((0, 0, 0), 0.1), mass=0.5, velocity=(-3.0, 0, 0), name="ball")
    ball.place[:3, 3] = 1.5, 0.1, 0.0
    start = ball.place.copy()
    given = {"obstacles": ["plane:ground", "sphere:2,0,0,0.1@-4,0,0"], "objects": [ball]}
    bakes = [supple.bake(elbow(), "Swing", soft_elbow(), simulation=given) for _ in range(2)]
    ground, flying, thrown = bakes[0].obstacles
    assert [each.kind for each in bakes[0].obstacles] == ["plane", "object", "object"]
    assert not ground.moves
    assert len(flying.places) == len(thrown.places) == bakes[0].n_frames
    since = bakes[0].times - bakes[0].times[0]
    assert np.allclose(flying.places[:, :3, 3], np.array([2, 0, 0]) + np.outer(since, [-4, 0, 0]))
    assert np.allclose(thrown.places[0], start)
    assert not np.allclose(thrown.places[-1], start)
    assert np.array_equal(ball.place, start), "the caller's object has moved"
    for one, other in zip(*(baked.obstacles for baked in bakes), strict=True):
        assert np.array_equal(one.places, other.places)


@pytest.mark.filterwarnings("ignore:obstacle 0 is .* deep:supple.errors.SuppleWarning")
def test_a_ball_that_is_led_through_the_body_pushes_it_and_nothing_explodes():
    baked = {}
    for speed in (4, FASTEST):
        given = {"obstacles": [f"sphere:{0.25 * speed},0.0,0,0.1@-{speed},0,0"]}
        baked[speed] = supple.bake(elbow(), "Swing", soft_elbow(), simulation=given)
        assert np.isfinite(baked[speed].frames).all()
        size = baked[speed].character.surface.size
        alone = np.stack([baked[speed].rig_frame(k) for k in range(baked[speed].n_frames)])
        assert np.abs(baked[speed].frames - alone).max() < 2 * size
    plain = supple.bake(elbow(), "Swing", soft_elbow())
    assert np.abs(baked[4].frames - plain.frames).max() > 0.01 * plain.character.surface.size
