"""Poses of a build: given in every way there is, or added until they are enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.build_samples import bar_options, bending_bar, jointed_arm, mean_young, motion_of
from supple.engines.common.model_file import packed_model
from supple.engines.common.pose_selection import AUTO_POSES
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.build.sampled_poses import ENOUGH
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleWarning
from supple.mesh.obstacles import Plane
from supple.rig.character import Character


def arm_options(**changed: Any) -> dict[str, Any]:
    return bar_options(**{"bones": None} | changed)


def worst(model: PoseSpaceModel) -> float:
    return float(model.report["mid_pose_frequency_ratio"])


def turning() -> Character:
    """All of the arm turns about its root, and nothing bends."""
    turn = np.zeros((9, 6))
    turn[:, 2] = np.linspace(-1.5, 1.5, 9)
    arm = jointed_arm()
    return Character("turning", arm.surface, arm.rig, {"Turn": motion_of(turn, "Turn")})


@pytest.mark.parametrize("given", ["Swing:11", ["Swing:11"], [("Swing", 11)]])
def test_frames_of_a_motion_are_poses(given):
    model = build(jointed_arm(), **arm_options(poses=given))
    assert model.pose_names == ("neutral", "Swing:11")
    np.testing.assert_array_equal(model.poses[1], jointed_arm().motions["Swing"].poses[11])
    np.testing.assert_array_equal(model.poses[0], 0)


def test_a_pose_is_the_same_however_it_is_given():
    bent = jointed_arm().motions["Swing"].poses[11]
    frame, named, row = (
        build(jointed_arm(), **arm_options(poses=poses))
        for poses in (["Swing:11"], {"bent": bent}, [bent])
    )
    assert [model.pose_names[1] for model in (frame, named, row)] == ["Swing:11", "bent", "pose 0"]
    for model in (named, row):
        np.testing.assert_array_equal(model.poses, frame.poses)
        np.testing.assert_array_equal(model.elastic_weights, frame.elastic_weights)
        for mine, theirs in zip(model.bases, frame.bases, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_number_of_poses_is_chosen_from_the_motions():
    model = build(jointed_arm(), **arm_options(poses=3))
    assert model.pose_names[0] == "neutral"
    assert model.pose_names[1] == "Swing:11"  # the farthest from rest
    assert model.n_poses == 3
    again = build(jointed_arm(), **arm_options(poses=model.pose_names[1:]))
    assert packed_model(again) == packed_model(model)


def test_the_neutral_pose_may_be_given_too_and_keeps_its_name():
    model = build(
        jointed_arm(), **arm_options(poses={"bent": [0, 0, 0, 0, 0, 1.0], "T": [0.0] * 6})
    )
    assert model.pose_names == ("T", "bent")


def test_too_many_requested_poses_are_reported():
    arm = jointed_arm()
    ends = motion_of(arm.motions["Swing"].poses[[0, 11]], "Ends")
    two = Character("two", arm.surface, arm.rig, {"Ends": ends})
    with pytest.warns(SuppleWarning, match="9 poses requested, but the motions have 2 poses"):
        model = build(two, **arm_options(poses=9))
    assert model.pose_names == ("neutral", "Ends:1")


@pytest.fixture(scope="module")
def automatic() -> PoseSpaceModel:
    return build(bending_bar(), **bar_options(poses="auto", modes=6))


def test_poses_are_added_until_frequencies_between_them_hardly_change(automatic):
    """The bar from −135° to 135°, with so few modes that its start poses are not enough."""
    frames = automatic.pose_names[1:AUTO_POSES]
    assert all(name.startswith("sweep:") for name in frames)
    start = build(bending_bar(), **bar_options(poses=frames, modes=6))
    assert worst(start) > ENOUGH
    assert automatic.n_poses > AUTO_POSES
    assert worst(automatic) < ENOUGH
    added = automatic.pose_names[AUTO_POSES:]
    assert added == tuple(f"halfway {k + 1}" for k in range(len(added)))
    ratios = [max(row["to_recomputed"]) for row in automatic.report["mid_poses"]]
    assert max(ratios) == pytest.approx(worst(automatic))


def test_poses_that_were_added_are_halfway_between_others(automatic):
    angles = automatic.poses[:, 0]
    for k in range(AUTO_POSES, automatic.n_poses):
        halves = (angles[:k, None] + angles[None, :k]) / 2
        off = ~np.eye(k, dtype=bool)
        assert np.abs(halves[off] - angles[k]).min() < 1e-12
    assert len(np.unique(angles)) == len(angles)


def test_given_poses_are_never_added_to():
    given = {"left": np.radians([-135.0]), "right": np.radians([135.0])}
    model = build(bending_bar(), **bar_options(poses=given, modes=6))
    assert worst(model) > ENOUGH
    assert model.pose_names == ("neutral", "left", "right")


def test_nothing_is_added_where_nothing_changes():
    model = build(turning(), **arm_options(poses="auto"))
    assert model.n_poses == AUTO_POSES
    assert worst(model) == pytest.approx(1, abs=1e-6)
    # fig. 7 of xu2016: turned rigidly, aligned subspaces are the same.
    assert max(model.report["subspace_angles"]["largest"]) < 1e-6


def test_a_character_that_does_not_move_has_one_pose():
    arm = jointed_arm()
    still = {"Still": motion_of(np.zeros((9, 6)), "Still")}
    for motions in ({}, still):
        model = build(
            Character("still", arm.surface, arm.rig, motions), **arm_options(poses="auto")
        )
        assert model.pose_names == ("neutral",)


def test_adding_stops_at_the_most_poses_with_a_warning():
    options = bar_options(poses="auto", interpolation="world", most_poses=5)
    with pytest.warns(
        SuppleWarning, match="with 5 poses, interpolation still changes .* factor of .*most_poses"
    ):
        model = build(bending_bar(), **options)
    assert model.n_poses == 5
    assert worst(model) > ENOUGH
    enough = build(bending_bar(), **options | {"most_poses": 12})
    assert 5 < enough.n_poses <= 12
    assert worst(enough) < ENOUGH


def test_fewer_poses_than_auto_begins_with_can_be_the_most():
    options = bar_options(poses="auto", interpolation="world", most_poses=2)
    with pytest.warns(SuppleWarning, match="raise most_poses"):
        assert build(bending_bar(), **options).n_poses == 2


def test_halving_ends_where_contact_begins_and_is_reported():
    """Frequencies jump there, however near the poses are."""
    ground = Plane((0, 0, -0.2), (0, 0, 1))
    options = bar_options(poses="auto", modes=12, obstacles=[ground])
    with pytest.warns(SuppleWarning, match="contact"):
        model = build(bending_bar(), **options)
    assert model.n_poses < 12
    assert worst(model) > ENOUGH


def test_materials_of_added_poses_are_between_those_of_others():
    moduli = np.array([1e4, 2e4, 4e4, 8e4])
    young = moduli[:, None] * np.ones(len(bending_bar().surface.vertices))
    model = build(bending_bar(), **bar_options(poses="auto", modes=6, young=young))
    assert model.n_poses > AUTO_POSES
    means = np.array([mean_young(model, k) for k in range(model.n_poses)])
    np.testing.assert_allclose(means[:AUTO_POSES], moduli, rtol=1e-6)
    added = means[AUTO_POSES:]
    assert ((added > 1e4) & (added < 8e4)).all()
    assert np.abs(added[:, None] / moduli - 1).min() > 0.01


def test_frames_interpolate_a_bent_beam_where_the_world_does_not():
    """Poses −135°, 0 and 135°, 20 modes: what xu2016 §5 does, and what turning frames add."""
    cells = (16, 2, 2)
    ends = {"left": np.radians([-135.0]), "right": np.radians([135.0])}
    halves = {"half left": np.radians([-67.5]), "half right": np.radians([67.5])}
    beam = bending_bar(cells=cells)
    options = bar_options(cells, poses=ends, modes=20)
    frames = build(beam, **options)
    world = build(beam, **options, interpolation="world")
    more = build(beam, **options | {"poses": ends | halves})
    assert (frames.interpolation, world.interpolation) == ("frames", "world")
    assert world.rotations is None
    worst = [
        max(
            max(max(ratio, 1 / ratio) for ratio in row["to_exact"]) for row in m.report["mid_poses"]
        )
        for m in (frames, world, more)
    ]
    assert worst[0] < 1.1
    assert worst[1] > 2
    assert worst[2] < 1.02
