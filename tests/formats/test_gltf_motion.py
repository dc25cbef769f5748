"""A baked character's own file plays the simulation, and keeps everything else it had."""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.gltf_builder import FACES, OCTAHEDRON, Builder, skinned_octahedron, turn
from helpers.gltf_reference import Reference
from helpers.gltf_validation import issues, new_issues
from supple.app.model_request import read_stiffness
from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.formats.gltf.document import DRACO
from supple.formats.gltf.read.animation import Channel
from supple.formats.gltf.read.gltf import load_gltf
from supple.formats.gltf.write.animations import Track, faded, joined
from supple.formats.registry import FLESH
from supple.formats.save import save
from supple.mesh.surface import VertexNormals
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.inverse_skinning import inverted_moves
from supple.rig.motion.motion import Motion

REAL = ("q_Rat", "Fox", "CesiumMan", "RiggedFigure", "mh_arm_flex", "q_Whale", "q_Puffer")
FEATURES = (
    "AnimatedMorphCube.glb",
    "MorphStressTest.glb",
    "Animation_Skin_09.gltf",
    "SimpleMorph-embedded.gltf",
    "SimpleSkin-multibin/SimpleSkin.gltf",
)


def quietly(path: Path, **options: Any) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return load_gltf(path, **options)


def wobble(character: Character, times: np.ndarray, amount: float) -> np.ndarray:
    """Smooth offsets of all vertices over time, (t, n, 3)."""
    random = np.random.default_rng(0)
    places, size = character.surface.vertices, character.surface.size
    total = np.zeros((len(times), len(places), 3))
    for beat in range(4):
        wave = np.sin(places / size @ random.normal(size=3) * 6 + random.uniform(0, 6))
        swing = np.sin(times * (5 + 3 * beat) + random.uniform(0, 6))
        total += swing[:, None, None] * wave[:, None] * random.normal(size=3)
    return amount * size * total / np.abs(total).max()


def baked_on(
    character: Character,
    motion: str | Motion | None = None,
    *,
    amount: float = 0.02,
    rate: float = 20.0,
    span: tuple[float, float] | None = None,
) -> BakedMotion:
    """The rig's frames of a motion, and a wobble on top."""
    if motion is None:
        motion = next(iter(character.motions))
    if isinstance(motion, str):
        motion = character.motions[motion]
    start, end = span or (motion.times[0], min(motion.times[-1], motion.times[0] + 2))
    times = np.linspace(start, end, max(2, round((end - start) * rate) + 1))
    poses, roots = motion.at(times)
    moved = wobble(character, times, amount)
    frames = [
        (character.rig(pose) + offset) @ root[:3, :3].T + root[:3, 3]
        for pose, root, offset in zip(poses, roots, moved, strict=True)
    ]
    keys = Motion(times, poses, roots, motion.name)
    return BakedMotion(character, keys, np.array(frames, np.float32), rate)


def farthest(path: Path, baked: BakedMotion, clip: int | None = None, every: int = 7) -> float:
    """How far the file, played by an evaluator of its own, is from the baked frames."""
    character, reference = baked.character, Reference(path)
    if clip is None:
        clip = character.source.clips[baked.motion.name].animation
    worst = 0.0
    for frame in range(0, baked.n_frames, every):
        shown = reference.positions(clip, float(np.float32(baked.times[frame])))
        for primitive in character.source.primitives:
            used = primitive.welded >= 0
            there = shown[primitive.node, primitive.primitive][used] * character.metres_per_unit
            off = there - baked.frames[frame][primitive.welded[used]]
            worst = max(worst, float(np.linalg.norm(off, axis=1).max()))
    return worst / character.surface.size


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """JSON and binary chunk of a .glb."""
    data = path.read_bytes()
    size = struct.unpack_from("<I", data, 12)[0]
    return json.loads(data[20 : 20 + size]), data[28 + size :]


def as_text(path: Path) -> tuple[dict[str, Any], bytes]:
    return parts(path) if path.suffix == ".glb" else (json.loads(path.read_text()), b"")


@pytest.mark.parametrize("name", REAL)
def test_real_characters_play_the_simulation_in_any_viewer(assets, tmp_path, name):
    source = assets / "gltf_characters" / f"{name}.glb"
    baked = baked_on(quietly(source))
    figures = save(tmp_path / "soft.glb", baked)
    found = farthest(tmp_path / "soft.glb", baked)
    assert found <= 0.002
    assert figures["error"] <= 0.002
    assert farthest(source, baked) > 5 * found  # the input does not
    assert 1 <= figures["n_shapes"] <= 12  # the wobble has 4, and skinning bends them
    assert figures["bytes"] == (tmp_path / "soft.glb").stat().st_size


