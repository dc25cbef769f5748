"""The viewer without a browser: what its one simulation does, and what its server lets in."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import MATERIAL, bar_options, bending_bar, jointed_arm
from supple.app.viewer.panels.pose_panel import parameter_groups
from supple.app.viewer.scene.colours import ColourBands, by_displacement, by_region, by_stiffness
from supple.app.viewer.server import _is_allowed, free_port
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.obstacles import SHAPES
from supple.app.viewer.session.posing import IKHandles
from supple.app.viewer.session.recording import Recorder, checked_name, take_name
from supple.app.viewer.session.session import FASTEST, Session
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SolverError, SuppleError, SuppleWarning
from supple.mesh.shape_tables import shape_surface
from supple.playback.baking import bake
from supple.playback.player import Player
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.characters.character_scene import scene

viser = pytest.importorskip("viser", reason="viser is not installed")


CharacterSession = Session[CharacterActor]

#: Steps of a frame, of which there are 30 a second.
STEPS = 6
#: Stiff enough to come to rest within a second or two.
FIRM = replace(MATERIAL, young=3e5)


@pytest.fixture(scope="module")
def model() -> PoseSpaceModel:
    return supple.build(bending_bar(), **bar_options(material=FIRM))


@pytest.fixture(scope="module")
def arm() -> PoseSpaceModel:
    return supple.build(jointed_arm(), **bar_options(poses=2, material=FIRM))


@pytest.fixture
def session(model: PoseSpaceModel) -> CharacterSession:
    return Session(CharacterActor(model))


def held(session: CharacterSession) -> CharacterSession:
    """At the middle pose, at rest."""
    session.submit(session.actor.pose_to, np.zeros(1))
    for _ in range(40):
        session.advance(100)
        session.refresh()
        if np.abs(session.skin - session.actor.undeformed()).max() < 1e-4:
            return session
    raise AssertionError("it never rests")


def up(metres: float) -> np.ndarray:
    return np.array([0.0, metres, 0.0])


def set_gravity(session: CharacterSession, mode: str) -> None:
    session.submit(lambda: setattr(session.actor.simulator, "gravity_mode", mode))


def tip(session: CharacterSession) -> int:
    """A vertex at the free end."""
    return int(np.argmax(session.actor.model.surface.vertices[:, 0]))


# What is played ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["stop", "restart"])
def test_playing_gives_the_frames_of_a_bake_to_the_bit(model: PoseSpaceModel, ending: str) -> None:
    baked = bake(bending_bar(), model=model, rate=30)
    session = Session(CharacterActor(model, character=bending_bar()))
    session.submit(session.actor.end_with, ending)
    for frame in range(baked.n_frames):
        session.advance(0 if frame == 0 else STEPS)
        if frame % 4 == 1:  # whether pages look or not
            session.refresh()
        assert np.array_equal(session.actor.surface(), baked.frames[frame]), frame
    session.advance(1)
    assert session.state == ("paused" if ending == "stop" else "playing")


def test_another_engine_is_viewed_as_it_bakes(model: PoseSpaceModel, tmp_path: Path) -> None:
    from supple.app.viewer.page import Page

    baked = bake(bending_bar(), model=model, engine="full", rate=30, end=0.2)
    session = Session(CharacterActor(model, character=bending_bar(), engine="full"))
    session.submit(session.actor.end_with, "stop")
    for frame in range(baked.n_frames):
        session.advance(0 if frame == 0 else STEPS // 2)
        assert np.array_equal(session.actor.surface(), baked.frames[frame]), frame
    session.grip("hand", session.skin[tip(session)])
    session.pull("hand", session.skin[tip(session)] + up(0.05))
    session.submit(session.actor.pose_to, [0.1])
    session.submit(session.actor.stiffen, 2.0)
    session.advance(5)
    assert session.run_requests() is None
    assert session.state == "posing"
    assert "obstacles" not in session.actor.parts
    with Page(session, port=0, folder=tmp_path) as page:
        assert page.scene.colourings[0] == "clay"


@pytest.mark.parametrize("seconds", [1.0, 1.437])
def test_a_loop_gives_the_closed_cycle_of_a_bake_to_the_bit(
    model: PoseSpaceModel, seconds: float
) -> None:
    times = np.linspace(0, seconds, 40)
    nod = Motion(times, 0.2 * np.sin(2 * np.pi * times / seconds)[:, None], name="nod")
    bar = replace(bending_bar(), motions={"nod": nod})
    baked = bake(bar, model=model, loop=True, damping=8)
    session = Session(CharacterActor(model, character=bar, damping=8))
    assert session.actor.ending == "loop"
    assert session.actor.player.n_steps == STEPS * (baked.n_frames - 1)
    session.advance(session.actor.player.n_steps * (baked.report["cycles"] - 1))
    for frame in range(1, baked.n_frames):
        session.advance(STEPS)
        assert np.array_equal(session.actor.surface(), baked.frames[frame]), frame


def test_a_violent_motion_is_as_firm_as_it_is_baked(model: PoseSpaceModel) -> None:
    times = np.linspace(0, 1.0, 60)
    roots = np.tile(np.eye(4), (60, 1, 1))
    roots[:, 1, 3] = 0.2 * np.sin(2 * np.pi * 3 * times)
    thrown = Motion(times, np.zeros((60, 1)), roots, name="thrown")
    bar = replace(bending_bar(), motions={"thrown": thrown})
    with pytest.warns(SuppleWarning, match="times as stiff"):
        baked = bake(bar, model=model)
    assert baked.report["stiffness"] > 1
    session = Session(CharacterActor(model, character=bar))
    session.submit(session.actor.end_with, "stop")
    for frame in range(baked.n_frames):
        session.advance(0 if frame == 0 else STEPS)
        assert np.array_equal(session.actor.surface(), baked.frames[frame]), frame
    session.submit(session.actor.stiffen, 2.0)
    session.advance(0)
    assert session.actor.simulator.stiffness == 2 * baked.report["stiffness"]


def test_a_motion_of_one_pose_is_shown(model: PoseSpaceModel) -> None:
    still = Motion([0.0], [[0.3]], name="still")
    bar = replace(bending_bar(), motions={"still": still})
    session = Session(CharacterActor(model, character=bar))
    session.submit(session.actor.end_with, "loop")
    session.advance(10)
    assert session.actor.ending == "restart"
    assert np.abs(session.actor.surface() - session.actor.undeformed()).max() < 1e-6


def test_a_restarted_motion_gives_the_same_bits_again(session: CharacterSession) -> None:
    session.submit(session.actor.end_with, "restart")
    session.advance(20)
    first = session.actor.surface()
    session.advance(session.actor.player.n_steps)
    assert np.array_equal(session.actor.surface(), first)


def test_seeking_is_what_a_player_does(session: CharacterSession, model: PoseSpaceModel) -> None:
    session.submit(session.actor.end_with, "stop")
    session.submit(session.actor.seek, 1.0)
    session.advance(5)
    player = Player(CharacterActor(model).simulator, "sweep")
    player.seek(1.0)
    for _ in range(5):
        player.step()
    assert session.actor.time == player.time
    assert np.array_equal(session.actor.surface(), player.surface())


def test_time_stands_still_while_paused(session: CharacterSession) -> None:
    session.advance(40)
    session.pause()
    session.advance(1)
    before = session.actor.surface()
    session.advance(30)
    assert np.array_equal(session.actor.surface(), before)
    session.play()
    session.advance(1)
    assert not np.array_equal(session.actor.surface(), before)


def test_flesh_lives_on_while_the_pose_is_held(session: CharacterSession) -> None:
    session.advance(60)
    session.submit(session.actor.hold)
    session.advance(60)
    pose, moving = session.actor.pose.copy(), session.actor.surface()
    session.advance(1)
    assert np.allclose(session.actor.pose, pose, atol=1e-3)
    assert not np.array_equal(session.actor.surface(), moving)
    session.advance(600)
    assert np.abs(session.actor.surface() - session.actor.undeformed()).max() < 1e-2


def test_sliders_bring_the_pose_where_they_point_without_a_jump(session: CharacterSession) -> None:
    held(session)
    session.submit(session.actor.pose_to, [0.8])
    ways = []
    for _ in range(180):
        before = session.actor.pose[0]
        session.advance()
        ways.append(session.actor.pose[0] - before)
    assert session.actor.pose[0] == pytest.approx(0.8, abs=1e-4)
    assert max(ways) < 0.1
    assert ways[0] < 0.02


@pytest.mark.parametrize("pose", [[np.nan], [0.0, 0.0], []])
def test_poses_that_cannot_be_are_refused_in_a_line(
    session: CharacterSession, pose: list[float]
) -> None:
    session.submit(session.actor.pose_to, pose)
    trouble = session.run_requests()
    assert trouble == "a pose needs 1 finite numbers"
    session.advance(3)
    assert np.isfinite(session.actor.surface()).all()


# Handles -----------------------------------------------------------------------------------


def fork() -> Rig:
    """A trunk with two arms of two bones each, and a stub beside them."""
    names = ["hip", "chest", "upper.L", "fore.L", "hand.L", "upper.R", "fore.R", "hand.R", "stub"]
    parents = [-1, 0, 1, 2, 3, 1, 5, 6, 1]
    places = [[0, 0, 0], [0, 1, 0], *[[0.2, 0, 0], [0.5, 0.05, 0], [0.5, -0.05, 0]]]
    places += [[-0.2, 0, 0], [-0.5, 0.05, 0], [-0.5, -0.05, 0], [0, 0, 0]]
    skeleton = Skeleton(names, parents, np.array(places, float))
    vertices = skeleton.rest_world()[:, :3, 3]
    joints, ones = np.arange(9)[:, None], np.ones((9, 1))
    bind = np.linalg.inv(skeleton.rest_world())
    return SkinnedRig(JointPose(skeleton), vertices, joints, ones, bind)


def test_a_handle_bends_its_limb_and_nothing_else() -> None:
    rig, handles = fork(), IKHandles(fork())
    assert handles.joints[:2] == ("hand.L", "hand.R")
    assert "hip" not in handles.joints
    rest = np.asarray(rig.rest_pose)
    target = np.array([0.7, 1.5, 0.2])
    pose = handles.solve("hand.L", rest, target)
    assert handles.position("hand.L", pose) == pytest.approx(target, abs=1e-3)
    moved = [p.name for p, x in zip(rig.parameters, pose, strict=True) if abs(x) > 1e-9]
    assert {name[:7] for name in moved} <= {"upper.L", "fore.L."}
    assert rig(pose)[4] == pytest.approx(target, abs=1e-3), "the skin is there, too"


def test_a_handle_out_of_reach_stretches_the_limb_towards_it() -> None:
    rig, handles = fork(), IKHandles(fork())
    for far in (5.0, 1e12):
        pose = handles.solve("hand.R", np.asarray(rig.rest_pose), [-0.2, 1.0 + far, 0.0])
        assert np.isfinite(pose).all()
        assert handles.position("hand.R", pose)[1] > 1.9


def test_dragging_the_hand_of_the_arm_moves_shoulder_and_elbow() -> None:
    """xu2016 fig. 12: the hand is the end of the forearm's skin; no handle is without effect."""
    arm = scene("arm")
    rig = arm.character.rig
    handles = IKHandles(rig)
    assert handles.joints == ("forearm end", "forearm")
    pose = arm.pose("flexed") / 2
    start = handles.position("forearm end", pose)
    fingers = rig(pose)[rig(rig.rest_pose)[:, 0] > 0.62]
    assert np.linalg.norm(start - fingers.mean(axis=0)) < 0.06
    target = start + np.array([-0.08, 0.05, 0.06])
    solved = handles.solve("forearm end", pose, target)
    assert np.linalg.norm(handles.position("forearm end", solved) - target) < 2e-3
    assert (np.abs(solved - pose) > 1e-3).sum() >= 3


