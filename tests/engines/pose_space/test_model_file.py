"""A model file holds the model to the bit, and a damaged one is an error that says so."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as load_safetensors

import supple
from helpers.model_samples import bent_beam, sample_fields, sample_model
from supple.elastic.material import Material
from supple.engines.common.model_file import packed_model, unpacked_model
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.model.reduction_schema import packed_basis, rounded_basis
from supple.errors import FormatError, SuppleError
from supple.reduction.regions.region import Region
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import FunctionRig, Rig
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.tet_rig import TetRig
from supple.tensors import packed_tensors, unpacked_tensors

FIELDS = [field.name for field in dataclasses.fields(PoseSpaceModel)]
ARRAYS = [name for name in FIELDS if isinstance(getattr(sample_model(), name), np.ndarray)]


def unpacked(data: bytes, rig: Rig | None = None) -> PoseSpaceModel:
    return unpacked_model(PoseSpaceModel, data, rig)


def assert_same(a: PoseSpaceModel, b: PoseSpaceModel) -> None:
    """To the bit."""
    for name in ARRAYS:
        one, other = getattr(a, name), getattr(b, name)
        if one is None:
            assert other is None
            continue
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes(), name
        assert not other.flags.writeable
    for one, other in zip(
        (*a.bases, *a.basis_vertices), (*b.bases, *b.basis_vertices), strict=True
    ):
        assert one.tobytes() == other.tobytes()
    for one, other in zip(a.regions, b.regions, strict=True):
        assert one.name == other.name
        assert one.vertices.tobytes() == other.vertices.tobytes()
        assert one.weights.tobytes() == other.weights.tobytes()
    assert a.surface.vertices.tobytes() == b.surface.vertices.tobytes()
    assert a.mesh.vertices.tobytes() == b.mesh.vertices.tobytes()
    assert (a.name, a.seed, a.report, a.material_kind) == (
        b.name,
        b.seed,
        b.report,
        b.material_kind,
    )
    assert a.pose_names == b.pose_names
    assert list(a.motions) == list(b.motions)
    for pose in (a.poses[0], a.poses[1], 0.3 * a.poses[1] + 0.2 * a.poses[2]):
        for rig in ("rig", "tet_rig", "pose_weights"):
            assert getattr(a, rig)(pose).tobytes() == getattr(b, rig)(pose).tobytes()


@pytest.mark.parametrize("interpolation", ["frames", "world"])
def test_a_loaded_model_is_the_one_that_was_built_to_the_bit(tmp_path, interpolation):
    model = sample_model(0, interpolation)
    model.save(tmp_path / "beam.supple")
    again = PoseSpaceModel.load(tmp_path / "beam.supple")
    assert_same(model, again)
    again.save(tmp_path / "again.supple")
    assert (tmp_path / "again.supple").read_bytes() == (tmp_path / "beam.supple").read_bytes()
    for name, motion in model.motions.items():
        other = again.motions[name]
        for field in ("times", "poses", "roots"):
            assert getattr(other, field).tobytes() == getattr(motion, field).tobytes()


def test_a_model_is_what_it_was_made_of_to_single_precision():
    fields, model = sample_fields(), sample_model()
    pose = 0.4 * model.poses[1]
    np.testing.assert_allclose(model.rig(pose), fields["rig"](pose), atol=1e-6)
    np.testing.assert_allclose(model.tet_rig(pose), fields["tet_rig"](pose), atol=1e-6)
    np.testing.assert_allclose(model.embedding.toarray(), fields["embedding"].toarray(), atol=1e-6)
    assert (model.embedding.sum(axis=1) == 1).all()
    stored = model.basis_vertices[1]
    rows = np.searchsorted(model.regions[1].vertices, stored)
    expected = fields["bases"][2][1][rows]
    peaks = np.abs(expected).max(axis=(0, 1))
    assert (np.abs(model.bases[1][2] - expected) <= 3.1e-5 * peaks).all()
    single = PoseSpaceModel.make(**fields | {"basis_bits": 32})
    np.testing.assert_allclose(single.bases[1][2], expected, rtol=1e-6)
    assert_same(single, unpacked(packed_model(single)))
    np.testing.assert_allclose(model.mass_product(1, 2), fields["mass_products"][4], atol=1e-6)
    np.testing.assert_allclose(model.mass_product(2, 2), fields["mass_products"][5], atol=1e-6)
    assert model.columns == (slice(0, 4), slice(4, 7))
    assert (model.n_poses, model.n_modes) == (3, 7)
    assert model.pose_names == ("neutral", "up", "side")


def test_the_interpolated_basis_is_that_of_the_whole_bases_where_it_is_stored():
    from supple.engines.pose_space.interpolation import interpolated_basis

    fields, model = sample_fields(), sample_model()
    pose = 0.5 * model.poses[1] + 0.2 * model.poses[2]
    whole = interpolated_basis(
        fields["bases"],
        fields["regions"],
        model.pose_weights(pose),
        fields["rotations"],
        fields["mass_products"],
        len(model.mesh.vertices),
    ).reshape(-1, 3, 7)
    ours = model.interpolated_basis(pose).reshape(-1, 3, 7)
    for columns, stored in zip(model.columns, model.basis_vertices, strict=True):
        expected = whole[stored][:, :, columns]
        near = 1e-4 * np.abs(expected).max()
        np.testing.assert_allclose(ours[stored][:, :, columns], expected, atol=near)


def test_the_same_model_gives_the_same_bytes_in_another_process():
    code = (
        "from helpers.model_samples import sample_model\n"
        "from supple.engines.common.model_file import packed_model\n"
        "import hashlib\n"
        "print(hashlib.sha256(packed_model(sample_model())).hexdigest())\n"
    )
    environment = os.environ | {
        "PYTHONHASHSEED": "77",
        "NUMBA_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert run.stdout.strip() == hashlib.sha256(packed_model(sample_model())).hexdigest()


def test_the_safetensors_library_reads_the_file():
    data = packed_model(sample_model())
    ours = unpacked_tensors(data)[0]
    theirs = load_safetensors(data)
    assert set(ours) == set(theirs)
    for name, array in ours.items():
        assert theirs[name].dtype == array.dtype
        np.testing.assert_array_equal(theirs[name], array)


def test_equal_arrays_are_stored_once():
    model = sample_model()
    texts = unpacked_tensors(packed_model(model))[1]
    same = json.loads(texts["header"])["same"]
    assert same["surface.vertices"].startswith("rigs.")
    assert "mesh.vertices" not in unpacked_tensors(packed_model(model))[0] or any(
        target == "mesh.vertices" for target in same.values()
    )
    sizes = model.sizes()
    assert sum(sizes.values()) == len(packed_model(model))
    assert sizes["bases"] < 0.52 * sum(basis.nbytes for basis in model.bases)
    single = PoseSpaceModel.make(**sample_fields() | {"basis_bits": 32}).sizes()
    assert single["bases"] == sum(basis.nbytes for basis in model.bases)


def test_painted_materials_are_kept_and_blended():
    fields = sample_fields()
    count = len(fields["mesh"].tets)
    young = [1e4 * (i + 1) * np.linspace(1, 2, count) for i in range(3)]
    each = [Material("stvk", young=values) for values in young]
    model = PoseSpaceModel.make(**fields | {"material": each})
    again = unpacked(packed_model(model))
    assert np.shape(again.young) == (3, count)
    np.testing.assert_allclose(again.young, young, rtol=1e-6)
    for weights, expected in (
        (2, young[2]),
        ([0.5, 0.5, 0], 1.5 * young[0]),
        ([-0.2, 0, 1.2], young[2]),  # never beyond the poses
    ):
        found = np.asarray(again.material(weights).young)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert again.material().poisson == each[0].poisson
    with pytest.raises(SuppleError, match="pose 3 does not exist"):
        again.material(3)
    with pytest.raises(SuppleError, match="must have the same kind and density"):
        PoseSpaceModel.make(**fields | {"material": [each[0], each[1], Material("corotational")]})


def test_a_model_of_a_black_box_needs_its_rig(tmp_path):
    fields = sample_fields()
    rig = fields["rig"]
    box = FunctionRig(lambda pose, vertices: rig(pose, vertices), rig.parameters, rig.n_vertices)
    tets = fields["tet_rig"]
    start = ShepardRig(box, fields["surface"].vertices, fields["mesh"].vertices)
    on_box = TetRig(fields["mesh"], start, tets.pose_weights, 0 * tets.corrections)
    model = PoseSpaceModel.make(**fields | {"rig": box, "tet_rig": on_box})
    model.save(tmp_path / "box.supple")
    with pytest.raises(SuppleError, match=r"^box\.supple: the file does not hold its rig, .*rig="):
        PoseSpaceModel.load(tmp_path / "box.supple")
    again = PoseSpaceModel.load(tmp_path / "box.supple", rig=box)
    assert again.rig is box
    pose = 0.5 * model.poses[1]
    assert again.tet_rig(pose).tobytes() == model.tet_rig(pose).tobytes()
    with pytest.raises(SuppleError, match="the rig passed has 9 vertices"):
        unpacked(DATA, FunctionRig(lambda pose: np.zeros((9, 3)), rig.parameters, 9))
    assert_same(unpacked(DATA, rig), sample_model())
    moved = FunctionRig(lambda pose: rig(pose) + 1.0, rig.parameters, rig.n_vertices)
    with pytest.raises(SuppleError, match="away from the rest pose of its rig"):
        PoseSpaceModel.load(tmp_path / "box.supple", rig=moved)


def test_bases_rounded_to_steps_are_not_changed_by_rounding_again():
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((2, 30, 3, 400)) * np.exp(rng.uniform(-60, 40, 400))
    basis[0, :, :, 0] = 0
    basis[1, :, :, 1] = 1 - 1e-9  # would round to 2¹⁵ steps
    basis[1, :, :, 2] = 1
    basis[1, 0, 0, 3] = -basis[1, :, :, 3].max() * (1 + 1e-12)
    once = rounded_basis(basis)
    assert rounded_basis(once).tobytes() == once.tobytes()
    assert packed_basis(once)[0].tobytes() == packed_basis(basis)[0].tobytes()
    peaks = np.abs(basis).max(axis=(1, 2), keepdims=True)
    assert (np.abs(once - basis) <= 2.0**-15 * peaks).all()


def changed(**fields: Any) -> PoseSpaceModel:
    model = sample_model()
    own = {name: getattr(model, name) for name in FIELDS}
    return PoseSpaceModel(**own | fields)


def with_entry(name: str, value: Any) -> dict[str, Any]:
    array = np.array(getattr(sample_model(), name))
    array.flat[-1] = value
    return {name: array}


M = sample_model()
WRONG: list[tuple[dict[str, Any], str]] = [
    (with_entry("embedding_vertices", 10**6), "embedding: .* to 1000000; use 0 to"),
    (with_entry("embedding_weights", np.nan), "embedding weights: not finite"),
    (with_entry("embedding_weights", 0.5), "do not add up to 1"),
    (with_entry("fixed", 10**6), "1000000 does not exist"),
    (with_entry("fixed", M.fixed[0]), "listed twice"),
    ({"fixed": M.basis_vertices[0][:1]}, "vertices that are fixed"),
    ({"material_kind": "orthotropic"}, "is not isotropic"),
    ({"material_kind": "jelly"}, "is not isotropic"),
    ({"young": -1.0}, "Young's modulus must be positive"),
    ({"young": np.ones(3)}, "Young's modulus: shape"),
    ({"poisson": 0.5}, "Poisson's ratio"),
    ({"density": np.full(len(M.mesh.tets), np.inf)}, "density: not finite"),
    ({"interpolation": "magic"}, 'interpolation "magic"'),
    ({"interpolation": "world"}, "has no rotations"),
    ({"rotations": None}, "needs rotations"),
    ({"rotations": 2 * np.asarray(M.rotations)}, "unit quaternions"),
    ({"rotations": np.asarray(M.rotations)[::-1]}, "neutral pose must be the identity"),
    ({"regions": ()}, "for 0 regions"),
    ({"bases": M.bases[:1]}, "each region needs one"),
    ({"bases": (M.bases[0][:2], M.bases[1])}, "expected \\(3, "),
    ({"bases": (M.bases[0] * np.nan, M.bases[1])}, 'region "near": not finite'),
    ({"basis_vertices": M.basis_vertices[::-1]}, "basis of region .near.: index 63 does not exist"),
    (
        {"basis_vertices": (M.basis_vertices[0][::-1], M.basis_vertices[1])},
        "vertices of the region, ascending",
    ),
    (
        {
            "basis_vertices": (M.basis_vertices[0][1:], M.basis_vertices[1]),
            "bases": (M.bases[0][:, 1:], M.bases[1]),
            "rotations": np.asarray(M.rotations)[:, 1:],
        },
        "stores no basis at vertex",
    ),
    (with_entry("root_eigenvalues", -1), "none may be negative"),
    ({"mass_products": -M.mass_products}, "has no mass"),
    ({"mass_products": M.mass_products[:, 1:]}, "mass products: shape"),
    (with_entry("elastic_tets", len(M.mesh.tets)), "does not exist"),
    (with_entry("elastic_tets", M.elastic_tets[0]), "listed twice"),
    (with_entry("elastic_weights", -1e-3), "none may be negative"),
    (with_entry("inertial_weights", np.nan), "not finite"),
    (with_entry("inertial_corrections", np.nan), "not finite"),
    (with_entry("stiffness_corrections", np.nan), "not finite"),
    (with_entry("correction_ends", 3), "not among 3 poses"),
    ({"elastic_weights": M.elastic_weights[:2]}, "weights of the elastic cubature: shape"),
    ({"basis_bits": 8}, "bases of 8 bits"),
    ({"parents": [-1, 2, 1]}, "has a cycle"),
    ({"parents": [0, 0, 0]}, "pose 0 as its only root"),
    ({"parents": [-1, -1, 0]}, "pose 0 as its only root"),
    ({"parents": [-1, 0]}, "a parent for each of 3"),
    ({"seed": -1}, "seed -1"),
    ({"seed": 0.5}, "whole numbers"),
    ({"report": {"error": float("nan")}}, "must have finite JSON values"),
    ({"report": {"error": np.zeros(3)}}, "must have finite JSON values"),
    ({"extras": {"../x": np.zeros(3)}}, 'extra array "../x"'),
    ({"extras": {"a.b": np.zeros(3, complex)}}, "is complex128"),
    ({"extras": {"a.b": np.array([np.nan])}}, "not finite everywhere"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_a_model_that_cannot_be_right_is_refused(fields, message):
    with pytest.raises(SuppleError, match=message):
        changed(**fields)


def test_parts_of_different_bodies_are_refused():
    from supple.mesh.surface import SurfaceMesh
    from supple.mesh.tets import TetMesh

    moved = SurfaceMesh(M.surface.vertices + 0.1, M.surface.triangles)
    with pytest.raises(SuppleError, match="do not belong together"):
        changed(surface=moved)
    with pytest.raises(SuppleError, match="do not belong together"):
        changed(mesh=TetMesh(1.5 * M.mesh.vertices, M.mesh.tets))
    with pytest.raises(SuppleError, match="inverted or flat"):
        changed(mesh=TetMesh(M.mesh.vertices, M.mesh.tets[:, [1, 0, 2, 3]]))
    with pytest.raises(SuppleError, match="has vertex 100000"):
        changed(regions=(M.regions[0], Region("far", np.array([100_000]), np.ones(1))))


# -- files ---------------------------------------------------------------------------------------

DATA = packed_model(sample_model())


def signed(change: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]) -> bytes:
    """The sample's file after a change by somebody who knows how to make the checksum right."""
    from supple.engines.common.model_file import checksum

    tensors, texts, _ = unpacked_tensors(DATA)
    header = json.loads(texts["header"])
    own = {name: array.copy() for name, array in tensors.items()}
    change(header, own)
    text = json.dumps(header, sort_keys=True)
    texts = {**texts, "header": text}
    plain, _, block = unpacked_tensors(packed_tensors(own, texts))
    return packed_tensors(own, texts | {"checksum": checksum(text, plain, block)})