@pytest.mark.parametrize("name", ["q_Rat", "Fox", "q_Puffer", "RobotExpressive"])
def test_the_validator_finds_nothing_new(assets, tmp_path, name):
    source = assets / "gltf_characters" / f"{name}.glb"
    save(tmp_path / "soft.glb", baked_on(quietly(source), rate=10), normals=True)
    assert not new_issues(source, tmp_path / "soft.glb")


@pytest.mark.parametrize("name", FEATURES)
def test_every_kind_of_file_plays_the_simulation(assets, tmp_path, name):
    source = assets / "gltf_feature_tests" / name
    baked = baked_on(quietly(source))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        save(tmp_path / "soft.glb", baked)
    assert farthest(tmp_path / "soft.glb", baked) <= 0.002
    assert not new_issues(source, tmp_path / "soft.glb")


def test_a_saved_file_loads_and_plays_the_same(assets, tmp_path):
    baked = baked_on(quietly(assets / "gltf_characters" / "Fox.glb"))
    save(tmp_path / "soft.glb", baked)
    again = quietly(tmp_path / "soft.glb", flesh=True)
    pairs = list(zip(baked.character.source.primitives, again.source.primitives, strict=True))
    poses, roots = again.source.clips[baked.motion.name].sample(np.float32(baked.times))
    for frame in range(0, baked.n_frames, 5):
        there = again.rig(poses[frame]) @ roots[frame, :3, :3].T + roots[frame, :3, 3]
        for mine, its in pairs:
            off = there[its.welded] - baked.frames[frame][mine.welded]
            assert np.linalg.norm(off, axis=1).max() <= 0.002 * again.surface.size


def test_a_smaller_error_is_reached_with_more_shapes(assets, tmp_path):
    baked = baked_on(quietly(assets / "gltf_characters" / "Fox.glb"))
    counts = []
    for error in (0.01, 0.002, 1e-4, 1e-6):
        figures = save(tmp_path / "soft.glb", baked, error=error)
        assert farthest(tmp_path / "soft.glb", baked) <= 1.05 * error + 3e-7
        counts.append(figures["n_shapes"])
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


@pytest.mark.parametrize("name", ["q_Rat", "RobotExpressive"])
def test_everything_else_is_kept(assets, tmp_path, name):
    source = assets / "gltf_characters" / f"{name}.glb"
    baked = baked_on(quietly(source), rate=10)
    save(tmp_path / "soft.glb", baked)
    (old, old_bytes), (new, new_bytes) = parts(source), parts(tmp_path / "soft.glb")
    length = old["buffers"][0]["byteLength"]
    assert new_bytes[:length] == old_bytes[:length]
    for key in old.keys() | new.keys():
        if key in ("accessors", "bufferViews"):
            assert new[key][: len(old[key])] == old[key]
        elif key == "extras":  # where the original is kept
            assert {**new[key], FLESH: None} == {**old.get(key, {}), FLESH: None}
        elif key not in ("buffers", "meshes", "animations"):
            assert new[key] == old[key], key
    for mine, its in zip(old["meshes"], new["meshes"], strict=True):
        for one, other in zip(mine["primitives"], its["primitives"], strict=True):
            assert other == {**one, "targets": other.get("targets")} or other == one
            before = one.get("targets", [])
            for target, kept in zip(before, other.get("targets", []), strict=False):
                assert kept == {**kept, **target}
    played = baked.character.source.clips[baked.motion.name].animation
    for number, (mine, its) in enumerate(zip(old["animations"], new["animations"], strict=True)):
        same = [c["target"] for c in mine["channels"]] == [c["target"] for c in its["channels"]]
        assert same or number == played


def test_other_clips_play_as_before(assets, tmp_path):
    source = assets / "gltf_characters" / "RobotExpressive.glb"
    baked = baked_on(quietly(source), "Dance", rate=10)
    save(tmp_path / "soft.glb", baked)
    before, after = Reference(source), Reference(tmp_path / "soft.glb")
    for clip, animation in enumerate(before.json["animations"]):
        if animation["name"] != "Dance":
            old, new = before.positions(clip, 0.4), after.positions(clip, 0.4)
            assert all(np.array_equal(old[key], new[key]) for key in old)


