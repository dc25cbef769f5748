"""Point caches: what other programs read, byte by byte, and back again."""

import struct
import sys
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pytest

import supple
from supple.errors import SuppleError
from supple.formats.meshes.read_mesh import read_surface
from supple.formats.point_cache import read_point_cache, write_abc, write_npz, write_point_cache
from supple.formats.save import check_target, save, written_files
from supple.mesh.surface import SurfaceMesh
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.saving import write_whole

WRITERS = {".pc2": write_point_cache, ".mdd": write_point_cache, ".npz": write_npz}


@pytest.fixture
def baked():
    """A tetrahedron that is thrown about from 0.5 s to 0.8 s, ten frames a second."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1 / 3]])
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    pose = JointPose(Skeleton(["only"], np.array([-1]), np.zeros((1, 3))))
    rig = SkinnedRig(pose, points, np.zeros((4, 1), int), np.ones((4, 1)), np.eye(4)[None])
    times = 0.5 + np.arange(4) / 10
    motion = Motion(times, np.zeros((4, len(rig.rest_pose))), name="throw")
    character = Character("tet", SurfaceMesh(points, faces), rig, {"throw": motion})
    frames = points + np.random.default_rng(1).normal(size=(4, 4, 3))
    return BakedMotion(character, motion, frames.astype(np.float32), 10.0)


def test_pc2_has_the_header_and_the_floats_of_the_format(baked, tmp_path):
    result = write_point_cache(tmp_path / "a.pc2", baked)
    data = (tmp_path / "a.pc2").read_bytes()
    assert result == {"n_frames": 4, "n_points": 4, "bytes": len(data), "mesh": "a_rest.obj"}
    assert data[:12] == b"POINTCACHE2\0"
    assert struct.unpack("<iiffi", data[12:32]) == (1, 4, 5.0, 1.0, 4)
    floats = struct.unpack("<48f", data[32:])
    np.testing.assert_array_equal(np.reshape(floats, (4, 4, 3)), baked.frames)


def test_mdd_has_the_header_and_the_floats_of_the_format(baked, tmp_path):
    write_point_cache(tmp_path / "a.mdd", baked)
    data = (tmp_path / "a.mdd").read_bytes()
    assert struct.unpack(">ii", data[:8]) == (4, 4)
    np.testing.assert_allclose(struct.unpack(">4f", data[8:24]), [0.5, 0.6, 0.7, 0.8], rtol=1e-6)
    floats = struct.unpack(">48f", data[24:])
    np.testing.assert_array_equal(np.reshape(floats, (4, 4, 3)), baked.frames)


def test_npz_holds_all_that_is_needed_and_no_pickle(baked, tmp_path):
    write_npz(tmp_path / "a.npz", baked)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["frames"], baked.frames)
        np.testing.assert_array_equal(stored["triangles"], baked.character.surface.triangles)
        np.testing.assert_allclose(stored["rest"], baked.character.surface.vertices, atol=1e-7)
        assert stored["rate"] == 10
        assert (str(stored["name"]), str(stored["motion"])) == ("tet", "throw")


@pytest.mark.parametrize("suffix", WRITERS)
def test_caches_come_back_as_they_were_and_the_same_bytes_again(suffix, baked, tmp_path):
    for name in ("one", "two"):
        WRITERS[suffix](tmp_path / f"{name}{suffix}", baked)
    assert len({(tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two")}) == 1
    cache = read_point_cache(tmp_path / f"one{suffix}")
    np.testing.assert_array_equal(cache.frames, baked.frames)
    wanted = baked.times * (10 if suffix == ".pc2" else 1)
    np.testing.assert_allclose(cache.times, wanted, rtol=1e-6)


def test_the_mesh_beside_has_the_order_of_the_cache(baked, tmp_path):
    write_point_cache(tmp_path / "a.pc2", baked)
    mesh = read_surface(tmp_path / "a_rest.obj")
    surface = baked.character.surface
    np.testing.assert_array_equal(mesh.triangles, surface.triangles)
    np.testing.assert_array_equal(mesh.vertices.astype(np.float32), surface.vertices.astype("f4"))
    write_point_cache(tmp_path / "b.mdd", baked, mesh=False)
    assert not (tmp_path / "b_rest.obj").exists()
    write_point_cache(tmp_path / "b.mdd", baked, mesh=tmp_path / "own.obj", up="z")
    turned = read_surface(tmp_path / "own.obj").vertices
    np.testing.assert_allclose(turned[:, 2], surface.vertices[:, 1], atol=1e-7)
    cache = read_point_cache(tmp_path / "b.mdd")
    np.testing.assert_array_equal(cache.frames[:, :, 2], baked.frames[:, :, 1])
    np.testing.assert_array_equal(cache.frames[:, :, 1], -baked.frames[:, :, 2])


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_file_order_is_that_of_the_vertices_in_the_file(assets, tmp_path):
    character = supple.load(assets / "gltf_characters" / "Fox.glb")
    motion = next(iter(character.motions.values())).slice(0.0, 0.1)
    still = BakedMotion(character, motion, np.empty(0, np.float32), 24.0)
    frames = np.array([still.rig_frame(k) for k in range(motion.n_frames)], np.float32)
    baked = BakedMotion(character, motion, frames, 24.0)
    result = write_point_cache(tmp_path / "fox.pc2", baked, vertices="file")
    source = character.source
    assert result["n_points"] == sum((p.welded >= 0).sum() for p in source.primitives)
    assert result["n_points"] > len(character.surface.vertices)
    assert not (tmp_path / "fox_rest.obj").exists()
    cache = read_point_cache(tmp_path / "fox.pc2")
    welded = np.concatenate([p.welded for p in source.primitives])
    np.testing.assert_array_equal(cache.frames[1], frames[1][welded[welded >= 0]])


def test_alembic_has_a_sample_for_every_frame(baked, tmp_path):
    pytest.importorskip("alembic3d", reason="Alembic comes with the extra supple[alembic]")
    from alembic3d.Abc import IArchive, ISampleSelector
    from alembic3d.AbcGeom import IPolyMesh

    result = write_abc(tmp_path / "a.abc", baked)
    assert result["bytes"] == (tmp_path / "a.abc").stat().st_size
    top = IArchive(str(tmp_path / "a.abc")).getTop()
    schema = IPolyMesh(top, "tet").getSchema()
    assert schema.getNumSamples() == 4
    for k, time in enumerate(baked.times):
        value = schema.getValue(ISampleSelector(float(time) + 1e-6))
        np.testing.assert_array_equal(memoryview(value.getPositions()), baked.frames[k])
    # Alembic's faces are wound the other way round.
    corners = np.array(memoryview(value.getFaceIndices())).reshape(-1, 3)
    np.testing.assert_array_equal(corners[:, ::-1], baked.character.surface.triangles)
    write_abc(tmp_path / "b.abc", baked)
    assert (tmp_path / "a.abc").read_bytes() == (tmp_path / "b.abc").read_bytes()


def test_alembic_without_its_extra_is_an_error_that_names_the_extra(baked, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "alembic3d", None)
    with pytest.raises(SuppleError, match=r"a\.abc: .* pip install 'supple\[alembic\]'$"):
        write_abc(tmp_path / "a.abc", baked)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [*WRITERS, ".abc"])
def test_failed_writes_are_one_line_errors_and_leave_nothing(suffix, baked, tmp_path):
    if suffix == ".abc":
        pytest.importorskip("alembic3d", reason="Alembic comes with the extra supple[alembic]")
    frames = baked.frames.copy()
    frames[2, 1, 0] = np.inf
    wrong = BakedMotion(baked.character, baked.motion, frames, 10.0)
    short = BakedMotion(baked.character, baked.motion, frames[:, :3], 10.0)
    cases = [
        (tmp_path / f"a{suffix}", wrong, rf"a\{suffix}: the simulation failed at frame 2"),
        (tmp_path / f"a{suffix}", short, rf"a\{suffix}: frames of shape \(4, 3, 3\)"),
        (
            tmp_path / "no" / f"a{suffix}",
            baked,
            rf"a\{suffix}: (there is no folder|cannot be written to) .*no\b",
        ),
    ]
    for path, what, words in cases:
        with pytest.raises(SuppleError, match=words) as raised:
            save(path, what)
        assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_takes_its_mesh_along(baked, tmp_path):
    (tmp_path / "a.pc2").mkdir()
    with pytest.raises(SuppleError, match=r"a\.pc2: cannot be written"):
        write_point_cache(tmp_path / "a.pc2", baked)
    assert [file.name for file in tmp_path.iterdir()] == ["a.pc2"]


def test_unknown_options_are_errors(baked, tmp_path):
    with pytest.raises(SuppleError, match='vertices cannot be "sorted"; use welded or file'):
        write_point_cache(tmp_path / "a.pc2", baked, vertices="sorted")  # type: ignore[arg-type]
    with pytest.raises(SuppleError, match="has no file with its own vertex order"):
        write_point_cache(tmp_path / "a.pc2", baked, vertices="file")
    with pytest.raises(SuppleError, match='the upward axis cannot be "x"'):
        write_point_cache(tmp_path / "a.mdd", baked, up="x")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


PC2 = b"POINTCACHE2\0" + struct.pack("<iiffi", 1, 2, 0, 1, 2)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.pc2", b"POINTCACHE", "fewer than its header"),
        ("a.pc2", b"POINTCACHE3\0" + PC2[12:], "is not a PC2 point cache"),
        ("a.pc2", PC2, "declares 2 frames of 2 points"),
        ("a.pc2", PC2[:12] + struct.pack("<iiffi", 1, -3, 0, 1, -7), "declares -7 frames"),
        ("a.pc2", PC2[:12] + struct.pack("<iiffi", 1, 2**31 - 1, 0, 1, 2**31 - 1), "declares 21"),
        ("a.pc2", PC2[:12] + struct.pack("<iiffi", 2, 2, 0, 1, 2) + bytes(48), "of version 2"),
        ("a.pc2", PC2[:12] + struct.pack("<iiffi", 1, 2, np.nan, 1, 2) + bytes(48), "not finite"),
        ("a.mdd", b"\0\0\0", "fewer than its header"),
        ("a.mdd", struct.pack(">ii", 2**31 - 1, 9), "which its 8 bytes do not hold"),
        ("a.mdd", struct.pack(">ii", -1, 9), "declares -1 frames"),
        ("a.npz", b"PK\x03\x04 no", "is damaged and cannot be read"),
        ("a.xyz", b"", "is not a point cache"),
    ],
)
def test_damaged_caches_are_errors_of_one_line(name, data, words, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SuppleError, match=words) as raised:
        read_point_cache(tmp_path / name)
    assert str(raised.value).startswith(name)
    assert "\n" not in str(raised.value)


def test_npz_with_pickles_or_without_frames_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", frames=np.array([{}], object), times=np.zeros(1))
    with pytest.raises(SuppleError, match=r"a\.npz: is damaged"):
        read_point_cache(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", times=np.zeros(1))
    with pytest.raises(SuppleError, match=r'b\.npz: has no "frames"'):
        read_point_cache(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", frames=np.zeros((2, 4, 3), "f4"), times=np.zeros(3))
    with pytest.raises(SuppleError, match=r"c\.npz: has frames \(2, 4, 3\) and times \(3,\)"):
        read_point_cache(tmp_path / "c.npz")
    np.savez_compressed(tmp_path / "d.npz", frames=np.zeros((3000, 9000, 3), "f4"))
    with pytest.raises(SuppleError, match=r"d\.npz: expands to far more"):
        read_point_cache(tmp_path / "d.npz")


def test_small_files_that_declare_much_are_rejected_before_allocation(tmp_path):
    most = 2**31 - 1
    empty = PC2[:12] + struct.pack("<iiffi", 1, 0, 0, 1, most)
    (tmp_path / "a.pc2").write_bytes(empty)
    header = str({"descr": "<f4", "fortran_order": False, "shape": (most, 10_000, 3)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        whole = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
        archive.writestr("frames.npy", whole + bytes(12))
    tracemalloc.start()
    for name, words in (("a.pc2", "it is empty"), ("a.npz", "declares .* which its .* bytes")):
        with pytest.raises(SuppleError, match=words) as raised:
            read_point_cache(tmp_path / name)
        assert "\n" not in str(raised.value)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("suffix", [".pc2", ".mdd"])
def test_the_mesh_beside_is_known_before_it_is_written(suffix, baked, tmp_path):
    target = tmp_path / f"a{suffix}"
    assert written_files(target) == [target, tmp_path / "a_rest.obj"]
    assert written_files(tmp_path / "a.npz") == [tmp_path / "a.npz"]
    check_target(target, baked.character)
    figures = save(target, baked)
    assert figures["mesh"] == "a_rest.obj"
    assert {file.name for file in tmp_path.iterdir()} == {f"a{suffix}", "a_rest.obj"}
    (tmp_path / "a_rest.obj").unlink()
    (tmp_path / "a_rest.obj").mkdir()
    with pytest.raises(SuppleError, match=r"a_rest\.obj: cannot be written"):
        check_target(target, baked.character)


def test_files_have_the_rights_of_new_files_and_the_umask_stays(tmp_path, monkeypatch):
    (tmp_path / "plain").touch()
    monkeypatch.setattr("os.umask", lambda mask: pytest.fail("changed for all threads"))
    write_whole(tmp_path / "ours", b"data")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ours", "plain"]


def test_an_alembic_cache_is_read_as_it_was_written(baked, tmp_path):
    pytest.importorskip("alembic3d", reason="Alembic comes with the extra supple[alembic]")
    write_abc(tmp_path / "a.abc", baked)
    cache = read_point_cache(tmp_path / "a.abc")
    np.testing.assert_array_equal(cache.frames, np.asarray(baked.frames, np.float32))
    assert cache.times == pytest.approx(baked.times)


def test_an_abc_follows_animated_transforms_and_has_subdivision_surfaces(tmp_path):
    pytest.importorskip("alembic3d")
    import imath
    from alembic3d.Abc import OArchive
    from alembic3d.AbcCoreAbstract import TimeSampling
    from alembic3d.AbcGeom import OSubD, OSubDSchemaSample, OXform, XformSample

    archive = OArchive(str(tmp_path / "a.abc"))
    sampling = archive.addTimeSampling(TimeSampling(0.1, 0.5))
    above = OXform(archive.getTop(), "above", sampling)
    for k in range(4):
        sample = XformSample()
        sample.setTranslation(imath.V3d(k, 0, 0))
        above.getSchema().set(sample)
    mesh = OSubD(above, "mesh")
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    corners, counts = (np.array(each, np.int32) for each in ([0, 2, 1], [3]))
    buffers = (imath.IntArrayFromBuffer(each) for each in (corners, counts))
    mesh.getSchema().set(OSubDSchemaSample(imath.V3fArrayFromBuffer(points), *buffers))
    del mesh, above, archive
    cache = read_point_cache(tmp_path / "a.abc")
    np.testing.assert_allclose(cache.times, [0.5, 0.6, 0.7, 0.8])
    expected = points + np.arange(4)[:, None, None] * [1, 0, 0]
    np.testing.assert_allclose(cache.frames, expected, atol=1e-6)


def test_a_damaged_abc_is_refused_in_one_line_even_if_the_library_crashes(baked, tmp_path):
    """Three of 400 files with a few changed bytes ended the process."""
    pytest.importorskip("alembic3d")
    write_abc(tmp_path / "good.abc", baked)
    data, random = (tmp_path / "good.abc").read_bytes(), np.random.default_rng(3)
    for k in range(12):
        changed = bytearray(data[: random.integers(len(data))] if k % 3 == 0 else data)
        for at in random.integers(max(len(changed) - 2000, 0), max(len(changed), 1), 6):
            changed[at : at + 1] = random.bytes(1)
        (tmp_path / "a.abc").write_bytes(changed)
        with suppress(SuppleError):  # some bytes have no effect
            read_point_cache(tmp_path / "a.abc")


def test_a_crash_of_the_library_is_an_error_message(tmp_path, monkeypatch):
    pytest.importorskip("alembic3d")
    crash = tmp_path / "crash.py"
    crash.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr("supple.formats.alembic_process.__file__", str(crash))
    (tmp_path / "a.abc").write_bytes(b"Ogawa")
    with pytest.raises(SuppleError, match=r"^a\.abc: is damaged: Alembic crashed on it; save it"):
        read_point_cache(tmp_path / "a.abc")