def test_rigs_without_a_skeleton_have_no_handles() -> None:
    handles = IKHandles(bending_bar().rig)
    assert handles.joints == ()
    with pytest.raises(SuppleError, match="no limb"):
        handles.position("hand", [0.0])


def test_dragging_a_handle_poses_the_rig_where_the_body_is(arm: PoseSpaceModel) -> None:
    session = Session(CharacterActor(arm))
    root = np.eye(4)
    root[:3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    root[:3, 3] = [3.0, 0.0, 1.0]
    session.submit(session.actor.hold)
    session.advance(1)
    session.actor.root = root
    before = session.actor.joint_position("fore")
    target = before + np.array([0.0, 0.15, 0.05])
    session.submit(session.actor.reach, "fore", target)
    assert session.run_requests() is None
    session.advance(120)
    shoulder = root[:3, :3] @ arm.rig(arm.rig.rest_pose, [0])[0] + root[:3, 3]
    assert np.linalg.norm(session.actor.joint_position("fore") - target) < 0.1
    assert session.actor.joint_position("fore")[1] > before[1] + 0.05
    assert np.linalg.norm(shoulder - session.actor.surface()[0]) < 0.3
    session.submit(session.actor.reach, "fore", [np.nan, 0.0, 0.0])
    session.submit(session.actor.reach, "nose", target)
    assert session.run_requests() == 'no limb ends at "nose"'


# What is done to it ------------------------------------------------------------------------


def test_pulling_moves_flesh_and_it_swings_back(session: CharacterSession) -> None:
    held(session)
    vertex, rest = tip(session), session.skin.copy()
    way = up(0.06)
    session.grip("hand", rest[vertex])
    session.pull("hand", rest[vertex] + way)
    session.advance(180)
    pulled = session.actor.surface()[vertex, 1] - rest[vertex, 1]
    session.release("hand")
    heights = []
    for _ in range(2400):
        session.advance()
        heights.append(session.actor.surface()[vertex, 1] - rest[vertex, 1])
    assert pulled > 0.25 * way[1]
    assert min(heights) < -0.02 * pulled, "it overshoots"
    assert abs(heights[-1]) < 0.02 * pulled, "it settles"
    assert not session.hands


def test_pulling_needs_a_grip_and_wild_targets_are_harmless(
    session: CharacterSession,
) -> None:
    held(session)
    session.pull("nobody", [9.0, 9.0, 9.0])
    session.grip("hand", session.skin[tip(session)])
    session.pull("hand", [np.inf, 0.0, 0.0])
    session.pull("hand", [1e30, 0.0, 0.0])
    session.advance(120)
    assert np.isfinite(session.actor.surface()).all()
    session.release("hand")
    session.advance(400)
    assert np.abs(session.actor.surface() - session.actor.undeformed()).max() < 0.02


def test_pulling_stiff_flesh_does_not_shake_it() -> None:
    stiff = replace(MATERIAL, young=1e7)
    session = held(
        Session(CharacterActor(supple.build(bending_bar(), **bar_options(material=stiff))))
    )
    vertex = tip(session)
    session.grip("hand", session.skin[vertex])
    session.pull("hand", session.skin[vertex] + up(0.05))
    session.advance(400)
    places = []
    for _ in range(10):
        session.advance()
        places.append(session.actor.surface()[vertex])
    assert np.ptp(places, axis=0).max() < 1e-3


def test_two_hands_pull_at_once(session: CharacterSession) -> None:
    held(session)
    vertex = tip(session)
    for hand in (0, 1):
        session.grip(hand, session.skin[vertex])
        session.pull(hand, session.skin[vertex] + up(0.03))
    session.advance(240)
    both = session.actor.surface()[vertex, 1]
    session.release(0)
    session.advance(240)
    assert session.actor.surface()[vertex, 1] < both - 1e-4


def test_gravity_is_switched_without_a_new_model(session: CharacterSession) -> None:
    held(session)
    vertex, before = tip(session), session.skin[tip(session), 1]
    set_gravity(session, "absolute")
    session.advance(400)
    sagged = before - session.actor.surface()[vertex, 1]
    set_gravity(session, "relative")
    session.advance(1200)
    assert sagged > 0.005
    assert abs(session.actor.surface()[vertex, 1] - before) < 0.1 * sagged


def test_switching_gravity_while_playing_keeps_time_and_flesh(session: CharacterSession) -> None:
    session.advance(50)
    now, skin = session.actor.time, session.actor.surface()
    set_gravity(session, "none")
    session.run_requests()
    assert session.actor.time == now
    assert np.array_equal(session.actor.surface(), skin)
    session.advance(10)
    assert session.actor.time > now


def test_an_unknown_gravity_is_refused_and_the_old_one_stays(session: CharacterSession) -> None:
    set_gravity(session, "sideways")
    trouble = session.run_requests()
    assert trouble is not None
    assert "sideways" in trouble
    assert session.actor.simulator.gravity_mode == "relative"


def test_a_ball_that_is_moved_pushes_flesh(session: CharacterSession) -> None:
    held(session)
    vertex, before = tip(session), session.skin[tip(session)].copy()
    around = session.actor.obstacles
    session.submit(lambda: setattr(around, "ball", True))
    session.submit(lambda: around.move_ball(before + up(-around.radius - 0.1)))
    session.advance(60)
    free = session.actor.surface()[vertex, 1]
    session.submit(lambda: around.move_ball(before + up(-around.radius + 0.03)))
    session.advance(90)
    assert session.actor.surface()[vertex, 1] > free + 0.005
    session.submit(lambda: setattr(around, "ball", False))
    session.advance(800)
    assert abs(session.actor.surface()[vertex, 1] - before[1]) < 2e-3


@pytest.mark.parametrize("kind", list(SHAPES))
def test_any_thing_in_place_of_the_ball_pushes_flesh(session: CharacterSession, kind: str) -> None:
    held(session)
    before = session.skin[tip(session)].copy()
    around = session.actor.obstacles
    around.kind = kind
    top = shape_surface(around.object.shape).bounds[1, 1]
    offset = np.array([0.0, top, around.radius if kind == "ring" else 0.0])
    session.submit(lambda: setattr(around, "ball", True))
    session.submit(lambda: around.move_ball(before - offset + up(-0.1)))
    session.advance(60)
    free = session.actor.surface().copy()
    session.submit(lambda: around.move_ball(before - offset + up(0.03)))
    session.advance(90)
    assert np.abs(session.actor.surface() - free).max() > 0.005  # a cone pushes sideways


def test_the_ball_turns_with_its_handle_and_has_its_velocity(session: CharacterSession) -> None:
    held(session)
    around = session.actor.obstacles
    around.ball, around.kind = True, "box"
    session.advance(2)
    start = around.object.place.copy()
    session.submit(lambda: around.move_ball(around.centre + up(0.1), [0.8, 0, 0.6, 0]))
    session.advance(3)
    assert around.object.velocity[1] > 0.01
    assert around.object.spin[1] > 0.01
    session.advance(300)
    np.testing.assert_allclose(around.object.place[:3, 3], start[:3, 3] + up(0.1), atol=1e-4)
    np.testing.assert_allclose(around.quaternion, [0.8, 0, 0.6, 0], atol=1e-4)
    np.testing.assert_allclose([around.object.velocity, around.object.spin], 0, atol=1e-3)
    with pytest.raises(SuppleError, match="use one of ball, bar"):
        around.kind = "pyramid"


def test_contact_stays_when_the_simulator_is_made_anew(session: CharacterSession) -> None:
    session.actor.simulator.friction = 0.7
    session.actor.simulator.self_contact = True
    before = session.actor.simulator
    session.actor._new_simulator(1 / 120)
    assert session.actor.simulator is not before
    assert session.actor.simulator.friction == 0.7
    assert session.actor.simulator.self_contact


def test_the_ground_holds_what_would_sag_below(session: CharacterSession) -> None:
    held(session)
    vertex = tip(session)
    set_gravity(session, "absolute")
    session.advance(200)
    sagged = session.actor.surface()[vertex, 1]
    session.submit(lambda: session.actor.obstacles.place_around(session.actor.undeformed()))
    session.submit(lambda: setattr(session.actor.obstacles, "ground", True))
    session.advance(300)
    assert session.actor.surface()[vertex, 1] > sagged + 0.002


def test_stiffness_changes_as_it_runs(session: CharacterSession) -> None:
    held(session)
    vertex = tip(session)

    def pulled() -> float:
        start = session.actor.surface()[vertex]
        session.grip("hand", start)
        session.pull("hand", start + up(0.03))
        session.advance(400)
        moved = session.actor.surface()[vertex, 1] - start[1]
        session.release("hand")
        session.advance(600)
        return float(moved)

    usual = pulled()
    session.submit(lambda: setattr(session.actor.simulator, "stiffness", 4.0))
    assert pulled() < 0.8 * usual


@pytest.mark.parametrize("state", ["playing", "posing"])
def test_a_failed_step_restarts_with_a_message(
    session: CharacterSession, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    def diverges(*given: Any) -> None:
        raise SolverError("the simulation diverges")

    session.advance(20)
    if state == "posing":
        held(session)
    session.grip("hand", session.skin[tip(session)])
    session.advance(1)
    monkeypatch.setattr(session.actor.simulator, "step", diverges)
    session.advance(1)
    assert session.run_requests() == "the simulation diverges; restarting"
    assert not session.hands
    assert np.abs(session.actor.surface() - session.actor.undeformed()).max() < 1e-6
    monkeypatch.undo()
    session.advance(2)
    assert session.state == state
    assert session.run_requests() is None


def test_a_step_that_fails_again_at_once_pauses(
    session: CharacterSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*given: Any) -> None:
        raise SolverError("obstacle 0 is 2 m deep in the skin")

    monkeypatch.setattr(session.actor.simulator, "step", refuses)
    session.advance(1)
    assert session.state != "paused"
    session.advance(5)
    assert session.state == "paused"


# What is kept ------------------------------------------------------------------------------


def test_a_recording_is_what_was_seen_and_is_saved(
    session: CharacterSession, tmp_path: Path
) -> None:
    session.submit(session.actor.recorder.start)
    seen = []
    for step in range(61):
        session.advance()
        if step % STEPS == 0:
            seen.append(session.actor.surface())
    session.actor.recorder.stop()
    target = session.actor.recorder.save(tmp_path, "take1.npz", session.actor.character, "sweep")
    assert target == tmp_path / "take1.npz"
    with np.load(target) as stored:
        frames = next(stored[name] for name in stored.files if stored[name].ndim == 3)
        assert np.array_equal(frames, np.stack(seen))
    with pytest.raises(SuppleError, match="already exists"):
        session.actor.recorder.save(tmp_path, "take1.npz", session.actor.character, "sweep")
    assert [path.name for path in tmp_path.iterdir()] == ["take1.npz"]


def test_an_empty_recording_is_refused(session: CharacterSession, tmp_path: Path) -> None:
    with pytest.raises(SuppleError, match="nothing is recorded"):
        session.actor.recorder.save(tmp_path, "take1.npz", session.actor.character, "sweep")
    assert not list(tmp_path.iterdir())


def test_a_recording_ends_before_it_fills_the_memory(session: CharacterSession) -> None:
    session.actor.recorder.most_frames = 4
    session.submit(session.actor.recorder.start)
    session.advance(40)
    assert len(session.actor.recorder) == 4
    assert not session.actor.recorder.on


@pytest.mark.parametrize(
    "name",
    [
        *("", "  ", "..", "../a.npz", "/a.npz", "a/b.npz", "..\\a.npz", "C:a.npz", ".a.npz"),
        *("a\0.npz", "a\n.npz", "a" * 200 + ".npz"),
    ],
)
def test_recordings_go_nowhere_but_their_folder(name: str) -> None:
    with pytest.raises(SuppleError, match="plain file name"):
        checked_name(name)


def test_a_page_cannot_have_a_recording_of_an_unknown_kind(
    session: CharacterSession, tmp_path: Path
) -> None:
    session.submit(session.actor.recorder.start)
    session.advance(10)
    with pytest.raises(SuppleError):
        session.actor.recorder.save(tmp_path, "take.exe", session.actor.character, "sweep")
    assert not list(tmp_path.iterdir())


def test_recordings_of_large_skins_are_short(model: PoseSpaceModel) -> None:
    recorder = Recorder(len(model.surface.vertices))
    assert 12 * len(model.surface.vertices) * recorder.most_frames <= 256 * 2**20


# What is seen ------------------------------------------------------------------------------


def bandings(session: CharacterSession) -> list[ColourBands]:
    triangles = session.actor.model.surface.triangles.astype(np.int64)
    moved = by_displacement(session.skin, session.actor.undeformed(), triangles, 0.05)
    return [by_region(session.actor.model), by_stiffness(session.actor.model), moved]


def test_every_triangle_has_one_colour(session: CharacterSession) -> None:
    session.advance(90)
    session.refresh()
    for banding in bandings(session):
        assert banding.bands.shape == (len(session.actor.model.surface.triangles),)
        assert banding.bands.min() >= 0
        assert banding.bands.max() < len(banding.colours)


def test_colours_show_displacement(session: CharacterSession) -> None:
    rig = session.actor.undeformed()
    triangles = session.actor.model.surface.triangles.astype(np.int64)
    assert by_displacement(rig, rig, triangles, 0.05).bands.max() == 0
    far = by_displacement(rig + np.float32(1.0), rig, triangles, 0.05)
    assert set(far.bands.tolist()) == {len(far.colours) - 1}


def test_joints_have_their_sliders_together_and_not_too_many() -> None:
    many = [f"body.{k}" for k in range(30)]
    groups = parameter_groups(["hip.rx", "smile", "hip.ry", *many])
    assert groups["hip"] == [0, 2]
    assert groups["smile"] == [1]
    assert sorted(number for group in groups.values() for number in group) == list(range(33))
    assert max(map(len, groups.values())) <= 12


# The server --------------------------------------------------------------------------------


@pytest.fixture
def page(model: PoseSpaceModel, tmp_path: Path) -> Iterator[object]:
    from supple.app.viewer.page import Page

    with Page(Session(CharacterActor(model)), port=0, folder=tmp_path) as opened:
        yield opened


def eventually(fact: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if fact():
            return True
        time.sleep(0.05)
    return fact()


def test_it_serves_this_computer_only(page: Any) -> None:
    assert page.address.startswith("http://127.0.0.1:")
    port = page.server.get_port()
    own = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for other in own:
        if not str(other).startswith("127."):
            with socket.socket() as guest:
                guest.settimeout(1)
                assert guest.connect_ex((str(other), port)) != 0


def test_without_a_page_no_steps_are_made(page: Any) -> None:
    steps = page.session.meter.total_steps
    time.sleep(0.6)
    assert page.session.meter.total_steps == steps


def test_guests_share_one_simulation_and_leave_nothing_behind(page: Any) -> None:
    from helpers.viewer_guest import Guest

    threads = threading.active_count()
    with Guest(page.address, origin=page.address) as one, Guest(page.address) as other:
        for guest in (one, other):
            guest.look()
        assert eventually(lambda: len(page.server.get_clients()) == 2)
        first, second = one.count(1.0), other.count(1.0)
        assert first["/soft/0"] > 3
        assert second["/soft/0"] > 3
    assert eventually(lambda: not page.server.get_clients())
    buffer = page.server._websock_server._broadcast_buffer
    assert not page.server._websock_server._client_state_from_id
    assert not buffer.generator_cursors
    assert len(buffer.message_from_id) < 400, "old updates are dropped"
    assert eventually(lambda: threading.active_count() <= threads + 1)
    assert page.clock.failure is None


@pytest.mark.parametrize(
    "harm",
    [
        lambda session, hand: session.pull(hand, [1.0, 2.0]),
        lambda session, hand: session.pull(hand, [np.nan, 0.0, 0.0]),
        lambda session, hand: session.grip("other", [np.nan, 0.0, 0.0]),
        lambda session, hand: session.grip("other", [0.0]),
        lambda session, hand: session.submit(session.actor.seek, float("nan")),
        lambda session, hand: session.submit(session.actor.choose, "no such motion"),
        lambda session, hand: session.submit(session.actor.end_with, "bang"),
        lambda session, hand: session.submit(lambda: [][1]),
    ],
)
def test_a_failed_request_is_reported_and_the_session_goes_on(
    session: CharacterSession, harm: Callable[[Any, str], None]
) -> None:
    session.grip("hand", session.skin[tip(session)])
    session.advance(1)
    harm(session, "hand")
    trouble = session.run_requests()
    assert trouble
    assert "\n" not in trouble
    session.advance(5)
    assert np.isfinite(session.actor.surface()).all()
    assert list(session.hands) == ["hand"]


@pytest.mark.parametrize(
    ("speed", "used"), [(np.nan, 1.0), (np.inf, "max"), (-1.0, "min"), (1e300, "max"), (0.5, 0.5)]
)
def test_the_clock_runs_on_at_any_speed_that_a_page_sets(
    page: Any, speed: float, used: float | str
) -> None:
    """Within the slider's range, and of what programs ask for within the clock's."""
    from helpers.viewer_guest import Guest

    for asked, taken in ((np.inf, FASTEST), (1e300, FASTEST), (-1.0, 0.0), (np.nan, 0.0), (1, 1)):
        page.session.speed = asked
        assert page.session.speed == taken
    if isinstance(used, str):
        used = float(getattr(page.play.speed._impl.props, used))
    with Guest(page.address, origin=page.address) as guest:
        guest.look()
        assert eventually(lambda: len(page.server.get_clients()) == 1)
        guest.say("GuiUpdateMessage", uuid=page.play.speed._impl.uuid, updates={"value": speed})
        assert eventually(lambda: page.session.speed == used)
        page.session.pause()
        assert eventually(lambda: page.session.state == "paused"), "the thread lives"
    assert page.clock.failure is None


def test_pages_of_other_ports_of_this_computer_are_turned_away() -> None:
    ours = "localhost:8080"
    assert _is_allowed("http://localhost:8080", ours, True)
    assert _is_allowed("http://127.0.0.1:8080", ours, True)
    for other in ("http://localhost:3000", "http://localhost", "http://127.0.0.1:99999"):
        assert not _is_allowed(other, ours, True)


def test_a_recording_has_a_name_of_its_own_and_leaves_meshes_alone(
    session: CharacterSession, tmp_path: Path
) -> None:
    session.actor.recorder.start()
    session.advance(12)
    session.actor.recorder.stop()
    name = session.actor.motion.name
    taken = replace(
        session.actor.character,
        motions={f"{name} take 1": session.actor.motion, name: session.actor.motion},
    )
    assert take_name(taken, name) == f"{name} take 2"
    session.actor.recorder.save(tmp_path, "a.npz", session.actor.character, name)
    with np.load(tmp_path / "a.npz") as stored:
        assert str(stored["motion"]) == f"{name} take 1"
    (tmp_path / "b_rest.obj").write_text("mine")
    with pytest.raises(SuppleError, match=r"b_rest\.obj already exists"):
        session.actor.recorder.save(tmp_path, "b.pc2", session.actor.character, name)
    assert (tmp_path / "b_rest.obj").read_text() == "mine"
    assert not (tmp_path / "b.pc2").exists()


@pytest.mark.parametrize("origin", ["http://example.com", "null", "http://127.0.0.1.evil.org:80"])
def test_pages_of_other_sites_are_turned_away(page: Any, origin: str) -> None:
    from websockets.exceptions import ConnectionClosed

    from helpers.viewer_guest import Guest

    with Guest(page.address, origin=origin) as guest, pytest.raises(ConnectionClosed):
        guest.count(10.0)
    assert eventually(lambda: not page.server._websock_server._client_state_from_id)


def test_a_page_of_another_site_that_came_before_the_guard_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from websockets.exceptions import ConnectionClosed

    from helpers.viewer_guest import Guest
    from supple.app.viewer import server

    guests, guard = [], server._guard

    def late(own: Any, host: str) -> None:
        guests.append(Guest(f"http://127.0.0.1:{own.get_port()}", origin="http://example.com"))
        guests[0].look()
        guests[0].read()
        guard(own, host)

    monkeypatch.setattr(server, "_guard", late)
    own = server.start_server("127.0.0.1", 0, "page")
    try:
        with pytest.raises(ConnectionClosed):
            guests[0].count(10.0)
    finally:
        server.stop_server(own)


@pytest.mark.parametrize(
    ("origin", "host", "welcome"),
    [
        ("http://127.0.0.2:80", "127.0.0.2:80", True),
        ("http://localhost:80", "127.0.0.1:80", True),
        ("http://127.0.0.1:81", "127.0.0.1:80", False),
        ("http://127.0.0.1:80", "evil.org:80", False),
        ("http://evil.org:80", "evil.org:80", False),
    ],
)
def test_pages_of_this_computer_are_welcome(origin: str, host: str, welcome: bool) -> None:
    from supple.app.viewer import server

    assert server._is_allowed(origin, host, local=True) is welcome


def test_no_guest_can_share_the_page_with_the_world(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helpers.viewer_guest import Guest

    asked = []
    monkeypatch.setattr(page.server, "request_share_url", lambda *_: asked.append(1))
    with Guest(page.address) as guest:
        guest.look()
        guest.say("ShareUrlRequest")
        guest.count(0.5)
    assert not asked


def test_a_port_that_is_taken_gives_way_to_the_next() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port) != port


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 8080), ("no such host", 0)])
def test_an_address_that_is_not_ours_is_an_error_in_a_line(host: str, port: int) -> None:
    with pytest.raises(SuppleError, match="cannot serve there"):
        free_port(host, port)