@pytest.mark.parametrize("name", ["q_Rat.glb", "RobotExpressive.glb"])
def test_nothing_is_added_where_nothing_moves(assets, tmp_path, name):
    source = assets / "gltf_characters" / name
    character = quietly(source)
    clip = next(iter(character.source.clips.values()))
    times = np.linspace(clip.start, clip.end, 9)
    poses, roots = clip.sample(times)
    frames = [character.rig(p) @ r[:3, :3].T + r[:3, 3] for p, r in zip(poses, roots, strict=True)]
    motion = Motion(times, poses, roots, clip.name)
    figures = save(
        tmp_path / "same.glb", BakedMotion(character, motion, np.array(frames, np.float32), 30.0)
    )
    assert figures["n_shapes"] == 0
    assert parts(tmp_path / "same.glb") == parts(source)


def test_seams_stay_closed_to_the_bit(assets, tmp_path):
    source = assets / "gltf_characters" / "q_Rat.glb"
    baked = baked_on(quietly(source))
    save(tmp_path / "soft.glb", baked, normals=True)
    reference = Reference(tmp_path / "soft.glb")
    seen: dict[int, np.ndarray] = {}
    met = 0
    for primitive in baked.character.source.primitives:
        described = reference.json["meshes"][primitive.mesh]["primitives"][primitive.primitive]
        deltas = np.stack([reference.accessor(t["POSITION"]) for t in described["targets"]], axis=1)
        for welded, delta in zip(primitive.welded.tolist(), deltas, strict=True):
            met += welded in seen
            assert np.array_equal(seen.setdefault(welded, delta), delta)
    assert met > 1000


def clip_of(builder: Builder) -> dict[str, Any]:
    return builder.json["animations"][0]


def shaped(**more: Any) -> Builder:
    """The skinned octahedron with two morph targets, of which one is animated."""
    builder = skinned_octahedron()
    primitive = builder.json["meshes"][0]["primitives"][0]
    deltas = 0.2 * OCTAHEDRON[:, [1, 2, 0]], 0.1 * OCTAHEDRON[:, [2, 0, 1]]
    primitive["targets"] = [{"POSITION": builder.accessor(d)} for d in deltas]
    builder.json["meshes"][0] |= {"weights": [0.3, 0.0], "extras": {"targetNames": ["a", "b"]}}
    builder.animate(3, "rotation", [0, 0.5, 1], [turn(2, 0.3), turn(2, 0.9), turn(1, 0.2)])
    return builder


@pytest.mark.parametrize("how", ["LINEAR", "STEP", "CUBICSPLINE", None])
def test_weights_that_move_already_go_on(tmp_path, how):
    builder = shaped()
    if how is not None:
        keys = np.array([[0.1, 0.2], [0.9, -0.4], [0.3, 0.6]])
        values = keys
        if how == "CUBICSPLINE":
            tangents = np.array([[[1.0, -2], [0.5, 1]], [[0, 3], [-1, 0]], [[1, 1], [2, 2]]])
            values = np.stack([tangents[:, 0], keys, tangents[:, 1]], axis=1).reshape(-1, 2)
        builder.animate(0, "weights", [0.13, 0.52, 0.81], values.ravel(), how)
    source = builder.save_glb(tmp_path / "in.glb")
    baked = baked_on(quietly(source), "clip", rate=24)
    save(tmp_path / "out.glb", baked, error=1e-3)
    assert farthest(tmp_path / "out.glb", baked, every=1) <= 1e-3
    before, after = Reference(source), Reference(tmp_path / "out.glb")
    looked_at = np.array([0.0, 0.13, 0.3, 0.5199, 0.52, 0.7, 0.81, 0.95], np.float32)
    for time in looked_at.tolist():
        old = before.locals_at(0, time)[0].get("weights", [0.3, 0.0])
        assert np.allclose(after.locals_at(0, time)[0]["weights"][:2], old, atol=2e-6)
    mesh = after.json["meshes"][0]
    assert mesh["weights"][:2] == [0.3, 0.0]
    assert mesh["extras"]["targetNames"][:2] == ["a", "b"]
    assert len(set(mesh["extras"]["targetNames"])) == len(mesh["weights"])
    assert not new_issues(source, tmp_path / "out.glb")


def test_a_part_of_a_clip_fades_into_the_rig(tmp_path):
    builder = skinned_octahedron()
    turns = [turn(2, 0.3), turn(2, 0.9), turn(1, 0.2)]
    builder.animate(3, "rotation", [0, 1, 2], turns)
    source = builder.save_glb(tmp_path / "in.glb")
    baked = baked_on(quietly(source), "clip", span=(0.8, 1.4))
    save(tmp_path / "out.glb", baked)
    assert farthest(tmp_path / "out.glb", baked, every=1) <= 0.002
    before, after = Reference(source), Reference(tmp_path / "out.glb")
    for time in (0.0, 0.5, 1.7, 2.0):
        old, new = before.positions(0, time)[0, 0], after.positions(0, time)[0, 0]
        assert np.array_equal(old, new)
    assert not np.allclose(after.positions(0, 0.7)[0, 0], before.positions(0, 0.7)[0, 0], atol=1e-4)


