"""Characters of the Complementary Dynamics examples."""

import json

import numpy as np
import pytest

from supple.errors import SuppleError
from supple.formats.research import read_complementary
from supple.mesh.tets import TetMesh

ANIMATION = """2 3
0 0 0
0 0 0
0 0 0
0 0 90
0 0 0  0 0 0  0 0 0  0 0 0
0 0 0  1 2 3  0 0 90  0 0 0
0 0 0  0 0 0  0 0 0  90 0 0
"""


def write_example(folder, **changed):
    """Two bones along x, (0, 0, 0) – (1, 0, 0) – (2, 0, 0), each with a tet of its own."""
    corners = np.array([[0.2, 0, 0], [0.8, 0, 0], [0.2, 0.3, 0], [0.2, 0, 0.3]])
    vertices = np.vstack([corners, corners + np.array([1, 0, 0])])
    rows = "\n".join(" ".join(map(str, row)) + " 0" for row in vertices)
    files = {
        "a.json": json.dumps(
            {
                "mesh_file": "a.mesh",
                "handle_file": "a.tgf",
                "weight_file": "a.dmat",
                "anim_file": "a_anim.txt",
                "dt": 0.5,
            }
        ),
        "a.mesh": f"MeshVersionFormatted 1\nDimension 3\nVertices\n8\n{rows}\n"
        "Tetrahedra\n2\n1 2 3 4 0\n5 6 7 8 0\nEnd\n",
        "a.tgf": "1 0 0 0\n2 1 0 0\n3 2 0 0\n#\n1 2 1 0\n2 3 1 0\n#\n",
        "a.dmat": "2 8\n" + "1\n" * 4 + "0\n" * 8 + "1\n" * 4,
        "a_anim.txt": ANIMATION,
    }
    for name, text in {**files, **changed}.items():
        (folder / name).write_text(text)
    return folder / "a.json"


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_bones_rotate_about_their_own_axes_with_their_children(tmp_path):
    example = read_complementary(write_example(tmp_path), metres_per_unit=0.1)
    assert isinstance(example.tets, TetMesh)
    rest, rig, motion = example.surface.vertices, example.rig, example.motion
    np.testing.assert_allclose(rig(motion.poses[0]), rest, atol=1e-14)
    np.testing.assert_allclose(motion.times, [0, 0.5, 1.0])
    # Both bones turn about z at the origin; the root's way is not part of the pose.
    expected = np.column_stack([-rest[:, 1], rest[:, 0], rest[:, 2]])
    np.testing.assert_allclose(rig(motion.poses[1]), expected, atol=1e-14)
    np.testing.assert_allclose(motion.roots[1, :3, 3], [0.1, 0.2, 0.3])
    # The second bone's x axis is turned by its orientation at rest and so lies along y.
    expected = rest.copy()
    far = rest[:, 0] > 0.1
    x, y, z = (rest[far] - [0.1, 0, 0]).T
    expected[far] = np.column_stack([z + 0.1, y, -x])
    np.testing.assert_allclose(rig(motion.poses[2]), expected, atol=1e-14)


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"a.json": "{"}, "a.json: is not JSON"),
        ({"a.json": "[]"}, '"mesh_file" must name a file beside it'),
        ({"a.json": '{"mesh_file": "../../etc/a.mesh"}'}, "must name a file beside it"),
        ({"a.tgf": "1 0 0 0\n#\n#\n"}, "a.tgf: has no bones"),
        ({"a.tgf": "1 0 0 0\n#\n1 7 0\n#\n"}, "a.tgf: has a bone with a missing"),
        ({"a.tgf": "1 0\n#\n1 1 0\n#\n"}, "a.tgf: has an incomplete line; points have a number"),
        ({"a.dmat": "2 80000000000\n1\n"}, "a.dmat: declares 80000000000 rows"),
        ({"a.dmat": "2 8\n1" + " " * 20}, "a.dmat: declares 8 × 2 values but has 1"),
        ({"a.dmat": "1 8\n" + "1\n" * 8}, "weights of 8 vertices and 1 bones"),
        ({"a_anim.txt": "2 9\n" + "0 " * 48}, "declares 9 frames but has 3"),
        ({"a_anim.txt": "5 5\n1 2 3"}, "is not an animation of 2 bones"),
        ({"a_anim.txt": "2 1\n" + "nan " * 24}, "not finite"),
        ({"a_anim.txt": "what?"}, '"what\\?" among the animation'),
    ],
)
def test_damaged_examples_are_errors_that_name_the_file(tmp_path, changed, words):
    with pytest.raises(SuppleError, match=words):
        read_complementary(write_example(tmp_path, **changed))


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_the_elephant_dances_at_its_own_size(assets):
    folder = assets / "complementary_dynamics" / "elephant"
    example = read_complementary(folder / "elephant.json")
    assert (len(example.surface.vertices), len(example.tets.tets)) == (635, 1502)
    assert example.rig.skeleton.n_joints == 24
    assert example.motion.n_frames == 457
    rest = example.surface.vertices
    np.testing.assert_allclose(example.rig(example.motion.poses[0]), rest, atol=1e-12)
    assert 1.0 < np.ptp(rest[:, 1]) < 1.5
    for pose in example.motion.poses[::50]:
        edges = example.rig(pose)[example.surface.triangles[:, :2]]
        lengths = np.linalg.norm(edges[:, 0] - edges[:, 1], axis=1)
        before = rest[example.surface.triangles[:, :2]]
        ratio = lengths / np.linalg.norm(before[:, 0] - before[:, 1], axis=1)
        assert 0.95 < np.median(ratio) < 1.05