def raw(header: bytes, block: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + block


def texts_with(**changes: str) -> bytes:
    tensors, texts, _ = unpacked_tensors(DATA)
    return packed_tensors(tensors, texts | changes)


CLOSED = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a model file"),
        (b"PK\x03\x04 something else entirely", "is not a model file"),
        (DATA[:7], "is not a model file"),
        (DATA[:1000], "is cut off"),
        (DATA[:-1], "has wrong offsets; the file is cut off or edited"),
        (DATA + b"\0", "1 bytes that belong to no array"),
        ((2**62).to_bytes(8, "little") + DATA[8:], "is cut off"),
        (raw(b"{" * 3000 + b"}" * 3000), "nested too deeply"),
        (raw(b'{"a":' + b"[" * 100_000), "nested too deeply"),
        (raw(CLOSED + b"}", b"1234"), "but not a model of Supple"),
        (raw(CLOSED + b"," + CLOSED[1:] + b"}", b"1234"), "a key occurs twice"),
        (raw(CLOSED.replace(b"4]", b"1" + b"0" * 5000 + b"]") + b"}"), "too many digits"),
        (raw(CLOSED.replace(b"[1]", b"[-1]") + b"}", b"1234"), "has an invalid shape"),
        (raw(CLOSED.replace(b"[1]", b"[1e0]") + b"}", b"1234"), "has an invalid shape"),
        (raw(CLOSED.replace(b"[1]", b"[NaN]") + b"}", b"1234"), "NaN is not a number"),
        (raw(CLOSED.replace(b"[1]", b"[99999999999]") + b"}", b"1234"), "does not match its shape"),
        (raw(CLOSED.replace(b"F32", b"BF16") + b"}", b"1234"), "has an unknown type"),
        (raw(CLOSED.replace(b'"a"', b'"../../a"') + b"}", b"1234"), "is invalid"),
        (raw(b'{"__metadata__":{"format":5}}'), "are not strings"),
        (raw(b'["a"]   '), "is not a model file"),
        (raw(b'{"\xff":1}'), "its header is damaged"),
        (texts_with(format="other"), "but not a model of Supple"),
        (texts_with(version="2"), "is of version 2; upgrade Supple, which reads 1"),
        (texts_with(version="one"), "of an unsupported version; build the model again"),
        (texts_with(header="{}"), "has changed since it was written"),
        (texts_with(checksum=""), "has changed since it was written"),
    ],
)
def test_a_damaged_file_is_an_error_with_the_reason(tmp_path, data, message):
    path = tmp_path / "rat.supple"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=rf"^rat\.supple: .*{message}"):
        PoseSpaceModel.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, t: t.pop("fixed"), 'array "fixed" is missing'),
        (lambda h, t: t.update(surplus=np.zeros(2)), 'unknown array "surplus"'),
        (lambda h, t: t.update(fixed=t["fixed"].astype(float)), '"fixed" is float64'),
        (lambda h, t: t.update(fixed=t["fixed"][None]), r'"fixed" has shape \(1, 9\)'),
        (lambda h, t: t.update(fixed=np.array([-4], np.int32)), "has a negative index"),
        (lambda h, t: h.pop("seed"), '"seed" is missing'),
        (lambda h, t: h.update(seed=True), '"seed" is not an integer'),
        (lambda h, t: h.update(seed=10**25), "seed 10"),
        (lambda h, t: h.update(name=["x"]), '"name" is not a string'),
        (lambda h, t: h.update(name="x" * 5000), '"name" is not a string, or far'),
        (lambda h, t: h.update(more=1), 'unknown field "more"'),
        (lambda h, t: h.update(rigs=[]), '"rigs" is not a table'),
        (lambda h, t: h.update(same=[]), "which arrays are the same"),
        (lambda h, t: h["same"].update(a="nowhere"), "list of equal arrays is inconsistent"),
        (lambda h, t: h["same"].update(a="fixed"), 'unknown array "a"'),
        (
            lambda h, t: h["same"].update({f"a{i}": "regions.0.basis" for i in range(999)}),
            "has too many entries that share arrays",
        ),
        (
            lambda h, t: h["rigs"]["roots"].pop("tet_rig"),
            "its rigs are not rig, tet_rig, pose_weights",
        ),
        (lambda h, t: h["rigs"]["roots"].update(rig=0), "is a Skeleton, not a Rig"),
        (lambda h, t: h["material"].update(young="soft"), '"young" is not a number'),
        (lambda h, t: h["material"].update(young=None), 'array "material.young" is missing'),
        (lambda h, t: h["regions"].append("third"), 'array "regions.2.vertices" is missing'),
        (lambda h, t: h["motions"][0].update(cuts=[0.5]), "cuts must be whole numbers"),
        (lambda h, t: h["motions"].append({}), '"key" is missing'),
        (lambda h, t: t["parents"].__setitem__(2, 3), "has a cycle|only root"),
        (lambda h, t: t["cubature.elastic_weights"].__setitem__((0, 0), -1), "be negative"),
        (lambda h, t: t["regions.0.weights"].__setitem__(0, np.nan), "not finite"),
        (lambda h, t: t["regions.0.exponents"].__setitem__((0, 0), 3000), "steps are too small or"),
        (lambda h, t: h.update(basis_bits=32), '"regions.0.basis" is int16'),
        (lambda h, t: h.update(basis_bits=8), '"regions.0.basis" is int16'),
        (lambda h, t: t["mass_products.mask"].__setitem__(0, 0), "but its mask has"),
    ],
)
def test_an_edited_file_with_a_valid_checksum_is_still_refused(change, message):
    with pytest.raises(SuppleError, match=message):
        unpacked(signed(change))