def test_a_mesh_shown_twice_becomes_two_that_share_their_data(tmp_path):
    builder = skinned_octahedron()
    builder.add("nodes", {"name": "twin", "mesh": 0, "translation": [3, 0, 0], "children": []})
    del builder.json["nodes"][4]["children"]
    builder.json["scenes"][0]["nodes"].append(4)
    builder.animate(3, "rotation", [0, 1], [turn(2, 0.3), turn(2, 0.9)])
    builder.animate(4, "translation", [0, 1], [[3, 0, 0], [3, 1, 0]])
    source = builder.save_glb(tmp_path / "in.glb")
    baked = baked_on(quietly(source), "clip")
    save(tmp_path / "out.glb", baked)
    assert farthest(tmp_path / "out.glb", baked, every=1) <= 0.002
    tree = Reference(tmp_path / "out.glb").json
    first, second = (tree["meshes"][tree["nodes"][k]["mesh"]]["primitives"][0] for k in (0, 4))
    assert first["attributes"] == second["attributes"]
    assert first["targets"] != second["targets"]
    assert not new_issues(source, tmp_path / "out.glb")


def test_a_motion_the_file_lacks_becomes_a_new_animation(tmp_path):
    builder = shaped()
    matrix = np.eye(4)
    matrix[:3, 3] = 0.2, 0.1, 0
    builder.add("nodes", {"name": "above", "matrix": matrix.T.ravel().tolist(), "children": [1]})
    builder.json["scenes"][0]["nodes"] = [0, 4]
    source = builder.save_glb(tmp_path / "in.glb")
    character = quietly(source)
    random = np.random.default_rng(3)
    times = np.linspace(0, 1, 13)
    poses = np.tile(character.rig.rest_pose, (13, 1)) + 0.3 * np.sin(
        4 * times[:, None] + random.uniform(0, 6, len(character.rig.rest_pose))
    )
    angle = 0.5 * np.sin(3 * times)
    roots = np.tile(np.eye(4), (13, 1, 1))
    roots[:, 0, 0] = roots[:, 2, 2] = np.cos(angle)
    roots[:, 0, 2], roots[:, 2, 0] = np.sin(angle), -np.sin(angle)
    roots[:, :3, 3] = np.column_stack([times, times**2, 0 * times])
    baked = baked_on(character, Motion(times, poses, roots, "wiggle"), rate=12)
    figures = save(tmp_path / "out.glb", baked, error=1e-3)
    assert figures["new"]
    assert figures["animation"] == "wiggle"
    assert farthest(tmp_path / "out.glb", baked, clip=1, every=1) <= 1e-3
    assert not new_issues(source, tmp_path / "out.glb")


def test_a_character_without_motions_can_be_given_one(assets, tmp_path):
    source = assets / "gltf_characters" / "hand_left.glb"
    character = quietly(source)
    times = np.linspace(0, 1, 11)
    roots = np.tile(np.eye(4), (11, 1, 1))
    roots[:, :3, 3] = np.column_stack([0 * times, 0.1 * np.sin(6 * times), 0 * times])
    poses = np.tile(character.rig.rest_pose, (11, 1))
    poses[:, 30] += np.sin(5 * times)
    baked = baked_on(character, Motion(times, poses, roots, "wiggle"), rate=10)
    save(tmp_path / "out.glb", baked)
    assert farthest(tmp_path / "out.glb", baked, clip=0, every=2) <= 0.002
    assert not new_issues(source, tmp_path / "out.glb")


