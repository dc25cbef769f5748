"""Every feature of glTF that a character may use, one by one, against the reference evaluator."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from helpers.gltf_builder import FACES, OCTAHEDRON, Builder, skinned_octahedron, turn
from helpers.gltf_loading import farthest, quietly, world
from helpers.gltf_reference import Reference
from supple.errors import SuppleError, SuppleWarning
from supple.formats.gltf.read.gltf import load_gltf
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion import root_motion

FILES = [
    "RiggedSimple.glb", "MorphStressTest.glb", "RecursiveSkeletons.glb", "AnimatedMorphCube.glb",
    "SimpleSkin-embedded.gltf", "SimpleMorph-embedded.gltf", "SimpleSkin-multibin/SimpleSkin.gltf",
    *(f"Animation_Skin_{k:02}.gltf" for k in (0, 1, 2, 3, 5, 6, 9, 11)),
    *(f"Animation_SkinType_{k:02}.gltf" for k in (0, 1, 3)), "quad_skin_10influences.glb",
]  # fmt: skip


def check(path: Path, tolerance: float = 1e-6) -> Character:
    """The character, after its rest pose and clips were held against the reference."""
    character, reference = quietly(path), Reference(path)
    assert farthest(character, character.surface.vertices, reference.positions(None, 0)) < tolerance
    for clip in character.source.clips.values():
        times = np.linspace(clip.start - 0.2, clip.end + 0.2, 7)
        for time, pose, root in zip(times, *clip.sample(times), strict=True):
            expected = reference.positions(clip.animation, time)
            assert farthest(character, world(character, pose, root), expected) < tolerance
    return character


@pytest.mark.parametrize("file", FILES)
def test_feature_files_are_read_as_by_the_reference(assets, file):
    check(assets / "gltf_feature_tests" / file)


def test_all_feature_files_are_tested(assets):
    folder = assets / "gltf_feature_tests"
    present = {str(p.relative_to(folder)) for p in folder.rglob("*.gl*")}
    assert present == {*FILES, "RiggedSimple-Draco/RiggedSimple.gltf"}


def test_84_skins_become_one_skeleton(assets):
    character = quietly(assets / "gltf_feature_tests/RecursiveSkeletons.glb")
    assert len(character.source.primitives) == 84
    assert character.source.joint_pose.skeleton.n_joints == 840
    assert len(character.surface.vertices) == 84 * 40


def test_morph_targets_become_named_parameters(assets):
    character = quietly(assets / "gltf_feature_tests/MorphStressTest.glb")
    assert isinstance(character.rig, BlendShapeRig)
    assert [p.name for p in character.rig.parameters[-8:]] == [f"Key {k}" for k in range(1, 9)]
    assert all(p.unit == "1" for p in character.rig.parameters[-8:])


def test_ten_influences_a_vertex_are_read(assets):
    character = quietly(assets / "gltf_feature_tests/quad_skin_10influences.glb")
    assert character.rig.joints.shape[1] == 10  # type: ignore[attr-defined]


def test_draco_without_its_decoder_is_an_error_that_names_the_extra(assets, monkeypatch):
    monkeypatch.setitem(sys.modules, "DracoPy", None)
    with pytest.raises(SuppleError, match=r"^RiggedSimple.gltf: .* pip install 'supple\[draco\]'"):
        load_gltf(assets / "gltf_feature_tests/RiggedSimple-Draco/RiggedSimple.gltf")


def test_draco_decodes_to_the_same_character(assets):
    pytest.importorskip("DracoPy", reason="the extra draco is not installed")
    folder = assets / "gltf_feature_tests"
    packed = quietly(folder / "RiggedSimple-Draco/RiggedSimple.gltf")
    plain = quietly(folder / "RiggedSimple.glb")
    assert len(packed.surface.triangles) == len(plain.surface.triangles)
    for name, motion in plain.motions.items():
        middle = motion.n_frames // 2
        one = world(plain, motion.poses[middle], motion.roots[middle])
        other_motion = packed.motions[name]
        other = world(packed, other_motion.poses[middle], other_motion.roots[middle])
        # Draco keeps 11 bits of each coordinate here.
        np.testing.assert_allclose(
            [one.min(axis=0), one.max(axis=0)], [other.min(axis=0), other.max(axis=0)],
            atol=2e-3 * plain.surface.size,
        )  # fmt: skip


@pytest.mark.parametrize("save", ["save_gltf", "save_glb"])
def test_one_buffer_or_many_inline_or_beside(tmp_path, save):
    character = check(getattr(skinned_octahedron(), save)(tmp_path / "a.glb"))
    assert len(character.surface.vertices) == 6
    assert character.surface.volume() == pytest.approx(0.125 * 4 / 3, rel=0.2)


@pytest.mark.parametrize("how", ["STEP", "LINEAR", "CUBICSPLINE"])
def test_samplers_of_all_interpolations(tmp_path, how):
    b = skinned_octahedron()
    random = np.random.default_rng(3)
    times = [0.25, 0.5, 1.5, 1.75]
    n = 3 if how == "CUBICSPLINE" else 1
    quaternions = random.normal(size=(4 * n, 4))
    if n == 1:
        quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    else:
        quaternions[1::3] /= np.linalg.norm(quaternions[1::3], axis=1, keepdims=True)
    b.animate(2, "translation", times, random.normal(size=(4 * n, 3)), how)
    b.animate(3, "rotation", times, quaternions, how)
    b.animate(3, "scale", times, 1 + 0.1 * random.uniform(-1, 1, size=(4 * n, 3)), how)
    character = check(b.save_glb(tmp_path / "a.glb"))
    assert character.source.joint_pose.scaling.tolist() == [1]
    clip, motion = character.source.clips["clip"], character.motions["clip"]
    # Between keys the motion, a smooth curve, stays near the clip: it was sampled densely.
    when = np.linspace(0.3, 1.7, 40)
    if how == "STEP":
        when = when[np.abs(when[:, None] - times).min(axis=1) > 0.06]  # C² curves ring at steps
    poses, roots = clip.sample(when)
    for time, pose, root in zip(when, poses, roots, strict=True):
        off = world(character, *motion.at(time)) - world(character, pose, root)
        assert np.abs(off).max() < 0.02 * character.surface.size


def test_a_clip_that_only_bends_a_fixed_body_has_no_root_motion(tmp_path):
    b = skinned_octahedron()
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    character = check(b.save_glb(tmp_path / "a.glb"))
    np.testing.assert_array_equal(character.motions["clip"].roots, np.tile(np.eye(4), (2, 1, 1)))


def test_root_motion_under_an_unevenly_scaled_parent_is_still_exact(tmp_path):
    b = skinned_octahedron()
    b.json["nodes"][1]["scale"] = [0.5, 2.0, 1.0]
    b.animate(2, "translation", [0, 0.7, 1], [[0, -1, 0], [3, 0, 1], [2, -1, 5]])
    b.animate(2, "rotation", [0, 1], [turn(1, 0), turn(1, 3)])
    character = check(b.save_glb(tmp_path / "a.glb"))
    assert character.source.clips["clip"].tracks.space.split.joint == 1


def test_a_static_prop_beside_a_walking_body_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(root_motion, "MOST_ANCHORED", 0.5)  # 3 of 9 vertices are the prop's
    b = skinned_octahedron()
    b.animate(2, "translation", [0, 1], [[0, -1, 0], [4, -1, 2]])
    prop = [[0, 0, 0], [0.01, 0, 0], [0, 0.01, 0]]
    b.add("meshes", {"primitives": [{"attributes": {"POSITION": b.accessor(prop)}}]})
    b.json["scenes"][0]["nodes"].append(b.add("nodes", {"mesh": 1, "translation": [0, 1, 0]}))
    character = check(b.save_glb(tmp_path / "a.glb"))
    assert np.ptp(character.motions["clip"].roots[:, :3, 3], axis=0).max() > 1


def test_skins_bound_differently_share_joints(tmp_path):
    b = skinned_octahedron()
    inverse = np.tile(np.eye(4), (2, 1, 1))
    inverse[0, :3, :3] *= 2
    inverse[1, :3, 3] = (0.3, 0.2, 0.1)
    matrices = b.accessor(inverse.transpose(0, 2, 1).reshape(2, 16))
    b.add("skins", {"joints": [2, 3], "inverseBindMatrices": matrices})
    b.add("nodes", {"mesh": 0, "skin": 1})
    b.json["scenes"][0]["nodes"].append(4)
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    character = check(b.save_glb(tmp_path / "a.glb"))
    names = character.source.joint_pose.skeleton.names
    assert names == ("hip", "head", "head.bound")
    assert character.source.joint_nodes.tolist() == [2, 3, 3]


def test_eight_influences_and_normalised_weights(tmp_path):
    b = skinned_octahedron()
    attributes = b.json["meshes"][0]["primitives"][0]["attributes"]
    half = np.tile([64, 64, 0, 0], (6, 1))
    attributes["WEIGHTS_0"] = b.accessor(half, "B", normalized=True)
    attributes["JOINTS_1"] = b.accessor(np.tile([1, 0, 0, 0], (6, 1)), "H")
    attributes["WEIGHTS_1"] = b.accessor(np.tile([127, 0, 0, 0], (6, 1)), "B", normalized=True)
    character = check(b.save_glb(tmp_path / "a.glb"))
    np.testing.assert_allclose(
        character.rig.weight_matrix().toarray()[:, 1],  # type: ignore[attr-defined]
        (64 + 127) / 255,
    )


@pytest.mark.parametrize(("letter", "factor"), [("b", 127), ("B", 255), ("h", 32767), ("H", 65535)])
def test_quantized_positions(tmp_path, letter, factor):
    b = Builder()
    points = OCTAHEDRON if letter.islower() else (OCTAHEDRON + 1) / 2
    pad = -3 * np.dtype(letter).itemsize % 4
    positions = b.accessor(np.rint(points * factor).astype(int), letter, pad, normalized=True)
    mesh = {"attributes": {"POSITION": positions}, "indices": b.accessor(FACES.ravel(), "B")}
    b.add("meshes", {"primitives": [mesh]})
    b.add("nodes", {"mesh": 0, "scale": [3, 3, 3]})
    b.json["extensionsUsed"] = b.json["extensionsRequired"] = ["KHR_mesh_quantization"]
    character = load_gltf(b.save_glb(tmp_path / "a.glb"))
    assert character.warnings == ()
    np.testing.assert_allclose(character.surface.vertices, 3 * points, atol=3 / factor)


@pytest.mark.parametrize("base", [True, False])
def test_sparse_accessors_with_and_without_a_base(tmp_path, base):
    b = Builder()
    positions = b.accessor(OCTAHEDRON)
    described = b.json["accessors"][positions]
    where = b.view(np.array([1, 4], dtype="<u2").tobytes())
    what = b.view(np.array([[-2, 0, 0], [0, 0, 3]], dtype="<f4").tobytes())
    described["sparse"] = {
        "count": 2,
        "indices": {"bufferView": where, "componentType": 5123},
        "values": {"bufferView": what},
    }
    described |= {"min": [-2, -1, -1], "max": [1, 1, 3]}
    if not base:
        del described["bufferView"]
        described |= {"min": [-2, 0, 0], "max": [0, 0, 3]}
    indices = b.accessor(FACES.ravel(), "I")
    mesh = {"attributes": {"POSITION": positions}, "indices": indices}
    b.add("meshes", {"primitives": [mesh]})
    b.add("nodes", {"mesh": 0})
    character = check(b.save_glb(tmp_path / "a.glb"))
    assert character.surface.bounds[1, 2] == 3


def test_interleaved_attributes(tmp_path):
    b = Builder()
    positions = b.accessor(OCTAHEDRON, "f", pad=8)
    mesh = {"attributes": {"POSITION": positions}, "indices": b.accessor(FACES.ravel(), "B")}
    b.add("meshes", {"primitives": [mesh]})
    b.add("nodes", {"mesh": 0})
    assert check(b.save_glb(tmp_path / "a.glb")).surface.volume() == pytest.approx(4 / 3)


def test_strips_and_fans_are_triangles_and_lines_are_left_out(tmp_path):
    b = Builder()
    quad = b.accessor([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    strip = {"attributes": {"POSITION": quad}, "mode": 5}
    around = b.accessor([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    fan = {"attributes": {"POSITION": around}, "mode": 6}
    lines = {"attributes": {"POSITION": quad}, "mode": 1}
    b.add("meshes", {"name": "sheet", "primitives": [strip, fan, lines]})
    b.add("nodes", {"mesh": 0})
    with pytest.warns(SuppleWarning) as caught:
        character = load_gltf(b.save_glb(tmp_path / "a.glb"))
    assert any(
        'mesh "sheet", primitive 2 consists of lines; ignored' in str(w.message) for w in caught
    )
    surface = character.surface
    assert (len(surface.vertices), len(surface.triangles)) == (4, 4)
    np.testing.assert_allclose(surface.normals(), np.tile([0, 0, 1], (4, 1)))
    assert [p.primitive for p in character.source.primitives] == [0, 1]


def test_a_mirrored_mesh_is_not_inside_out(tmp_path):
    b = Builder()
    mesh = {
        "attributes": {"POSITION": b.accessor(OCTAHEDRON)},
        "indices": b.accessor(FACES.ravel(), "B"),
    }
    b.add("meshes", {"primitives": [mesh]})
    b.add("nodes", {"mesh": 0, "scale": [-1, 1, 1]})
    b.add("nodes", {"mesh": 0, "scale": [-1, -1, -1], "translation": [5, 0, 0]})
    b.add("nodes", {"mesh": 0, "translation": [-5, 0, 0]})
    character = load_gltf(b.save_glb(tmp_path / "a.glb"))
    assert character.surface.volume() == pytest.approx(4)
    assert character.warnings == ()


def test_a_sheared_matrix_is_reported(tmp_path):
    b = Builder()
    mesh = {
        "attributes": {"POSITION": b.accessor(OCTAHEDRON)},
        "indices": b.accessor(FACES.ravel(), "B"),
    }
    b.add("meshes", {"primitives": [mesh]})
    b.add("nodes", {"mesh": 0, "matrix": [1, 0, 0, 0, 0.5, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]})
    with pytest.warns(SuppleWarning, match="node 0 is sheared or singular"):
        load_gltf(b.save_glb(tmp_path / "a.glb"))


def test_morph_targets_move_with_the_skin_and_by_clips(tmp_path):
    b = skinned_octahedron()
    random = np.random.default_rng(5)
    mesh = b.json["meshes"][0]
    primitive = mesh["primitives"][0]
    primitive["targets"] = [{"POSITION": b.accessor(random.normal(size=(6, 3)))} for _ in range(2)]
    mesh |= {"weights": [0.25, 0.0], "extras": {"targetNames": ["smile", "hip.rx"]}}
    b.animate(0, "weights", [0, 1], [[0.0], [1.0], [0.5], [-0.5]])
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    character = check(b.save_glb(tmp_path / "a.glb"))
    names = [p.name for p in character.rig.parameters[-2:]]
    assert names == ["smile", "hip.rx_2"]  # a joint's angle is called so already
    assert character.rig.rest_pose[-2:].tolist() == [0.25, 0.0]
    ends = np.array([[0.0, 1.0], [0.5, -0.5]])
    np.testing.assert_allclose(character.motions["clip"].poses[[0, -1], -2:], ends)


def test_a_part_scaled_to_nothing_vanishes(tmp_path):
    b = skinned_octahedron()
    b.animate(3, "scale", [0, 1], [[1, 1, 1], [0, 0, 0]])
    check(b.save_glb(tmp_path / "a.glb"), tolerance=1e-5)


def test_an_animation_pointer_to_a_node_is_followed(tmp_path):
    b = skinned_octahedron()
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    plain = check(b.save_glb(tmp_path / "a.glb"))
    pointer = {"KHR_animation_pointer": {"pointer": "/nodes/3/rotation"}}
    b.json["animations"][0]["channels"][0]["target"] = {"path": "pointer", "extensions": pointer}
    b.json["extensionsUsed"] = ["KHR_animation_pointer"]
    pointed = quietly(b.save_glb(tmp_path / "b.glb"))
    np.testing.assert_array_equal(pointed.motions["clip"].poses, plain.motions["clip"].poses)


def test_a_file_with_joints_and_a_clip_but_no_mesh_is_of_use(tmp_path):
    b = skinned_octahedron()
    del b.json["meshes"], b.json["nodes"][0]["mesh"], b.json["nodes"][0]["skin"]
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    with pytest.warns(SuppleWarning, match="has no mesh; only its joints and motions"):
        character = load_gltf(b.save_glb(tmp_path / "only.glb"))
    assert not character.has_mesh
    assert repr(character) == 'Character("only", no mesh, 1 motion)'
    assert character.source.joint_pose.skeleton.names == ("hip", "head")
    with pytest.raises(SuppleError, match=r"^only: has no mesh, and so no surface"):
        _ = character.surface


@pytest.mark.parametrize(
    "name", ["EXT_meshopt_compression", "EXT_mesh_gpu_instancing", "X_unknown"]
)
def test_an_unsupported_required_extension_is_an_error(tmp_path, name):
    b = skinned_octahedron()
    b.json["extensionsUsed"] = b.json["extensionsRequired"] = [name]
    with pytest.raises(SuppleError, match=f"^a\\.glb: requires the extension {name}"):
        load_gltf(b.save_glb(tmp_path / "a.glb"))


def test_required_extensions_of_appearance_are_ignored(tmp_path):
    b = skinned_octahedron()
    names = ["KHR_materials_unlit", "KHR_texture_transform", "EXT_texture_webp"]
    b.json["extensionsUsed"] = b.json["extensionsRequired"] = names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_gltf(b.save_glb(tmp_path / "a.glb"))
