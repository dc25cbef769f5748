"""Curves of real characters, simulated: alive, calm, within bounds, and in their files."""

from __future__ import annotations

import csv
import json
import warnings

import numpy as np
import pytest

from helpers.gltf_validation import new_issues
from supple.errors import SuppleError, SuppleWarning
from supple.formats.load import load
from supple.formats.meshes.read_mesh import read_surface
from supple.formats.save import save
from supple.mesh.surface import SurfaceMesh
from supple.playback.secondary_motion import curves
from supple.rig.character import Character
from supple.rig.deformers.wire import Wire
from supple.rig.motion.motion import Motion


def loaded(path) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # what is wrong with the file
        return load(path)


def test_weights_of_a_sumo_stay_in_bounds_and_do_not_jump(assets, tmp_path):
    """Cheeks of a hard head weighed nothing and went from 0 to 1 at every frame."""
    source = assets / "rig_space" / "sumo_soft_shapes.glb"
    sumo = loaded(source)
    found = curves(sumo, end=2.6, rate=120, blend=0, tets=1500, cubature=80)
    assert len(found.free) == 64
    assert found.values.min() >= 0
    assert 0.1 < found.values.max() <= 1
    assert np.abs(np.diff(found.values, axis=0)).max() < 0.3
    figures = save(tmp_path / "sumo.glb", found)
    assert figures["error"] <= 5e-4
    assert not new_issues(source, tmp_path / "sumo.glb")
    again, skins = loaded(tmp_path / "sumo.glb"), []
    for time, pose in zip(found.times[::24], found.poses[::24], strict=True):
        skins.append(sumo.rig(pose) - again.rig(again.motions["jumps"].at(time)[0]))
    assert np.abs(skins).max() < 0.002 * sumo.surface.size


@pytest.mark.parametrize("name", ["gltf_characters/q_Husky", "rig_space/m2m_dragon"])
def test_of_characters_whose_tails_are_keyed_nothing_is_free_by_itself(assets, name):
    with pytest.raises(SuppleError, match='nothing is free; name what to move, such as "tail'):
        curves(loaded(assets / f"{name}.glb"))


def test_a_tail_that_is_keyed_swings_beside_its_keys_without_trembling(assets):
    husky = loaded(assets / "gltf_characters" / "q_Husky.glb")
    found = curves(
        husky, "AnimalArmature|Gallop", free=["tail*"], rate=120, tets=2000, cubature=100
    )
    added = np.degrees(found.added)
    assert 3 < np.abs(added).max() < 40
    twists = [k for k, name in enumerate(found.free) if name.endswith(".ry")]
    # 2.07 degrees in 1/120 s; 1.70 where smoothing may leave the file's keys as far as it likes.
    assert np.abs(np.diff(added[:, twists], axis=0)).max() < 2.5
    assert {name[:4] for name in found.free} == {"Tail"}


def test_a_wire_that_code_gives_an_elephant_is_its_trunk(assets, tmp_path):
    read = read_surface(assets / "complementary_dynamics/elephant/elephant.obj")
    surface = SurfaceMesh(read.vertices / 100, read.triangles)
    line = [[0, 0.9, 0.36], [0, 0.8, 0.38], [0, 0.7, 0.385], [0, 0.6, 0.36], [0, 0.52, 0.35]]
    wire = Wire(surface.vertices, line, dropoff=0.16)
    times = np.arange(61) / 30
    roots = np.tile(np.eye(4), (61, 1, 1))
    turn = 0.35 * np.sin(2 * np.pi * np.minimum(times, 1.0))
    roots[:, 0, 0] = roots[:, 2, 2] = np.cos(turn)
    roots[:, 0, 2], roots[:, 2, 0] = np.sin(turn), -np.sin(turn)
    shake = Motion(times, np.zeros((61, 15)), roots, "shake")
    elephant = Character("elephant", surface, wire, {"shake": shake})
    found = curves(elephant, free=["wire.[1-4].*"], tets=1500)
    assert len(found.free) == 12
    tip = found.values[:, found.free.index("wire.4.tx")]
    assert 0.05 < np.abs(tip).max() < 0.4
    assert np.sign(tip[-30:]).min() < 0 < np.sign(tip[-30:]).max()  # it goes on swinging
    save(tmp_path / "trunk.csv", found)
    save(tmp_path / "trunk.json", found, keys="spline")
    rows = list(csv.reader((tmp_path / "trunk.csv").open()))
    assert rows[0][1:] == list(found.free)
    np.testing.assert_allclose(np.array(rows[1:], float)[:, 1:], found.values, atol=1e-5)
    listed = json.loads((tmp_path / "trunk.json").read_text())["curves"]
    assert [each["parameter"] for each in listed] == list(found.free)