def test_normals_turn_with_the_flesh(assets, tmp_path):
    source = assets / "gltf_characters" / "mh_arm_flex.glb"
    character = quietly(source)
    baked = baked_on(character, amount=0.03)
    save(tmp_path / "out.glb", baked, error=5e-4, normals=True)
    reference = Reference(tmp_path / "out.glb")
    clip = character.source.clips[baked.motion.name]
    poses, _ = clip.sample(np.float32(baked.times))
    surface = VertexNormals(character.surface.triangles, len(character.surface.vertices))
    from supple.rig.inverse_skinning import offset_matrices

    primitive = character.source.primitives[0]
    described = reference.json["meshes"][primitive.mesh]["primitives"][primitive.primitive]
    own = reference.accessor(described["attributes"]["NORMAL"])
    targets = np.stack([reference.accessor(t["NORMAL"]) for t in described["targets"]])
    with_shapes: list[float] = []
    without: list[float] = []
    for frame in range(0, baked.n_frames, 8):
        time = float(np.float32(baked.times[frame]))
        weights = reference.locals_at(clip.animation, time)[primitive.node]["weights"]
        root = clip.sample([time])[1][0]
        there = surface((baked.frames[frame] - root[:3, 3]) @ root[:3, :3])[primitive.welded]
        matrices = offset_matrices(character.rig, poses[frame])[primitive.welded]
        matrices = matrices @ primitive.to_bind[:3, :3]
        turned = own + np.tensordot(weights, targets, 1)
        for normals, found in ((turned, with_shapes), (own, without)):
            shown = np.einsum("nij,nj->ni", matrices, normals)
            shown /= np.linalg.norm(shown, axis=1, keepdims=True)
            cosine = np.clip(np.einsum("ni,ni->n", shown, there), -1, 1)
            found.append(np.degrees(np.arccos(cosine)).mean())
    assert np.mean(with_shapes) < 0.5 * np.mean(without)


def test_separate_buffers_and_images_are_included(tmp_path):
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
    builder = skinned_octahedron()
    builder.json["images"] = [{"uri": "my%20skin.png", "name": "skin"}, {"uri": "../away.png"}]
    builder.animate(3, "rotation", [0, 1], [turn(2, 0.3), turn(2, 0.9)])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "my skin.png").write_bytes(picture)
    (tmp_path / "away.png").write_bytes(picture)
    source = builder.save_gltf(tmp_path / "in" / "in.gltf")
    baked = baked_on(quietly(source), "clip")
    (tmp_path / "out").mkdir()
    for name in ("out.glb", "out.gltf"):
        path = tmp_path / "out" / name
        with pytest.warns(SuppleWarning, match="not an image beside"):
            save(path, baked)
        assert farthest(path, baked, every=1) <= 0.002
        tree, _ = as_text(path)
        first, second = tree["images"]
        assert first["mimeType"] == "image/png"
        assert second == {"uri": "../away.png"}
        view = tree["bufferViews"][first["bufferView"]]
        data = Reference(path).buffers[0][view["byteOffset"] :][: view["byteLength"]]
        assert data == picture
        assert first["name"] == "skin"
        assert "uri" not in first
        assert len(tree["buffers"]) == 1


def test_unknown_chunks_and_extensions_are_kept(tmp_path):
    builder = skinned_octahedron()
    builder.animate(3, "rotation", [0, 1], [turn(2, 0.3), turn(2, 0.9)])
    builder.json |= {"extensionsUsed": ["ACME_x"], "extensions": {"ACME_x": {"π": [1e-7, None]}}}
    source = builder.save_glb(tmp_path / "in.glb")
    data = source.read_bytes() + struct.pack("<II", 8, 0x44434241) + b"12345678"
    source.write_bytes(data[:8] + struct.pack("<I", len(data)) + data[12:])
    save(tmp_path / "out.glb", baked_on(quietly(source), "clip"))
    assert (tmp_path / "out.glb").read_bytes().endswith(data[-16:])
    assert parts(tmp_path / "out.glb")[0]["extensions"] == builder.json["extensions"]


def test_draco_is_unpacked_where_shapes_need_it(assets, tmp_path):
    pytest.importorskip("DracoPy")
    source = assets / "gltf_feature_tests" / "RiggedSimple-Draco" / "RiggedSimple.gltf"
    baked = baked_on(quietly(source))
    figures = save(tmp_path / "out.glb", baked)
    assert figures["draco"] == 1
    assert farthest(tmp_path / "out.glb", baked) <= 0.002
    assert "extensionsRequired" not in parts(tmp_path / "out.glb")[0]
    assert not new_issues(source, tmp_path / "out.glb")


def test_the_same_bake_gives_the_same_bytes(assets, tmp_path):
    baked = baked_on(quietly(assets / "gltf_characters" / "Fox.glb"))
    for name in ("a.glb", "b.glb"):
        save(tmp_path / name, baked, normals=True)
    assert (tmp_path / "a.glb").read_bytes() == (tmp_path / "b.glb").read_bytes()