def test_a_file_of_before_there_were_several_engines_is_read(tmp_path):
    assert json.loads(unpacked_tensors(DATA)[1]["header"])["engine"] == "pose-space"
    path = tmp_path / "old.supple"
    path.write_bytes(signed(lambda header, _: header.pop("engine")))
    for model in (PoseSpaceModel.load(path), supple.load_model(path)):
        assert_same(model, sample_model())
        assert packed_model(model) == DATA


def test_a_file_of_another_engine_is_refused(tmp_path):
    path = tmp_path / "other.supple"
    path.write_bytes(signed(lambda header, _: header.update(engine="clay")))
    with pytest.raises(FormatError, match=r"^other\.supple: is for another engine \('clay'\)"):
        PoseSpaceModel.load(path)
    with pytest.raises(FormatError, match='is for the engine "clay", which is not in this'):
        supple.load_model(path)


def outcome(data: bytes) -> str:
    """Loaded, or refused in one line; anything else is a failure of the test."""
    try:
        model = unpacked(data)
    except SuppleError as error:
        message = str(error)
    else:
        assert np.isfinite(model.rig(model.poses[1])).all()
        return "loaded"
    assert "\n" not in message
    return "refused"


def test_a_file_with_any_byte_changed_is_refused():
    rng = np.random.default_rng(0)
    for _ in range(400):
        data = bytearray(DATA)
        for where in rng.integers(0, len(data), rng.integers(1, 4)):
            data[where] ^= int(rng.integers(1, 256))
        assert outcome(bytes(data)) == "refused"
    for where in rng.integers(0, len(DATA), 100):
        assert outcome(DATA[:where]) == "refused"


