"""Body models follow their formula, whatever file they come in; what is no body is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import supple
from helpers.smpl_samples import body_fields, expected, write_body
from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.formats.smpl.body_model import joint_layout, read_body_model
from supple.formats.smpl.load_body import hole_triangles
from supple.mesh.surface import SurfaceMesh
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.skeleton.skinning import SkinnedRig

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("joints", [16, 24, 52, 55])
@pytest.mark.parametrize("suffix", [".npz", ".pkl"])
def test_a_body_is_its_formula(joints, suffix, tmp_path):
    fields = body_fields(joints)
    body = read_body_model(write_body(tmp_path / f"body{suffix}", fields))
    names = {16: "MANO", 24: "SMPL", 52: "SMPL-H", 55: "SMPL-X"}
    assert body.kind == names[joints]
    betas, pose = RNG.standard_normal(10), 0.7 * RNG.standard_normal(3 * joints)
    found = body.rig(betas)(pose)
    np.testing.assert_allclose(found, expected(fields, pose, betas), atol=1e-12)


@pytest.mark.parametrize("name", ["openbody_6890", "openbody_1200"])
def test_bodies_agree_with_the_golden_file(name, assets):
    with np.load(assets / "parametric" / "golden.npz") as golden:
        told = {key.split("/")[1]: golden[key] for key in golden.files if key.startswith(name)}
    body = read_body_model(assets / "parametric" / f"{name}.npz")
    for k, pose in enumerate(told["pose"]):
        rig = body.rig(told["betas"][k])
        assert isinstance(rig, PoseBlendShapeRig)
        moved = rig(pose.ravel(), told["vertex_ids"]) + told["trans"][k]
        np.testing.assert_allclose(moved, told["vertices"][k], atol=1e-6)
        joints = rig.base.joint_pose.matrices(pose.ravel())[:, :3, 3] + told["trans"][k]
        np.testing.assert_allclose(joints, told["joints"][k], atol=1e-6)


def test_hands_agree_with_the_golden_file_from_mean_flat_and_components(assets):
    with np.load(assets / "parametric" / "golden.npz") as golden:
        told = {k.split("/")[1]: golden[k] for k in golden.files if k.startswith("openhand")}
    body = read_body_model(assets / "parametric" / "openhand_right.npz")
    for k, pose in enumerate(told["pose"]):
        rig, few = body.rig(told["betas"][k]), told["vertex_ids"]
        mean = rig(body.full_pose(pose.ravel()), few)
        np.testing.assert_allclose(mean, told["vertices_mean"][k], atol=1e-6)
        flat = rig(body.full_pose(pose.ravel(), flat_hand_mean=True), few)
        np.testing.assert_allclose(flat, told["vertices_flat"][k], atol=1e-6)
        six = np.concatenate([pose[0], told["pca6"][k]])
        np.testing.assert_allclose(
            rig(body.full_pose(six), few), told["vertices_pca6"][k], atol=1e-6
        )


def test_another_library_has_the_same_body(tmp_path):
    library = pytest.importorskip("body_models.smpl.numpy", reason="no body-models")
    fields = body_fields(24)
    file = write_body(tmp_path / "body.npz", fields)
    betas, pose = RNG.standard_normal(10), 0.6 * RNG.standard_normal((24, 3))
    place = RNG.standard_normal(3)
    theirs = library.SMPL(model_path=file).forward_vertices(
        pose[None, 1:],
        pelvis_rotation=pose[None, 0],
        shape=betas[None],
        global_translation=place[None],
    )[0]
    ours = read_body_model(file).rig(betas)(pose.ravel()) + place
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_another_library_has_the_same_hand(tmp_path):
    library = pytest.importorskip("body_models.mano.numpy", reason="no body-models")
    file = write_body(tmp_path / "MANO_RIGHT.npz", body_fields(16))
    betas, pose = RNG.standard_normal(10), 0.4 * RNG.standard_normal((16, 3))
    for flat in (False, True):
        model = library.MANO(model_path=file, flat_hand_mean=flat)
        theirs = model.forward_vertices(
            pose[None, 1:], wrist_rotation=pose[None, 0], shape=betas[None]
        )[0]
        body = read_body_model(file)
        ours = body.rig(betas)(body.full_pose(pose.ravel(), flat_hand_mean=flat))
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_betas_and_expressions_may_be_fewer_and_not_more(tmp_path):
    fields = body_fields(55, shapes=20)
    body = read_body_model(write_body(tmp_path / "x.npz", fields))
    assert body.n_betas == 10
    shape = np.zeros(20)
    shape[[1, 12]] = 2.0, -1.0
    wanted = fields["v_template"] + fields["shapedirs"] @ shape
    np.testing.assert_allclose(body.shaped([0, 2.0], [0, 0, -1.0]), wanted, atol=1e-14)
    with pytest.raises(SuppleError, match="betas: 11 numbers; this body has 10 coefficients"):
        body.shaped(np.ones(11))
    with pytest.raises(SuppleError, match="finite"):
        body.shaped([np.nan])


def test_flat_directions_are_the_same(tmp_path):
    fields = body_fields(16)
    whole = read_body_model(write_body(tmp_path / "a.npz", fields))
    flat = fields | {
        "shapedirs": fields["shapedirs"].reshape(-1, 10),
        "posedirs": fields["posedirs"].reshape(-1, 135),
    }
    other = read_body_model(write_body(tmp_path / "b.npz", flat))
    np.testing.assert_array_equal(other.pose_directions, whole.pose_directions)
    np.testing.assert_array_equal(other.shape_directions, whole.shape_directions)


def test_a_root_s_parent_may_be_anything(tmp_path):
    fields = body_fields()
    for parent in (0, -1, 2**32 - 1):
        fields["kintree_table"][0, 0] = parent
        body = read_body_model(write_body(tmp_path / "a.npz", fields))
        assert body.parents[:4].tolist() == [-1, 0, 0, 0]


def test_a_body_without_pose_directions_is_a_skinned_rig(tmp_path):
    fields = body_fields(3 * 5)
    del fields["posedirs"]
    character = supple.load(write_body(tmp_path / "other.npz", fields))
    assert type(character.rig) is SkinnedRig
    assert character.source.body.joint_names[1] == "joint1"


def hand(tmp_path: Path, name: str) -> Path:
    """Write a hand whose first shape direction is its size, with the signs of a right one."""
    fields = body_fields(16)
    fields["shapedirs"][:, :, 0] = 0.1 * fields["v_template"]
    if "LEFT" in name:
        fields["shapedirs"][:, 0, 0] *= -1
    return write_body(tmp_path / name, fields)


def test_left_hands_with_shape_directions_of_right_hands_are_mirrored_with_a_warning(tmp_path):
    with pytest.warns(SuppleWarning, match="shape directions of a right hand"):
        left = supple.load(hand(tmp_path, "MANO_LEFT.npz"), betas=[1.0])
    right = supple.load(hand(tmp_path, "MANO_RIGHT.npz"), betas=[1.0])
    np.testing.assert_allclose(left.surface.vertices, right.surface.vertices, atol=1e-12)
    kept = supple.load(tmp_path / "MANO_LEFT.npz", betas=[1.0], mirror_shapes=False)
    assert np.abs(kept.surface.vertices - left.surface.vertices).max() > 0.01


def test_an_open_wrist_is_closed_on_request(assets):
    file = assets / "parametric" / "openhand_right.npz"
    with pytest.warns(SuppleWarning, match="24 open edges"):
        opened = supple.load(file)
    closed = supple.load(file, closed=True)
    assert closed.surface.defects() == []
    assert len(closed.surface.triangles) == len(opened.surface.triangles) + 22
    assert 2e-4 < closed.surface.volume() < 5e-4


def test_holes_are_closed_by_as_many_triangles_as_edges_less_two():
    fields = body_fields()
    faces = fields["f"].astype(np.int64)
    gone = (faces == 7).any(axis=1)
    more = hole_triangles(fields["v_template"], faces[~gone])
    assert len(more) == gone.sum() - 2
    whole = SurfaceMesh(fields["v_template"], np.vstack([faces[~gone], more]))
    assert {defect.kind for defect in whole.defects()} <= {"unreferenced vertices"}


def test_a_character_has_the_body_s_name_joints_and_rest(tmp_path):
    fields = body_fields()
    character = supple.load(write_body(tmp_path / "me.npz", fields), betas=[1.0])
    assert character.name == "me"
    assert isinstance(character.rig, PoseBlendShapeRig)
    assert character.rig.base.skeleton.names == joint_layout(24).names
    at_rest = character.rig(character.rig.rest_pose)
    np.testing.assert_allclose(at_rest, character.surface.vertices, atol=1e-12)


DAMAGE = {
    "no template": lambda f: f.pop("v_template"),
    "nan": lambda f: f["v_template"].__setitem__((0, 0), np.nan),
    "a face too far": lambda f: f["f"].__setitem__((0, 0), 10_000),
    "faces of numbers": lambda f: f.__setitem__("f", f["f"].astype(float)),
    "weights of another body": lambda f: f.__setitem__("weights", f["weights"][:-1]),
    "a negative weight": lambda f: f["weights"].__setitem__((0, 0), -0.5),
    "parents after children": lambda f: f["kintree_table"].__setitem__((0, 3), 9),
    "pose directions of another": lambda f: f.__setitem__("posedirs", f["posedirs"][:, :, :-1]),
    "a flat template": lambda f: f.__setitem__("v_template", f["v_template"].ravel()),
    "text": lambda f: f.__setitem__("shapedirs", np.array("shape")),
    "objects": lambda f: f.__setitem__("weights", np.array([{}], dtype=object)),
    "no joints": lambda f: f.__setitem__("weights", np.zeros((len(f["v_template"]), 0))),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_bodies_are_refused_in_one_line(damage, tmp_path):
    fields = body_fields()
    DAMAGE[damage](fields)
    file = write_body(tmp_path / "bad.npz", fields)
    with pytest.raises(FormatError, match=r"^bad.npz: ") as error:
        supple.load(file)
    assert "\n" not in str(error.value)


def test_unneeded_objects_do_no_harm(tmp_path):
    fields = body_fields() | {"joint2num": np.array({"a": 1}, dtype=object)}
    np.savez(tmp_path / "x.npz", **fields)
    assert supple.load(tmp_path / "x.npz").has_mesh


def test_archives_that_declare_more_than_they_have_are_rejected_before_allocation(tmp_path):
    write_body(tmp_path / "a.npz", body_fields())
    told = b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 3), }"
    head = (b"\x93NUMPY\x01\x00v\x00" + told).ljust(127) + b"\n"
    a, b = zipfile.ZipFile(tmp_path / "a.npz"), zipfile.ZipFile(tmp_path / "b.npz", "w")
    with a as good, b as bad:
        for name in good.namelist():
            bad.writestr(name, head if name == "v_template.npy" else good.read(name))
    with pytest.raises(FormatError, match="declares more data than it has"):
        supple.load(tmp_path / "b.npz")
    data = (tmp_path / "a.npz").read_bytes()
    for cut in (0, 10, len(data) // 2, len(data) - 30):
        (tmp_path / "c.npz").write_bytes(data[:cut])
        with pytest.raises(FormatError, match=r"^c.npz: "):
            supple.load(tmp_path / "c.npz")


def test_files_of_another_kind_give_errors_that_describe_them(tmp_path):
    np.savez(tmp_path / "walk.npz", poses=np.zeros((4, 72)))
    with pytest.raises(FormatError, match="is a motion; load its body"):
        supple.load(tmp_path / "walk.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(FormatError, match="no v_template, f, weights"):
        supple.load(tmp_path / "other.npz")
    with pytest.raises(FormatError, match=r'glTF 2\.0 files have no option "betas"'):
        supple.load("rat.glb", betas=[1.0])
    with pytest.raises(FormatError, match='have no option "beta"'):
        supple.load(tmp_path / "other.npz", beta=[1.0])


def test_a_rim_too_long_to_close_is_refused():
    n = 3000
    turn = 2 * np.pi * np.arange(n) / n
    ring = np.column_stack([np.cos(turn), np.sin(turn), 0 * turn])
    after = np.roll(np.arange(n), -1)
    fan = np.column_stack([np.full(n, n), np.arange(n), after])
    with pytest.raises(SuppleError, match="3,000 edges"):
        hole_triangles(np.vstack([ring, [[0, 0, 1.0]]]), fan)


def test_texts_of_no_length_declare_no_room(tmp_path):
    """An array of 2³⁰ of them has no size in the file, and a GiB when it is made."""
    head = "{'descr': '|S0', 'fortran_order': False, 'shape': (1073741824,)}"
    file, block = tmp_path / "body.npz", head.ljust(117) + chr(10)
    data = b"\x93NUMPY\x01\x00" + len(block).to_bytes(2, "little") + block.encode()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("v_template.npy", data)
        archive.writestr("weights.npy", data)
    with pytest.raises(SuppleError):
        read_body_model(file)


def test_more_coefficients_than_components_are_refused(tmp_path):
    fields = body_fields(16)
    fields["hands_mean"], fields["hands_components"] = np.zeros(45), np.eye(45)[:6]
    body = read_body_model(write_body(tmp_path / "MANO_RIGHT.npz", fields))
    with pytest.raises(SuppleError, match="6 principal components, not 30"):
        body.full_pose(np.zeros(33))
