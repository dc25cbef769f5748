"""Baked motions of body models go to glTF with joints and a skin, and to caches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree

import supple
from helpers.gltf_validation import WARNING, issues
from helpers.smpl_samples import body_fields, write_body
from supple.dynamics.root_frame import to_world
from supple.rig.baked_motion import BakedMotion
from supple.rig.skeleton.skinning import SkinnedRig, skinned_core

FRAMES = 12


def baked(tmp_path, joints: int = 24, flesh: float = 0.01) -> BakedMotion:
    """Return a body that turns all its joints, with flesh that swings beside the rig."""
    rng, s = np.random.default_rng(4), np.linspace(0, 1, FRAMES)
    fields = body_fields(joints)
    fields["posedirs"] *= 0.5
    poses = np.sin(2 * np.pi * s)[:, None] * 0.4 * rng.standard_normal(3 * joints)
    trans = np.column_stack([s, 0 * s, 0.2 * np.sin(6 * s)])
    np.savez(tmp_path / "sway.npz", poses=poses, trans=trans, mocap_framerate=30)
    body = write_body(tmp_path / "body.npz", fields)
    character = supple.load(body, motion=tmp_path / "sway.npz")
    motion = character.motions["sway"]
    moved = [to_world(r, character.rig(p)) for p, r in zip(motion.poses, motion.roots, strict=True)]
    swing = flesh * np.sin(7 * s)[:, None, None] * rng.standard_normal(moved[0].shape)
    return BakedMotion(character, motion, np.asarray(moved + swing, np.float32), 30.0)


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_a_body_in_gltf_plays_what_was_baked(suffix, tmp_path):
    film = baked(tmp_path)
    figures = supple.save(tmp_path / f"out{suffix}", film)
    assert figures["error"] <= 0.002
    again = supple.load(tmp_path / f"out{suffix}", flesh=True)
    (motion,) = again.motions.values()
    assert _skin(again).skeleton.n_joints >= 24
    size = film.character.surface.size
    order = _same_vertices(again, film)
    for frame, time in enumerate(film.times - film.times[0]):
        pose, root = motion.at(min(time, motion.times[-1]))
        found = to_world(root, again.rig(pose))[order]
        assert np.linalg.norm(found - film.frames[frame], axis=1).max() < 0.0025 * size


def _same_vertices(again, film):
    """Return places of the vertices in the loaded file: bound positions are all different."""
    return cKDTree(_skin(again).vertices).query(_skin(film.character).vertices)[1]


def _skin(character) -> SkinnedRig:
    core = skinned_core(character.rig)
    assert core is not None
    return core.rig


def test_the_validator_finds_nothing_wrong(tmp_path):
    supple.save(tmp_path / "out.glb", baked(tmp_path))
    assert issues(tmp_path / "out.glb", least=WARNING) == [{}]


def test_without_pose_shapes_and_flesh_no_shape_is_needed(tmp_path):
    fields = body_fields()
    del fields["posedirs"]
    np.savez(tmp_path / "sway.npz", poses=np.linspace(0, 1, 5)[:, None] * np.ones(72), fps=30)
    body = supple.load(write_body(tmp_path / "b.npz", fields), motion=tmp_path / "sway.npz")
    assert type(body.rig) is SkinnedRig
    motion = body.motions["sway"]
    moved = [to_world(r, body.rig(p)) for p, r in zip(motion.poses, motion.roots, strict=True)]
    film = BakedMotion(body, motion, np.asarray(moved, np.float32), 30.0)
    assert supple.save(tmp_path / "out.glb", film)["n_shapes"] == 0


@pytest.mark.parametrize("suffix", [".npz", ".pc2", ".mdd"])
def test_caches_hold_every_vertex(suffix, tmp_path):
    film = baked(tmp_path, 16)
    supple.save(tmp_path / f"out{suffix}", film)
    if suffix == ".npz":
        with np.load(tmp_path / "out.npz") as found:
            np.testing.assert_array_equal(found["frames"], film.frames)