HOSTILE: list[Any] = [
    None,
    True,
    -1,
    0,
    7,
    10**20,
    1e300,
    0.5,
    "",
    "x",
    [],
    {},
    [0],
    [[]],
    {"kind": "chain"},
]


def places(tree: Any, way: tuple = ()) -> list[tuple]:
    """Ways to every value of a JSON tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = []
    for key, value in inner:
        found.append((*way, key))
        if isinstance(value, (dict, list)):
            found += places(value, (*way, key))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_signed_file_with_any_value_changed_loads_or_is_refused(seed):
    rng = np.random.default_rng(seed)
    header = json.loads(unpacked_tensors(DATA)[1]["header"])
    ways = places(header)
    seen = set()
    for _ in range(120):
        way = ways[rng.integers(len(ways))]
        value = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])

        def replace(header: Any, tensors: Any, way: tuple = way, value: Any = value) -> None:
            for key in way[:-1]:
                header = header[key]
            header[way[-1]] = value

        with np.errstate(all="ignore"):
            seen.add(outcome(signed(replace)))
    assert "refused" in seen


@pytest.mark.parametrize("seed", range(3))
def test_a_signed_file_with_any_array_changed_loads_or_is_refused(seed):
    rng = np.random.default_rng(100 + seed)
    names = sorted(unpacked_tensors(DATA)[0])
    seen = set()
    for _ in range(120):
        name, how = names[rng.integers(len(names))], rng.integers(6)

        def spoil(header: Any, tensors: Any, name: str = name, how: int = int(how)) -> None:
            array = tensors[name]
            if how == 0:
                tensors[name] = array[:-1]
            elif how == 1:
                tensors[name] = array[None]
            elif how == 2:
                other = np.float32 if array.dtype != np.float32 else np.float64
                tensors[name] = array.astype(other)
            elif how == 3 and array.size:
                raw_bytes = array.reshape(-1).view(np.uint8)
                raw_bytes[rng.integers(raw_bytes.size, size=4)] ^= 0x7F
            elif how == 4 and array.size:
                extreme = np.inf if array.dtype.kind == "f" else np.iinfo(array.dtype).max
                array.flat[rng.integers(array.size)] = extreme
            else:
                tensors[name] = array[::-1].copy()

        with np.errstate(all="ignore"):
            seen.add(outcome(signed(spoil)))
    assert "refused" in seen


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FormatError, match=r"^none\.supple: there is no such file"):
        PoseSpaceModel.load(tmp_path / "none.supple")
    (tmp_path / "folder.supple").mkdir()
    with pytest.raises(FormatError, match=r"^folder\.supple: is not a file"):
        PoseSpaceModel.load(tmp_path / "folder.supple")
    with pytest.raises(FormatError, match="cannot be written"):
        sample_model().save(tmp_path / "nowhere" / "a.supple")


def test_names_of_any_kind_survive():
    fields = sample_fields() | {"name": 'Bär "😀" \n\\ 熊'}
    assert unpacked(packed_model(PoseSpaceModel.make(**fields))).name == fields["name"]
    assert bent_beam()["rig"].parameters == sample_model().rig.parameters


def test_one_pose_a_free_body_and_no_motions_are_kept():
    fields = sample_fields()
    weights = fields["pose_weights"]
    one = {
        "pose_weights": PoseWeights(weights.poses[:1], weights.scales, names=["neutral"]),
        "bases": fields["bases"][:1],
        "rotations": fields["rotations"][:1],
        "mass_products": fields["mass_products"][:1],
        "elastic_weights": fields["elastic_weights"][:1],
        "inertial_vertices": [],
        "inertial_weights": np.zeros((1, 0)),
        "inertial_corrections": None,
        "stiffness_corrections": None,
        "correction_ends": np.empty((0, 2), int),
        "parents": [-1],
        "fixed": [],
        "motions": {},
        "extras": {},
        "report": {},
    }
    model = PoseSpaceModel.make(**fields | one)
    again = unpacked(packed_model(model))
    assert packed_model(again) == packed_model(model)
    assert again.n_poses == 1
    assert again.interpolated_basis(model.poses[0]).shape == (3 * 99, 7)
    assert len(again.fixed) == len(again.inertial_vertices) == 0
