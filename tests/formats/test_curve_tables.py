"""Free curves of any rig as tables, and of skeletons as BVH."""

import csv
import json

import numpy as np
import pytest

import supple
from helpers.spring_engine import spring_engine
from helpers.tail_file import tail_file
from supple.errors import FormatError
from supple.formats import read_bvh
from supple.formats.save import remove_curves
from supple.maths.key_reduction import Keys
from supple.rig import Bend, Motion
from supple.rig.character import Character


@pytest.fixture(scope="module", autouse=True)
def springs():
    with spring_engine() as name:
        yield name


def made(character, free, **options):
    return supple.curves(character, engine="springs", free=free, anatomy=None, **options)


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    file = tail_file(tmp_path_factory.mktemp("tail") / "tail.glb")
    return made(supple.load(file), ["wag.r*", "tail_*.r*"])


@pytest.fixture(scope="module")
def bent(curves):
    """A rig that no file format has: a bend, in code."""
    surface = curves.character.surface
    rig = Bend(surface.vertices)
    times = np.arange(31) / 30
    motion = Motion(times, 0.5 * np.sin(4 * times)[:, None], name="nod")
    return made(Character("bent", surface, rig, {"nod": motion}), ["bend.angle"])


def test_a_csv_has_every_frame(bent, tmp_path):
    figures = supple.save(tmp_path / "bent.csv", bent)
    rows = list(csv.reader((tmp_path / "bent.csv").open()))
    assert rows[0] == ["time", "bend.angle"]
    table = np.array(rows[1:], float)
    assert np.allclose(table[:, 0], bent.times)
    assert np.allclose(table[:, 1:], bent.values)
    assert figures["n_keys"] == 31
    supple.save(tmp_path / "added.csv", bent, additive=True)
    added = np.array(list(csv.reader((tmp_path / "added.csv").open()))[1:], float)
    assert np.allclose(added[:, 1:], bent.added, atol=1e-8)


@pytest.mark.parametrize("keys", ["every", "linear", "spline"])
def test_a_json_has_keys_within_the_error(bent, tmp_path, keys):
    figures = supple.save(tmp_path / "bent.json", bent, keys=keys, error=1e-3)
    tree = json.loads((tmp_path / "bent.json").read_text())
    assert tree["format"] == "supple curves"
    assert tree["motion"] == "nod"
    only = tree["curves"][0]
    assert (only["parameter"], only["unit"], only["rest"]) == ("bend.angle", "rad", 0.0)
    slopes = np.array(only["tangents"])[:, None] if keys == "spline" else None
    read = Keys(np.array(only["times"]), np.array(only["values"])[:, None], slopes)
    size, rig = bent.character.surface.size, bent.character.rig
    for time, pose in zip(bent.times, bent.poses, strict=True):
        assert np.abs(rig(read.at([time])[0]) - rig(pose)).max() <= 1e-3 * size
    assert figures["error"] <= 1e-3
    assert (len(only["times"]) < 31) == (keys != "every")


def test_a_bvh_moves_joints_as_the_curves_do(curves, tmp_path):
    supple.save(tmp_path / "tail.bvh", curves)
    read = read_bvh(tmp_path / "tail.bvh", metres_per_unit=0.01, up="y")
    pose = curves.character.source.joint_pose
    rows = curves.poses[:, : pose.n_parameters]
    goal = (curves.roots[:, None] @ pose.matrices(rows))[:, :, :3, 3]
    found = read.motion.roots[:, None] @ read.joint_pose.matrices(read.motion.poses)
    names = [read.skeleton.names.index(name) for name in pose.skeleton.names]
    assert np.abs(found[..., :3, 3][:, names] - goal).max() < 1e-5
    assert np.allclose(read.motion.times, curves.times)
    alone = read_bvh(_saved(tmp_path / "added.bvh", curves, additive=True), 0.01, "y")
    assert np.allclose(alone.motion.roots, np.eye(4), atol=1e-6)


def _saved(path, curves, **options):
    supple.save(path, curves, **options)
    return path


def test_curves_that_a_bvh_cannot_hold_are_reported(curves, bent, tmp_path):
    character = curves.character
    with pytest.warns(match="1 curves of weights"):
        supple.save(tmp_path / "x.bvh", made(character, ["belly", "wag.r*"]))
    with pytest.raises(FormatError, match="no joint is free"):
        supple.save(tmp_path / "y.bvh", made(character, ["belly"]))
    with pytest.raises(FormatError, match="the rig has no skeleton"):
        supple.save(tmp_path / "y.bvh", bent)
    with pytest.raises(FormatError, match="holds only a motion"):
        remove_curves(tmp_path / "y.bvh", tmp_path / "x.bvh")
    assert not (tmp_path / "y.bvh").exists()