def test_a_character_from_another_format_becomes_a_new_file(tmp_path):
    from supple.scenes.characters.character_scene import scene

    character = scene("x").character
    motion = next(iter(character.motions.values()))
    times = np.linspace(motion.times[0], motion.times[-1], 15)
    poses, roots = motion.at(times)
    spun = roots.copy()
    spun[:, :3, 3] += np.column_stack([times, 0 * times, 0 * times])
    baked = baked_on(character, Motion(times, poses, spun, "walk"), rate=5)
    figures = save(tmp_path / "x.glb", baked)
    reference = Reference(tmp_path / "x.glb")
    for frame in range(0, baked.n_frames, 3):
        shown = reference.positions(0, float(np.float32(baked.times[frame])))[0, 0]
        off = np.linalg.norm(shown - baked.frames[frame], axis=1).max()
        assert off <= 0.002 * character.surface.size
    assert figures["new"]
    assert reference.json["animations"][0]["name"] == "walk"
    assert quietly(tmp_path / "x.glb").motions.keys() == {"walk"}
    assert issues(tmp_path / "x.glb", least=1) == [{}]


def test_primitives_without_surface_get_as_many_targets(tmp_path):
    builder = shaped()
    first = builder.json["meshes"][0]["primitives"][0]
    builder.json["meshes"][0]["primitives"].append({"attributes": first["attributes"], "mode": 1})
    source = builder.save_glb(tmp_path / "in.glb")
    baked = baked_on(quietly(source), "clip")
    save(tmp_path / "out.glb", baked)
    mesh = parts(tmp_path / "out.glb")[0]["meshes"][0]
    assert {len(p["targets"]) for p in mesh["primitives"]} == {len(mesh["weights"])}
    assert farthest(tmp_path / "out.glb", baked, every=1) <= 0.002
    assert not new_issues(source, tmp_path / "out.glb")


def test_quantised_positions_are_kept(tmp_path):
    builder = skinned_octahedron()
    builder.json |= {
        "extensionsUsed": ["KHR_mesh_quantization"],
        "extensionsRequired": ["KHR_mesh_quantization"],
    }
    attributes = builder.json["meshes"][0]["primitives"][0]["attributes"]
    attributes["POSITION"] = builder.accessor((100 * OCTAHEDRON).astype(int), "h", pad=2)
    inverse = builder.json["skins"][0]["inverseBindMatrices"]
    stored = np.tile(np.diag([0.01, 0.01, 0.01, 1]).ravel(), (2, 1))
    builder.json["skins"][0]["inverseBindMatrices"] = builder.accessor(stored)
    assert inverse != builder.json["skins"][0]["inverseBindMatrices"]
    builder.animate(3, "rotation", [0, 1], [turn(2, 0.3), turn(2, 0.9)])
    source = builder.save_glb(tmp_path / "in.glb")
    baked = baked_on(quietly(source), "clip")
    save(tmp_path / "out.glb", baked)
    assert farthest(tmp_path / "out.glb", baked, every=1) <= 0.002
    assert not new_issues(source, tmp_path / "out.glb")


def test_weights_of_other_clips_keep_their_kind(tmp_path):
    builder = shaped()
    other: dict[str, Any] = {"name": "other", "channels": [], "samplers": []}
    values = builder.accessor([0, 255, 51, 102], "B", normalized=True)
    sampler = {"input": builder.accessor([0.0, 1.0]), "output": values, "interpolation": "STEP"}
    other["samplers"].append(sampler)
    other["channels"].append({"sampler": 0, "target": {"node": 0, "path": "weights"}})
    builder.json["nodes"][0]["weights"] = [0.1, 0.2]
    builder.add("animations", other)
    source = builder.save_glb(tmp_path / "in.glb")
    baked = baked_on(quietly(source), "clip")
    count = save(tmp_path / "out.glb", baked)["n_shapes"]
    after = Reference(tmp_path / "out.glb")
    assert np.array_equal(after.locals_at(1, 0.5)[0]["weights"], [0, 1, *[0] * count])
    assert np.array_equal(after.json["nodes"][0]["weights"], [0.1, 0.2, *[0] * count])
    assert after.json["animations"][1]["samplers"][0]["interpolation"] == "STEP"
    assert farthest(tmp_path / "out.glb", baked, every=1) <= 0.002
    assert not new_issues(source, tmp_path / "out.glb")


# What can go wrong: one line each, and nothing left behind.


def octahedron(tmp_path: Path) -> tuple[Path, BakedMotion]:
    builder = skinned_octahedron()
    builder.animate(3, "rotation", [0, 1], [turn(2, 0.3), turn(2, 0.9)])
    source = builder.save_glb(tmp_path / "in.glb")
    return source, baked_on(quietly(source), "clip")


