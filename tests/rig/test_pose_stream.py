"""Poses that another program sends: by parameter, retargeted, or refused."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar, jointed_arm
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.session import Session
from supple.errors import SuppleError
from supple.rig.motion.motion import Motion
from supple.rig.motion.pose_stream import PoseStream
from supple.rig.motion.retarget import retarget
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

#: Standing bodies: hips, a spine, and arms with hands; the second is larger.
NAMES = ["Hips", "Spine", "LeftArm", "LeftForeArm", "LeftHand"]
PARENTS = [-1, 0, 1, 2, 3]
PLACES = np.array([[0, 1, 0], [0, 0.4, 0], [0.2, 0.1, 0], [0.3, 0, 0], [0.3, 0, 0]], float)


def _rig() -> SkinnedRig:
    skeleton = Skeleton(NAMES, PARENTS, 2.5 * PLACES)
    vertices = skeleton.rest_world()[:, :3, 3]
    joints, ones = np.arange(5)[:, None], np.ones((5, 1))
    return SkinnedRig(
        JointPose(skeleton), vertices, joints, ones, np.linalg.inv(skeleton.rest_world())
    )


@pytest.fixture
def sender() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        yield made


def _send(sender: socket.socket, stream: PoseStream, *messages: Any) -> None:
    for message in messages:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        sender.sendto(data, ("127.0.0.1", stream.port))
    time.sleep(0.05)


def test_a_pose_arrives_by_name_or_whole_and_only_once(sender: socket.socket) -> None:
    rig = jointed_arm().rig
    with PoseStream(rig) as stream:
        assert stream.latest() is None
        name = rig.parameters[2].name
        _send(sender, stream, {"pose": {name: 0.25}})
        pose = stream.latest()
        assert pose is not None
        expected = np.array(rig.rest_pose, float)
        expected[2] = 0.25
        np.testing.assert_array_equal(pose, expected)
        assert stream.latest() is None
        _send(sender, stream, {"pose": (expected + 1).tolist()}, {"pose": {name: 0.5}})
        last = stream.latest()
        assert last is not None
        assert last[2] == 0.5
        assert last[1] == expected[1] + 1


def test_rotations_of_another_skeleton_are_retargeted_as_a_motion_is(sender: socket.socket) -> None:
    rig = _rig()
    source = JointPose(Skeleton(NAMES, PARENTS, PLACES))
    bent = [0.0, 0.0, float(np.sin(0.4)), float(np.cos(0.4))]
    described = {"names": NAMES, "parents": PARENTS, "translations": PLACES.tolist()}
    with PoseStream(rig) as stream:
        _send(sender, stream, {"skeleton": described}, {"rotations": {"LeftForeArm": bent}})
        pose = stream.latest()
        rotations = source.skeleton.rotations.copy()
        rotations[3] = bent
        motion = Motion(np.zeros(1), source.pack(rotations=rotations[None]))
        expected = retarget(motion, source, rig.joint_pose).poses[0]
        assert pose is not None
        np.testing.assert_allclose(pose, expected, atol=1e-12)
        assert np.abs(pose).max() == pytest.approx(0.8)


def test_a_joint_that_turns_on_beyond_half_a_turn_does_not_jump(sender: socket.socket) -> None:
    rig, angles = _rig(), np.linspace(2.8, 3.6, 9)
    described = {"names": NAMES, "parents": PARENTS, "translations": PLACES.tolist()}
    entry = [parameter.name for parameter in rig.parameters].index("LeftForeArm.rz")
    seen = []
    with PoseStream(rig) as stream:
        _send(sender, stream, {"skeleton": described})
        for angle in angles:
            turn = [0.0, 0.0, float(np.sin(angle / 2)), float(np.cos(angle / 2))]
            _send(sender, stream, {"rotations": {"LeftForeArm": turn}})
            pose = stream.latest()
            assert pose is not None
            seen.append(pose[entry])
    np.testing.assert_allclose(seen, angles, atol=1e-9)


@pytest.mark.parametrize(
    "message",
    [
        b"\xff\xfe",
        b"[" * 5_000,
        b"{}",
        b"[1]",
        {"pose": [1.0]},
        {"pose": {"nothing": 1.0}},
        {"pose": [[None]]},
        b'{"pose": [NaN, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}',
        {"pose": {"Hips.rx": 1e300}},
        {"rotations": {"LeftArm": [0, 0, 0, 1]}},
        {"skeleton": {"names": [], "parents": [], "translations": []}},
        {"skeleton": {"names": ["a"], "parents": [5], "translations": [[0, 0, 0]]}},
        {"skeleton": 3},
    ],
)
def test_what_is_no_pose_is_counted_and_changes_nothing(
    sender: socket.socket, message: Any
) -> None:
    with PoseStream(_rig()) as stream:
        _send(sender, stream, message)
        assert stream.latest() is None
        assert (stream.received, stream.refused) == (1, 1)
        assert stream.trouble
        assert "\n" not in stream.trouble


def test_a_skeleton_without_matching_joints_is_refused_itself(sender: socket.socket) -> None:
    described = {"names": ["q0", "q1"], "parents": [-1, 0], "translations": [[0, 0, 0], [0, 1, 0]]}
    with PoseStream(_rig()) as stream:
        _send(sender, stream, {"skeleton": described})
        _send(sender, stream, {"rotations": {"q0": [0, 0, 1, 0]}})
        assert stream.latest() is None
        assert stream.refused == 2


def test_a_port_that_is_taken_is_refused_in_a_line() -> None:
    with PoseStream(_rig()) as stream, pytest.raises(SuppleError, match="choose another"):
        PoseStream(_rig(), stream.port)


def test_the_viewer_follows_a_stream(sender: socket.socket) -> None:
    from supple.app.viewer.serve import follow

    model = supple.build(bending_bar(), keep=False, **bar_options())
    session = Session(CharacterActor(model))
    with PoseStream(model.rig) as stream:
        session.feeds.append(lambda: follow(session.actor, stream))
        _send(sender, stream, {"pose": [0.4]})
        session.advance(400)
        assert session.actor.pose[0] == pytest.approx(0.4, abs=1e-3)
        assert session.state == "posing"
