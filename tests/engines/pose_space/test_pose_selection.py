"""The poses a character is reduced at: given in any way, or chosen where they are needed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from supple.engines.common.pose_selection import (
    AUTO_POSES,
    mid_poses,
    poses_from_frames,
    resolve_poses,
)
from supple.errors import SuppleError, SuppleWarning
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.protocol import FunctionRig, Parameter

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
FACES = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]]
FACES += [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
REST = (0.25, 0.0, 1.0)


def _shape(pose: np.ndarray) -> np.ndarray:
    """A cube that turns about z and slides along x; the third number moves nothing."""
    c, s = np.cos(pose[0] - REST[0]), np.sin(pose[0] - REST[0])
    return CUBE @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) + [pose[1], 0, 0]


def _character(motions: dict[str, np.ndarray] | None = None, rate: float = 30) -> Character:
    parameters = [
        Parameter(name, unit, rest)
        for name, unit, rest in zip(("turn", "slide", "idle"), ("rad", "m", "1"), REST, strict=True)
    ]
    rig = FunctionRig(_shape, parameters, len(CUBE))
    made = {
        name: Motion(np.arange(len(poses)) / rate, poses, name=name)
        for name, poses in (motions or {}).items()
    }
    return Character("cube", SurfaceMesh(CUBE, FACES), rig, made)


def _runs() -> Character:
    time = np.linspace(0, 1, 61)[:, None]
    run = REST + np.hstack([np.sin(6 * time), time, 0 * time])
    jump = REST + np.hstack([0 * time, 3 * time * (1 - time), time])
    return _character({"Run": run, "Take: 2": jump})


def test_frames_of_motions_are_poses() -> None:
    character = _runs()
    poses, names = poses_from_frames(character, ["Run:12", ("Take: 2", 60), "Take: 2:0"])
    run, jump = (character.motions[name].poses for name in ("Run", "Take: 2"))
    np.testing.assert_array_equal(poses, [run[12], jump[60], jump[0]])
    assert names == ("Run:12", "Take: 2:60", "Take: 2:0")
    assert poses_from_frames(character, [])[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("Rum:3", 'cube: no motion "Rum"; did you mean "Run"'),
        ("Xyz:3", 'no motion "Xyz"; there are Run, Take: 2'),
        ("Run:61", 'motion "Run" has no frame 61; its frames are 0 to 60'),
        ("Run:-1", "no frame -1"),
        ("Run", '"Run" is not a frame of a motion; write it like "Run:0"'),
        ("Run:" + "9" * 30, "is not a frame of a motion"),
        ("", "is not a frame of a motion"),
        (("Run", 1.5), 'frames of motion "Run" must be whole numbers'),
        (("Run", True), "must be whole numbers"),
        (("Run", "3"), "must be whole numbers"),
        ((["Run"], 3), "no motion"),
        (("Run", 3, 4), "is not a frame of a motion"),
        (None, "None is not a frame of a motion"),
    ],
)
def test_a_frame_that_is_not_there_is_named(reference: object, message: str) -> None:
    with pytest.raises(SuppleError, match=message) as caught:
        poses_from_frames(_runs(), [reference])  # type: ignore[list-item]
    assert "\n" not in str(caught.value)


def test_without_motions_there_are_no_frames() -> None:
    with pytest.raises(SuppleError, match="it has none: give poses as numbers"):
        resolve_poses(_character(), ["Run:3"])


def test_a_number_of_poses_has_the_neutral_one_first_and_the_others_far_apart() -> None:
    character = _runs()
    poses, names = resolve_poses(character, 5)
    assert poses.shape == (5, 3)
    np.testing.assert_array_equal(poses[0], REST)
    assert names[0] == "neutral"
    # Names are frames: whoever writes them down gets the same poses again.
    np.testing.assert_array_equal(resolve_poses(character, names[1:])[0], poses)
    apart = [np.abs(_shape(a) - _shape(b)).max() for a, b in combinations(poses, 2)]
    assert min(apart) > 0.2
    # Fewer are the first of more, and the same every time.
    np.testing.assert_array_equal(resolve_poses(character, 3)[0], poses[:3])
    np.testing.assert_array_equal(resolve_poses(character, "auto")[0], poses[:AUTO_POSES])


def test_one_pose_is_the_neutral_one() -> None:
    for character in (_runs(), _character()):
        poses, names = resolve_poses(character, 1)
        np.testing.assert_array_equal(poses, [REST])
        assert names == ("neutral",)


def test_fewer_poses_than_requested_are_reported() -> None:
    still = _character({"Still": np.tile(REST, (9, 1))})
    with pytest.warns(SuppleWarning, match="4 poses requested, but the motions have 1 pose"):
        poses, _ = resolve_poses(still, 4)
    np.testing.assert_array_equal(poses, [REST])
    assert len(resolve_poses(still, "auto")[0]) == 1  # nobody asked for a number


def test_long_motions_are_looked_at_here_and_there() -> None:
    time = np.linspace(0, 40 * np.pi, 200_000)[:, None]
    long = _character({"Walk": REST + np.hstack([np.sin(time), 0 * time, time])}, rate=60)
    poses, _ = resolve_poses(long, 3)
    assert poses.shape == (3, 3)
    assert np.ptp(poses[:, 0]) > 1.5


def test_given_poses_get_the_neutral_one_in_front() -> None:
    given = np.array([[1.0, 0.0, 1.0], [0.25, 0.5, 1.0]])
    poses, names = resolve_poses(_character(), given)
    np.testing.assert_array_equal(poses, [REST, *given])
    assert names == ("neutral", "pose 0", "pose 1")
    poses, names = resolve_poses(_character(), {"spun": given[0], "far": given[1]})
    np.testing.assert_array_equal(poses, [REST, *given])
    assert names == ("neutral", "spun", "far")
    poses, names = resolve_poses(_character(), given[0])
    np.testing.assert_array_equal(poses, [REST, given[0]])
    assert resolve_poses(_character(), {"neutral": given[0]})[1] == ("rest pose", "neutral")


def test_a_given_neutral_pose_keeps_its_name_and_comes_first() -> None:
    given = {"spun": [1.0, 0.0, 1.0], "T": list(REST), "far": [0.25, 0.5, 1.0]}
    poses, names = resolve_poses(_character(), given)
    assert names == ("T", "spun", "far")
    np.testing.assert_array_equal(poses, [REST, given["spun"], given["far"]])


def test_a_rig_of_one_number_takes_a_list_of_them() -> None:
    rig = FunctionRig(lambda p: CUBE * (1 + p[0]), [Parameter("grow", "1")], len(CUBE))
    balloon = Character("balloon", SurfaceMesh(CUBE, FACES), rig)
    np.testing.assert_array_equal(resolve_poses(balloon, [-0.5, 2.0])[0], [[0], [-0.5], [2]])


@pytest.mark.parametrize(
    "second",
    [[1.0, 0.0, 1.0], [1.0 + 2 * np.pi, 0.0, 1.0], [1.0, 0.0, 7.0], [1.0 + 1e-12, 0.0, 1.0]],
    ids=["same numbers", "a whole turn more", "another idle number", "but for rounding"],
)
def test_a_pose_given_twice_names_both(second: list[float]) -> None:
    given = {"spun": [1.0, 0.0, 1.0], "far": [0.25, 0.5, 1.0], "again": second}
    with pytest.raises(SuppleError, match='poses "spun" and "again" give the same shape; remove'):
        resolve_poses(_character(), given)


def test_the_neutral_pose_given_twice_names_both() -> None:
    with pytest.raises(SuppleError, match='poses "pose 0" and "pose 2" give the same shape'):
        resolve_poses(_character(), [REST, [1, 0, 1], REST])
    with pytest.raises(SuppleError, match='poses "Run:0" and "Take: 2:0" give the same shape'):
        resolve_poses(_runs(), ["Run:0", "Take: 2:0"])


def test_poses_that_differ_at_one_vertex_are_not_the_same() -> None:
    points = np.random.default_rng(0).random((1000, 3))

    def one_moves(pose: np.ndarray) -> np.ndarray:
        moved = points.copy()
        moved[1] += pose[0]  # not among those that are looked at first
        return moved

    rig = FunctionRig(one_moves, [Parameter("nudge", "m")], 1000)
    character = Character("cloud", SurfaceMesh(points, [[0, 1, 2]]), rig)
    assert resolve_poses(character, [0.1, 0.2])[0].shape == (3, 1)


@pytest.mark.parametrize(
    ("poses", "message"),
    [
        (0, "0 poses; at least 1 is needed"),
        (-3, "-3 poses; at least 1"),
        (True, "poses must be a number"),
        (2.5, "poses must be a number"),
        (None, "poses must be a number"),
        (object(), "poses must be a number"),
        ([], "rows of 3 numbers"),
        ({}, "rows of 3 numbers; 1 is the neutral pose alone"),
        ("autp", '"autp" is not a frame of a motion'),
        ([[1.0, 2.0]], r'pose "pose 0": pose of shape \(2,\); the rig has 3 parameters'),
        ([[1.0, 2.0, 3.0], [1.0]], "poses must be a number"),
        ([[1.0, 2.0, np.nan]], 'pose "pose 0": "idle" is not finite'),
        ({"a": [0, 1, 2], "b": [0, np.inf, 2]}, 'pose "b": "slide" is not finite'),
        ({"a": "Run:3"}, 'pose "a": a pose must be numbers'),
        ({"a": [1e300, 0, 0]}, 'pose "a": "turn" is 1e'),
        (np.zeros((2, 2, 3)), "rows of 3 numbers"),
        (["Run:3", 4], "4 is not a frame of a motion"),
    ],
)
def test_bad_poses_are_named(poses: object, message: str) -> None:
    with pytest.raises(SuppleError, match=message) as caught:
        resolve_poses(_runs(), poses)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_motion_of_another_rig_is_named() -> None:
    stranger = _character({"Walk": np.zeros((5, 7))})
    for poses in (3, ["Walk:2"]):
        with pytest.raises(SuppleError, match='motion "Walk" have 7 entries, but the rig has 3'):
            resolve_poses(stranger, poses)


def test_middles_lie_on_the_edges_of_the_tree() -> None:
    poses = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 4.0], [-2.0, 0.0]])
    edges, middles = mid_poses(poses, [-1, 0, 1, 0])
    np.testing.assert_array_equal(edges, [[0, 1], [1, 2], [0, 3]])
    np.testing.assert_array_equal(middles, [[1, 0], [2, 2], [-1, 0]])
    edges, middles = mid_poses(poses[:1], [-1])
    assert edges.shape == (0, 2)
    assert middles.shape == (0, 2)


@pytest.mark.parametrize(
    "parents", [[-1, -1, 0], [0, 0, 0], [-1, 3, 0], [-1, 0], [-2, 0, 0], [-1, 2, 1], [-1, 0, 0.5]]
)
def test_parents_that_are_no_tree_are_refused(parents: list[int]) -> None:
    with pytest.raises(SuppleError, match="parents"):
        mid_poses(np.eye(3), parents)