def changed(source: Path) -> None:
    data = bytearray(source.read_bytes())
    at = data.index(struct.pack("<f", OCTAHEDRON[0, 0]))
    data[at : at + 4] = struct.pack("<f", 0.875)
    source.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda source: source.unlink(), "no such file"),
        (changed, "has changed since it was loaded"),
        (lambda source: source.write_bytes(source.read_bytes()[:200]), "cut off"),
    ],
)
def test_a_source_that_is_gone_or_changed_is_an_error(
    tmp_path, harm: Callable[[Path], None], said: str
):
    source, baked = octahedron(tmp_path)
    harm(source)
    with pytest.raises(FormatError, match=said) as error:
        save(tmp_path / "out.glb", baked)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out.glb").exists()


def test_bad_frames_targets_and_options_are_errors(tmp_path):
    _, baked = octahedron(tmp_path)
    frames = baked.frames.copy()
    frames[3, 2, 1] = np.nan
    broken = BakedMotion(baked.character, baked.motion, frames, baked.rate)
    with pytest.raises(SuppleError, match=r"failed at frame 3, .* \(not finite\)"):
        save(tmp_path / "out.glb", broken)
    with pytest.raises(FormatError, match=r'cannot save a motion in ".ma" files; use one of .glb'):
        save(tmp_path / "out.ma", baked)
    with pytest.raises(FormatError, match="there is no folder"):
        save(tmp_path / "nowhere" / "out.glb", baked)
    with pytest.raises(SuppleError, match='has no option "points"'):
        save(tmp_path / "out.glb", baked, points="cache")
    with pytest.raises(SuppleError, match="must be positive"):
        save(tmp_path / "out.glb", baked, error=0)
    (tmp_path / "taken.glb").mkdir()
    with pytest.raises(FormatError, match="cannot be written"):
        save(tmp_path / "taken.glb", baked)
    few = BakedMotion(baked.character, baked.motion, baked.frames[:-1], baked.rate)
    with pytest.raises(SuppleError, match="expected"):
        save(tmp_path / "out.glb", few)
    assert {path.name for path in tmp_path.iterdir()} == {"in.glb", "taken.glb"}


def test_joints_scaled_to_zero_give_no_spikes_and_losses_are_reported(tmp_path):
    builder = skinned_octahedron()
    builder.animate(3, "rotation", [0, 1], [turn(2, 0.3), turn(2, 0.9)])
    builder.animate(3, "scale", [0, 0.5, 0.8, 1], [[1, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0]])
    source = builder.save_glb(tmp_path / "in.glb")
    baked = baked_on(quietly(source), "clip", rate=24)
    with pytest.warns(SuppleWarning, match="morph targets miss the simulation"):
        figures = save(tmp_path / "out.glb", baked)
    assert farthest(tmp_path / "out.glb", baked, every=1) == pytest.approx(
        figures["error"], rel=1e-3
    )
    assert 0.002 < figures["error"] < 0.05
    before, after = Reference(source), Reference(tmp_path / "out.glb")
    for time in np.linspace(0, 1, 101):  # between frames, too
        off = after.positions(0, float(time))[0, 0] - before.positions(0, float(time))[0, 0]
        assert np.abs(off).max() < 0.1 * baked.character.surface.size
    none = inverted_moves(np.zeros((2, 3, 3)), np.ones((2, 3)), 0.0)
    assert np.array_equal(none, np.zeros((2, 3)))


def test_another_motion_with_the_name_of_a_clip_leaves_the_clip_alone(tmp_path):
    source, _ = octahedron(tmp_path)
    character = quietly(source)
    clip = character.motions["clip"]
    backwards = Motion(clip.times, clip.poses[::-1], clip.roots[::-1], "clip")
    baked = baked_on(character, backwards)
    with pytest.warns(SuppleWarning, match=r'differs from the baked motion.*"clip \(2\)"'):
        figures = save(tmp_path / "out.glb", baked)
    assert figures["new"]
    assert figures["animation"] == "clip (2)"
    assert farthest(tmp_path / "out.glb", baked, clip=1, every=1) <= 0.002
    before, after = Reference(source), Reference(tmp_path / "out.glb")
    for time in (0.0, 0.4, 1.0):
        old, new = before.positions(0, time)[0, 0], after.positions(0, time)[0, 0]
        assert np.array_equal(old, new)