@pytest.mark.parametrize("port", [-1, 70000])
def test_a_port_that_cannot_be_is_an_error_in_a_line(port: int) -> None:
    with pytest.raises(SuppleError, match="use a number from 0"):
        free_port("127.0.0.1", port)


def test_an_update_of_15000_vertices_costs_a_fraction_of_its_thirtieth(tmp_path: Path) -> None:
    from helpers.viewer_guest import Guest
    from supple.app.viewer.page import Page

    fine = bending_bar(cells=(144, 26, 26))
    assert len(fine.surface.vertices) >= 15_000
    model = supple.build(fine, **bar_options())
    with (
        Page(Session(CharacterActor(model)), port=0, folder=tmp_path) as page,
        Guest(page.address) as guest,
    ):
        guest.look()
        guest.count(1.0)
        page.session.meter.costs()
        guest.count(2.0)
        costs = page.session.meter.costs()
    print(costs.text())
    # The guest reads in this process, too, so that this is more than the server's own.
    assert costs.update_ms < 1e3 / 30 / 3


COMMAND = """
import signal, sys
from supple.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it
main(sys.argv[1:])
"""
#: The same, but Ctrl-C is pressed a second after the build has begun.
IMPATIENT = """
import os, signal, threading
from supple.app.viewer import serve
build = serve.command_model
def interrupted(*given, **options):
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    return build(*given, **options)
serve.command_model = interrupted
"""


