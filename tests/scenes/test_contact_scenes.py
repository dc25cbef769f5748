"""Scenes of contact: things are where they are touched, and bodies feel them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from helpers.build_samples import kept_scenes
from supple import Box, Plane, RigidObject, Sphere
from supple.engines.factory import build
from supple.errors import SuppleError
from supple.mesh.obstacles import Capsule
from supple.scenes.characters.character_scene import scene
from supple.scenes.contact import props
from supple.scenes.contact.contact_scene import CONTACT_SCENES, contact_scene


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


@cache
def model(name: str):
    few = {"tets": 3000, "handles": 24, "cubature": 150, "points": 150}
    return build(scene(name).character, engine="soft-skeleton", **few)


@pytest.mark.parametrize("name", CONTACT_SCENES)
def test_every_scene_is_made_anew_and_begins_without_pushing(name: str) -> None:
    first, second = contact_scene(name), contact_scene(name)
    assert first.name == name
    for a, b in zip(first.objects, second.objects, strict=True):
        assert a is not b
    assert first.seconds > 1
    pose, root = first.motion.at(first.start)
    skin = first.scene.character.rig(pose) @ root[:3, :3].T + root[:3, 3]
    for thing in (*first.obstacles, *first.objects):
        assert thing.distances(skin)[0].min() > -0.006


def test_unknown_names_are_answered_with_near_ones() -> None:
    with pytest.raises(SuppleError, match='no contact scene "hand-bal"; did you mean "hand-ball"'):
        contact_scene("hand-bal")
    with pytest.raises(SuppleError, match="there are hand-ball, hand-pin"):
        contact_scene("")
    with pytest.raises(SuppleError, match='hand-ball: no object "bell"; there are ball'):
        contact_scene("hand-ball").object("bell")


def test_the_hand_lifts_the_ball_and_feels_its_weight() -> None:
    shown = contact_scene("hand-ball")
    ball = shown.object("ball")
    before = ball.centre[1]
    record = shown.record(shown.simulator(model("hand")), rate=10)
    assert record.limits == ()
    assert ball.centre[1] - before == pytest.approx(0.12, abs=0.02)
    assert -record.forces[-1, 1] == pytest.approx(9.81 * ball.mass, rel=0.15)
    assert np.linalg.norm(record.forces, axis=1).max() < 60
    assert len(record.skins) == len(record.things) == len(record.times) == 25
    assert set(record.by_thing) == {"ball"}


def test_the_pin_is_led_and_felt_by_one_finger_alone() -> None:
    shown = contact_scene("hand-pin")
    simulator = shown.simulator(model("hand"))
    felt: set[str] = set()
    for state in shown.play(simulator, 0.8):
        felt |= set(state.readings["parts"])
    assert felt
    assert all(part.startswith("index") for part in felt)
    assert state.readings["contact_force"][1] > 0


def test_the_bench_carries_the_weight_of_a_person_at_rest() -> None:
    shown = contact_scene("body-bench")
    record = shown.record(shown.simulator(model("human")), rate=10)
    settled = record.forces[-30:].mean(axis=0)
    assert settled[1] / 9.81 == pytest.approx(model("human").masses.sum(), rel=0.02)
    assert np.abs(settled[[0, 2]]).max() < 30
    assert record.skins[-1, :, 1].min() > 0.40  # on it, not through it


def test_a_fall_ends_on_the_ground() -> None:
    shown = contact_scene("body-fall")
    record = shown.record(shown.simulator(model("human")), rate=10)
    assert np.linalg.norm(record.forces, axis=1).max() > 1500
    assert record.skins[-1, :, 1].max() < 0.75
    assert record.skins[-1, :, 1].min() > -0.06


def test_a_limp_person_hangs_by_the_wrists() -> None:
    shown = contact_scene("body-hang")
    simulator = shown.simulator(model("human"))
    start = simulator.surface()[:, 1].mean()
    for _ in shown.play(simulator, 1.0):
        pass
    assert simulator.surface()[:, 1].mean() == pytest.approx(start, abs=0.12)


def test_a_rope_pulls_and_never_pushes() -> None:
    rope = props.Rope(np.array([0, 1]), np.array([0.0, 1.0, 0.0]), 0.9, 100.0, 0.0)
    still = np.zeros((2, 3))
    np.testing.assert_allclose(rope.forces(np.zeros((2, 3)), still).sum(axis=0), [0, 10, 0])
    np.testing.assert_array_equal(rope.forces(np.full((2, 3), [0, 0.5, 0]), still), 0)


@pytest.mark.parametrize(
    "thing",
    [
        Sphere((1, 2, 3), 0.5),
        Capsule((0, 0, 0), (1, 1, 0), 0.2),
        Box((0, 1, 0), (0.1, 0.2, 0.3)),
        RigidObject(Sphere((0, 0, 0), 0.2), mass=1.0, place=props.at((1, 0, 0))),
    ],
)
def test_surfaces_of_things_are_where_they_touch(thing) -> None:
    surface = props.collider_surface(thing)
    assert surface is not None
    np.testing.assert_allclose(thing.distances(surface.vertices)[0], 0.0, atol=1e-9)
    assert surface.volume() > 0
    assert props.collider_surface(Plane((0, 0, 0), (0, 1, 0))) is None