def test_shapes_of_the_file_move_in_a_new_motion_whose_flesh_does_not(tmp_path):
    source = shaped().save_glb(tmp_path / "in.glb")
    character = quietly(source)
    poses = np.tile(character.rig.rest_pose, (5, 1))
    poses[:, -1] = [0, 0.5, 1, 0.5, 0]
    baked = baked_on(character, Motion(np.linspace(0, 1, 5), poses, name="smile"), amount=0.0)
    figures = save(tmp_path / "out.glb", baked)
    assert figures["n_shapes"] == 0
    assert farthest(tmp_path / "out.glb", baked, clip=1, every=1) <= 0.002


def test_a_fade_that_ends_at_a_key_of_the_file_is_that_key():
    end = np.float32(0.1)
    late = float(np.float32(float(end) + 0.25))
    assert late != float(end) + 0.25
    old = Channel(0, "weights", "LINEAR", np.array([0.0, late, 1.0]), np.array([[0.0], [1], [0]]))
    track = faded(Track(np.array([0.0, float(end)]), np.ones((2, 1))), 0.0, 1.0, 0.01)
    keys = joined(old, track).times.astype(np.float32)
    assert (np.diff(keys) > 0).all()
    assert len(keys) == 4


def test_numbers_that_json_cannot_hold_are_refused_when_a_file_is_read(tmp_path):
    source, _ = octahedron(tmp_path)
    data = source.read_bytes()
    size = struct.unpack_from("<I", data, 12)[0]
    text = data[20 : 20 + size].rstrip()[:-1] + b',"extras":{"far":1e999}}'
    text += b" " * (-len(text) % 4)
    body = struct.pack("<II", len(text), 0x4E4F534A) + text + data[20 + size :]
    source.write_bytes(b"glTF" + struct.pack("<II", 2, 12 + len(body)) + body)
    with pytest.raises(FormatError, match="has the number 1e999"):
        quietly(source)


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_names_that_utf8_cannot_hold_are_kept(tmp_path, suffix):
    builder = skinned_octahedron()
    names = ["half \ud83d", "Zoë 🦊"]
    builder.json["nodes"][0]["name"], builder.json["nodes"][3]["name"] = names
    builder.animate(3, "rotation", [0, 1], [turn(2, 0.3), turn(2, 0.9)])
    source = builder.save_glb(tmp_path / "in.glb")
    save(tmp_path / f"out{suffix}", baked_on(quietly(source), "clip"))
    tree, _ = as_text(tmp_path / f"out{suffix}")
    assert [tree["nodes"][k]["name"] for k in (0, 3)] == names


@pytest.mark.parametrize("letter", ["B", "f"])
def test_colours_of_compressed_files_are_read(tmp_path, letter):
    draco = pytest.importorskip("DracoPy")
    grey = np.array([51, 102, 255, 204, 153, 102], np.uint8)
    colours = np.repeat(grey[:, None], 3, axis=1)
    given = colours if letter == "B" else (colours / 255).astype(np.float32)
    packed = draco.encode(
        OCTAHEDRON.astype(np.float32),
        FACES.astype(np.uint32),
        compression_level=0,
        quantization_bits=14,
        generic_attributes={7: given},
        preserve_order=True,
    )
    builder = Builder()
    bare = {"componentType": 5126, "count": 6, "type": "VEC3"}
    place = builder.add("accessors", {**bare, "min": [-1] * 3, "max": [1] * 3})
    kind = {"componentType": 5121, "normalized": True} if letter == "B" else {}
    tint = builder.add("accessors", {**bare, **kind})
    corner = builder.add("accessors", {"componentType": 5125, "count": 24, "type": "SCALAR"})
    found = draco.decode(packed).attributes
    ids = [next(a["unique_id"] for a in found if a["attribute_type"] == k) for k in (0, 4)]
    extension = {
        "bufferView": builder.view(packed),
        "attributes": {"POSITION": ids[0], "COLOR_0": ids[1]},
    }
    primitive = {
        "attributes": {"POSITION": place, "COLOR_0": tint},
        "indices": corner,
        "extensions": {DRACO: extension},
    }
    builder.add("meshes", {"primitives": [primitive]})
    builder.add("nodes", {"mesh": 0})
    builder.json |= {"scenes": [{"nodes": [0]}]}
    builder.json |= {"extensionsUsed": [DRACO], "extensionsRequired": [DRACO]}
    character = quietly(builder.save_glb(tmp_path / "in.glb"))
    factors = read_stiffness("color:COLOR_0", character)
    places = character.surface.vertices
    nearest = np.linalg.norm(places[:, None] - OCTAHEDRON, axis=2).argmin(axis=1)
    assert np.allclose(factors, grey[nearest] / 255, atol=1e-3)