def start_view(code: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, "view", *words, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"SUPPLE_CACHE": str(folder / "cache")},
    )


def test_ctrl_c_ends_it_cleanly(model: PoseSpaceModel, tmp_path: Path) -> None:
    file = tmp_path / "bar.supple"
    model.save(file)
    running = start_view(COMMAND, tmp_path, str(file), "--quiet")
    assert running.stdout is not None
    address = running.stdout.readline()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert address.startswith("http://127.0.0.1:"), err
    assert running.returncode in (0, 130)
    assert "Traceback" not in err
    assert "viser" not in out


def test_ctrl_c_while_it_builds_ends_it_cleanly(tmp_path: Path) -> None:
    running = start_view(IMPATIENT + COMMAND, tmp_path, "x", "--seconds", "1")
    out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "http" not in out + err
    left = [path.name for path in tmp_path.rglob("*.supple*")]
    assert not left


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing.glb"], "nothing.glb"),
        (["x", "--folder", "no/such"], "no/such"),
        (["x", "--engine", "fool"], 'no engine "fool"'),
        (["x", "--engine", "stvk"], "the engine stvk is for"),
        (["x", "--port", "99999"], "99999"),
        (["x", "--host", "192.0.2.1"], "192.0.2.1"),
    ],
)
def test_invalid_view_requests_are_one_line_errors(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from supple.app.options import ViewOptions
    from supple.app.viewer.serve import run_view

    monkeypatch.chdir(tmp_path)
    options = {name: name.strip("-") for name in ("--folder", "--port", "--host", "--engine")}
    given = {options[k]: v for k, v in zip(words[1::2], words[2::2], strict=True)}
    kinds: dict[str, Callable] = {"folder": Path, "port": int, "host": str}
    shown = ViewOptions(engine=given.pop("engine", "pose-space"))
    with pytest.raises(SuppleError, match=told) as error:
        run_view(words[0], shown, quiet=True, **{k: kinds[k](v) for k, v in given.items()})
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
