"""Characters of research examples, through supple.load."""

import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import supple
from supple.errors import SuppleError, SuppleWarning


def example(**changed):
    """Two tets, each on a bone; the second hangs on the first and is listed before it."""
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    content = {
        "rig_type": "surface",
        "V": np.vstack([corners, corners + np.array([2, 0, 0])]).tolist(),
        "F": np.vstack([faces, faces + 4]).tolist(),
        "W": [[0, 1]] * 4 + [[0.5, 0]] * 4,
        "pI": [1, -1],
        "p0": [np.eye(4)[:3].tolist() for _ in range(2)],
        "lengths": [1, 1],
    }
    content["p0"][0][0][3] = 2.0
    for key, value in changed.items():
        content[key] = value
        if value is None:
            del content[key]
    return content


def moved():
    """(3, 2, 3, 4) the trunk turns about y and wanders, the other bone nods on it."""
    frames = []
    for t in range(3):
        trunk, nod = np.eye(4), np.eye(4)
        trunk[:3, :3] = Rotation.from_euler("y", 0.3 * t).as_matrix()
        trunk[:3, 3] = [0, 0, 0.5 * t]
        nod[:3, :3] = Rotation.from_euler("z", 0.2 * t).as_matrix()
        nod[0, 3] = 2
        frames.append([(trunk @ nod)[:3], trunk[:3]])
    return np.array(frames)


def written(folder, content, name="skeleton_rig.json"):
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize("where", ["walk.json", "anim/walk.json"])
def test_bones_carry_the_surface_by_their_transforms(where, tmp_path):
    (tmp_path / "anim").mkdir()
    (tmp_path / where).write_text(json.dumps({"P": moved().tolist()}))
    written(tmp_path, {"unrelated": 1}, "settings.json")
    content = example()
    character = supple.load(written(tmp_path, content))
    assert character.name == tmp_path.name
    motion = character.motions["walk"]
    np.testing.assert_allclose(motion.times, [0, 1 / 24, 2 / 24])
    points = np.array(content["V"])
    np.testing.assert_allclose(character.surface.vertices, points, atol=1e-12)
    rest = np.array(content["p0"])
    for k, (nodding, trunk) in enumerate(moved()):
        expected = points @ trunk[:, :3].T + trunk[:, 3]
        away = (points[4:] - rest[0, :, 3]) @ nodding[:, :3].T + nodding[:, 3]
        expected[4:] = away  # weights of one half are made whole
        root = motion.roots[k]
        skin = character.rig(motion.poses[k]) @ root[:3, :3].T + root[:3, 3]
        np.testing.assert_allclose(skin, expected, atol=1e-12)
    # The trunk's way through the world is the root's.
    np.testing.assert_allclose(motion.roots[2][:3, 3], [0, 0, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"V": None}, 'has no "V"'),
        ({"V": [[0, 0]]}, r'"V" has shape \(1, 2\), not any × 3'),
        ({"V": [[0, 0, 0], [1]]}, '"V" is not a table of numbers'),
        ({"V": [["a", "b", "c"]]}, '"V" is not a table of numbers'),
        ({"V": [[10**400, 0, 0]]}, '"V" is not a table of numbers'),
        ({"V": [[0, 0, float("nan")]]}, '"V" has a number that is not finite'),
        ({"F": [[0, 1, 99]]}, "99"),
        ({"F": [[0, 1, 0.5]]}, '"F" has an index that is not an integer'),
        ({"W": [[1, 0]]}, r'"W" has shape \(1, 2\), not 8 × any'),
        ({"pI": [1, 0]}, "form a cycle"),
        ({"pI": [0, -1]}, "form a cycle"),
        ({"pI": [7, -1]}, "a bone has parent 7, but the last bone is 1"),
        ({"p0": [[[0] * 4] * 3] * 2}, "a bone is scaled to zero"),
        ({"p0": [[[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]] * 2}, '"p0" is sheared'),
        ({"rig_type": "volume"}, "is not a rig of a surface"),
    ],
)
def test_an_inconsistent_rig_is_an_error_of_one_line(changed, words, tmp_path):
    with pytest.raises(SuppleError, match=words) as raised:
        supple.load(written(tmp_path, example(**changed)))
    assert str(raised.value).startswith("skeleton_rig.json: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("", "is empty"),
        ("[1, 2]", "is JSON, but not a character"),
        ('{"asset": {"version": "2.0"}}', "give a glTF file the suffix .gltf"),
        ('{"P": []}', "is a motion; load the skeleton_rig.json"),
        ('{"mesh_file": "../../a.mesh"}', "must name a file beside it"),
    ],
)
def test_other_json_is_an_error_of_one_line(content, words, tmp_path):
    with pytest.raises(SuppleError, match=words) as raised:
        supple.load(written(tmp_path, content, "some.json"))
    assert str(raised.value).startswith("some.json: ")
    assert "\n" not in str(raised.value)
    with pytest.raises(SuppleError, match="there is no such file"):
        supple.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("motion", "words"),
    [
        ('{"P": [[1]]}', r'walk.json: "P" has shape \(1, 1\).*ignored'),
        ('{"P": ', r"walk.json: is not JSON.*ignored"),
    ],
)
def test_an_inconsistent_motion_is_ignored_with_a_warning(motion, words, tmp_path):
    written(tmp_path, motion, "walk.json")
    path = written(tmp_path, example())
    with pytest.warns(SuppleWarning, match=words):
        character = supple.load(path)
    assert not character.motions
    assert any(warning.startswith("walk.json") for warning in character.warnings)


def test_the_humpback_swims_as_its_bones_do(assets):
    folder = assets / "fast_cd" / "humpback"
    character = supple.load(folder / "skeleton_rig.json")
    rig = json.loads((folder / "skeleton_rig.json").read_text())
    places = np.array(json.loads((folder / "swim.json").read_text())["P"])
    points, weights = np.array(rig["V"]), np.array(rig["W"])
    weights = weights / weights.sum(axis=1, keepdims=True)
    last = np.broadcast_to([0, 0, 0, 1], (*places.shape[:2], 1, 4))
    world = np.concatenate([places, last], axis=2)
    rest = np.concatenate([np.array(rig["p0"]), last[0]], axis=1)
    motion = character.motions["swim"]
    assert motion.n_frames == len(places)
    assert motion.duration == pytest.approx(10)
    for k in (0, 77, 240):
        moves = world[k] @ np.linalg.inv(rest)
        each = np.einsum("bij,nj->bni", moves[:, :3, :3], points) + moves[:, None, :3, 3]
        expected = np.einsum("nb,bni->ni", weights, each)
        root = motion.roots[k]
        skin = character.rig(motion.poses[k]) @ root[:3, :3].T + root[:3, 3]
        # The file keeps rotations to seven digits, five metres from the joint.
        np.testing.assert_allclose(skin, expected, atol=5e-6)


def test_the_elephant_moves_at_the_pace_of_its_file(assets):
    path = assets / "complementary_dynamics" / "elephant" / "elephant.json"
    character = supple.load(path)
    motion = next(iter(character.motions.values()))
    assert motion.n_frames == 457
    assert motion.times[1] == json.loads(path.read_text())["dt"]
    assert 1 < character.surface.size < 3
    assert character.metres_per_unit == 0.01
