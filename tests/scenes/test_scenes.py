"""The procedural characters are what the papers had, in size and kind, and are sound."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import igl
import numpy as np
import pytest
from scipy.spatial import cKDTree

from supple import user_cache
from supple.app.pictures.scene_sheet import write_sheet
from supple.errors import SuppleError
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.scenes.characters import arm, x_shape
from supple.scenes.characters.character_scene import PAPERS, Contact, Scene, scene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.scene_data import scene_data, solids_from
from supple.scenes.modelling.sculpting import SkinRelaxer
from supple.scenes.modelling.solids import (
    ball,
    box,
    ellipsoid,
    polygonise,
    relaxed,
    smooth_subtraction,
    smooth_union,
)
from supple.user_cache import cached_arrays

#: Vertices, tets, regions, poses, parameters, bones or joints: Table 3 and §9 of the paper.
PUBLISHED = {
    "arm": (10525, 8122, 3, 10, 4),
    "x": (2362, 9303, 1, 3, 1),
    "bear": (6876, 12762, 6, 8, 144),
    "gorilla": (15774, 16297, 6, 4, 60),
}


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    """Scenes are made once and kept between runs, but not among the user's files."""
    folder = request.config.cache.mkdir("scenes")
    before = os.environ.get("SUPPLE_CACHE")
    os.environ["SUPPLE_CACHE"] = str(folder)
    yield
    if before is None:
        del os.environ["SUPPLE_CACHE"]
    else:
        os.environ["SUPPLE_CACHE"] = before


@pytest.fixture(params=PAPERS["xu2016"])
def shown(request: pytest.FixtureRequest) -> Scene:
    return scene(request.param)


def test_sizes_are_the_papers(shown: Scene) -> None:
    vertices, tets, regions, poses, parameters = PUBLISHED[shown.name]
    assert len(shown.character.surface.vertices) == pytest.approx(vertices, rel=0.1)
    mesh = tetrahedralise(shown.character.surface, tets=shown.tets)
    assert len(mesh.tets) == pytest.approx(tets, rel=0.1)
    assert shown.n_regions == regions == shown.paper.regions
    assert shown.poses.shape == (poses, parameters)
    assert len(set(shown.pose_names)) == poses
    assert len(shown.character.rig.parameters) == parameters


def test_skeletons_are_the_papers() -> None:
    assert len(scene("arm").bones) == 3
    assert scene("gorilla").character.rig.base.skeleton.n_joints == 16  # type: ignore[attr-defined]
    assert len(scene("bear").character.rig.base.rigs) == 6  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.degrees(np.sort(scene("x").poses[:, 0])), [-135, 0, 135])


def test_surfaces_are_closed_and_outward(shown: Scene) -> None:
    surface = shown.character.surface
    assert surface.defects() == []
    assert surface.volume() > 0
    assert surface.components().max() == 0
    genus_free = len(surface.vertices) - len(surface.triangles) // 2
    assert genus_free == 2


def test_the_rest_pose_is_the_surface(shown: Scene) -> None:
    rig = shown.character.rig
    assert isinstance(rig, Rig)
    np.testing.assert_allclose(shown.poses[0], rig.rest_pose, atol=0)
    np.testing.assert_allclose(rig(rig.rest_pose), shown.character.surface.vertices, atol=1e-12)


def test_poses_differ_and_corrections_are_exact_at_them(shown: Scene) -> None:
    rig = shown.character.rig
    shapes = np.array([rig(pose) for pose in shown.poses])
    bare = np.array([rig.base(pose) for pose in shown.poses])  # type: ignore[attr-defined]
    np.testing.assert_allclose(shapes, bare + rig.corrections, atol=1e-10)  # type: ignore[attr-defined]
    size = shown.character.surface.size
    for one in range(len(shapes)):
        assert np.abs(shapes[one]).max() < 3 * size
        for other in range(one):
            moved = np.linalg.norm(shapes[one] - shapes[other], axis=1)
            assert moved.max() > 0.05 * size


def test_corrections_are_sculpted_and_smooth(shown: Scene) -> None:
    corrections = shown.character.rig.corrections  # type: ignore[attr-defined]
    surface = shown.character.surface
    assert np.abs(corrections[0]).max() < 1e-12
    for correction in corrections[1:]:
        length = np.linalg.norm(correction, axis=1)
        assert 1e-3 * surface.size < length.max() < 0.15 * surface.size
        ends = surface.triangles[:, :2]
        jump = np.linalg.norm(np.diff(correction[ends], axis=1), axis=2)[:, 0]
        edge = np.linalg.norm(np.diff(surface.vertices[ends], axis=1), axis=2)[:, 0]
        # Neighbours move alike but in the depths of the folds.
        assert np.quantile(jump / edge, 0.9) < 0.3


def test_posed_surfaces_hardly_enter_themselves(shown: Scene) -> None:
    triangles = shown.character.surface.triangles
    for name, pose in zip(shown.pose_names, shown.poses, strict=True):
        points = shown.character.rig(pose)
        inside = _inside_itself(points, triangles)
        assert inside.mean() < 0.02, name
        volume = SurfaceMesh(points, triangles).volume()
        assert volume == pytest.approx(shown.character.surface.volume(), rel=0.1), name


def _inside_itself(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    edge = np.linalg.norm(points[triangles[:, 0]] - points[triangles[:, 1]], axis=1).mean()
    before = points + 0.15 * edge * vertex_normals(points, triangles)
    return np.abs(igl.fast_winding_number(points, triangles, before)) > 0.5


@pytest.mark.parametrize("name", ["arm", "bear", "gorilla"])
def test_parts_touch_in_contact_poses(name: str) -> None:
    shown = scene(name)
    size = shown.character.surface.size
    for contact in shown.contacts:
        apart, near = _gaps(shown, contact)
        touching = (near < 0.01 * size) & (apart > 0.05 * size)
        # A patch of skin that met what is elsewhere at rest.
        assert touching.sum() >= 10, contact


def _gaps(shown: Scene, contact: Contact) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the first part's vertices to those of the second part that are nearest.

    At rest, and in the pose of the contact.
    """
    rest, posed = shown.character.surface.vertices, shown.character.rig(shown.pose(contact.pose))
    first, second = (
        np.flatnonzero(shown.parts == shown.part_names.index(name))
        for name in (contact.first, contact.second)
    )
    near, other = cKDTree(posed[second]).query(posed[first])
    return np.linalg.norm(rest[first] - rest[second[other]], axis=1), near


def test_every_character_that_touched_itself_in_the_paper_does() -> None:
    touching = {
        name: {contact.pose for contact in scene(name).contacts} for name in PAPERS["xu2016"]
    }
    assert not touching["x"]
    assert all(touching[name] for name in ("arm", "bear", "gorilla"))


def test_motions_are_lively_and_without_jolts(shown: Scene) -> None:
    (motion,) = shown.character.motions.values()
    assert 4 <= motion.duration <= 8
    assert motion.poses.shape[1] == shown.poses.shape[1]
    assert np.ptp(motion.roots[:, :3, 3], axis=0).max() > 0.05  # it travels
    turn = motion.roots[:, :3, :3] @ motion.roots[0, :3, :3].T
    assert (np.trace(turn, axis1=1, axis2=2) < 2.5).any()  # and turns by 40 degrees and more
    # A jolt's acceleration grows with the rate, a curve's that is C² does not. (Without the
    # corrections: pose-space weights have a kink at each pose.)
    coarse, fine = (_accelerations(shown, rate) for rate in (120, 480))
    assert np.isfinite(fine).all()
    assert 2 < fine.max() < 120  # metres per second squared
    assert fine.max() < 1.25 * coarse.max()


def _accelerations(shown: Scene, rate: float) -> np.ndarray:
    """Of some vertices in the world."""
    (motion,) = shown.character.motions.values()
    some = np.arange(0, len(shown.character.surface.vertices), 997)
    poses, roots = motion.at(np.arange(0, motion.duration, 1 / rate))
    places = np.array([shown.character.rig.base(pose, some) for pose in poses])  # type: ignore[attr-defined]
    world = np.einsum("tij,tnj->tni", roots[:, :3, :3], places) + roots[:, None, :3, 3]
    return np.linalg.norm(np.diff(world, 2, axis=0), axis=2) * rate**2


def test_motions_visit_at_least_half_of_the_poses(shown: Scene) -> None:
    (motion,) = shown.character.motions.values()
    weights = shown.character.rig.pose_weights  # type: ignore[attr-defined]
    scaled = (motion.poses[:, None] - shown.poses[None]) * weights.scales
    gaps = np.linalg.norm(scaled, axis=2).min(axis=0)
    spread = np.linalg.norm((shown.poses - shown.poses[0]) * weights.scales, axis=1)
    assert (gaps[1:] < 0.5 * spread[1:]).mean() >= 0.5


def test_handles_and_bones_lie_inside(shown: Scene) -> None:
    surface = shown.character.surface
    for handle in shown.handles:
        assert handle.points.shape in ((1, 3), (2, 3))
    ends = np.concatenate([handle.points for handle in shown.handles])
    assert len(np.unique(ends, axis=0)) == len(ends)  # no two regions want the same place
    points = [point for handle in shown.handles for point in handle.points]
    points += [end for bone in shown.bones for end in (bone.start, bone.end)]
    winding = igl.fast_winding_number(surface.vertices, surface.triangles, np.array(points))
    assert (winding > 0.5).all()


def test_the_same_code_makes_the_same_bytes(tmp_path: Path) -> None:
    def stored(arrays: dict[str, np.ndarray]) -> bytes:
        user_cache._SCENES.write(tmp_path / "scene.npz", arrays)
        return (tmp_path / "scene.npz").read_bytes()

    assert stored(x_shape.sculpt()) == stored(x_shape.sculpt())
    # What the cache holds was made by another process, or at another time in this one.
    assert stored(cached_arrays("arm", arm.sculpt)) == stored(arm.sculpt())


def test_cache_keys_cover_code_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = Path(str(user_cache.files("supple")))
    assert all((packages / name).is_dir() for name in user_cache.BUILDING)
    (tmp_path / "scenes").mkdir()
    monkeypatch.setattr(user_cache, "files", lambda _: tmp_path)
    keys = set()
    for name in ("shape.py", "shape.json", "shape.pyc"):
        (tmp_path / "scenes" / name).write_text("1")
        keys.add(user_cache.code_hash.__wrapped__(("scenes",)))
    assert len(keys) == 2


def test_data_files_are_in_the_wheel() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "scenes/data/*.json" in project["tool"]["setuptools"]["package-data"]["supple"]
    assert scene_data("arm")["joints"]


def test_solids_are_read_with_remarks_rotations_and_mirror_images() -> None:
    points = np.array([[0.3, 0.1, 0.0], [-0.3, 0.1, 0.0]])
    both = solids_from([["both ball", [0.3, 0.1, 0.0], 0.2, "ears"]])
    assert [solid(points).round(12).tolist() for solid in both] == [[0.2, -0.4], [-0.4, 0.2]]
    (limb,) = solids_from([["limb", [0.3, 0.0, 0.0], [0.3, 0.2, 0.0], 0.1, 0.1]], -1.0)
    np.testing.assert_allclose(limb(points), [-0.5, 0.1])
    (tilted,) = solids_from([["ellipsoid", [0, 0, 0], [0.1, 0.1, 0.5], ["x", 90.0]]])
    np.testing.assert_allclose(tilted(np.array([[0.0, 0.5, 0.0]])), 0.0, atol=1e-12)
    with pytest.raises(KeyError):
        solids_from([["cone", [0, 0, 0], 0.1]])


def test_a_damaged_cache_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    calls: list[int] = []

    def make() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"a": np.arange(3.0), "b": np.eye(2, dtype=np.int64)}

    stale, foreign = tmp_path / f"toy-{'0' * 20}.npz", tmp_path / "toy-mine.npz"
    for file in (stale, foreign):
        file.write_bytes(b"")
    for _ in range(2):
        np.testing.assert_array_equal(cached_arrays("toy", make)["a"], [0, 1, 2])
    assert len(calls) == 1
    assert foreign.exists()
    assert not stale.exists()
    foreign.unlink()
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    damaged = [b"", b"PK\x03\x04", whole[:-40], whole.replace(np.float64(1).tobytes(), b"\0" * 8)]
    for number, data in enumerate(damaged):
        file.write_bytes(data)
        np.testing.assert_array_equal(cached_arrays("toy", make)["a"], [0, 1, 2])
        assert len(calls) == 2 + number
    assert file.read_bytes() == whole


def test_a_cache_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "evil.npz"
    np.savez(path, a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        user_cache._SCENES.read(path)


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "file" / "below"))
    assert cached_arrays("toy", lambda: {"a": np.ones(1)})["a"][0] == 1


def test_unknown_scenes_and_poses_are_named() -> None:
    with pytest.raises(SuppleError, match='no scene "gorila"; did you mean "gorilla"'):
        scene("gorila")
    with pytest.raises(SuppleError, match="arm, x, bear, gorilla, elephant"):
        scene("")
    with pytest.raises(SuppleError, match='x: no pose "upside down"; there are flat'):
        scene("x").pose("upside down")


def test_a_sheet_is_a_picture(tmp_path: Path) -> None:
    write_sheet("x", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SuppleError, match="cannot be written"):
        write_sheet("x", tmp_path / "missing" / "x.png")


def test_depths_are_distances() -> None:
    centre = np.array([[0.0, 0.0, 0.0]])
    along = np.array([[2.0, 0.0, 0.0]])
    assert ball((0, 0, 0), 1.5)(along)[0] == pytest.approx(-0.5)
    assert ellipsoid((0, 0, 0), (1, 2, 3))(centre)[0] == pytest.approx(1.0)
    assert ellipsoid((0, 0, 0), (2, 1, 3))(along)[0] == pytest.approx(0.0)
    assert ellipsoid((0, 0, 0), (1, 2, 1), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])(along)[0] == (
        pytest.approx(0.0)
    )
    cube = box((0, 0, 0), (1, 1, 1), 0.25)
    np.testing.assert_allclose(cube(np.array([[0, 0, 0], [2.0, 0, 0], [0.9, 0, 0]])), [1, -1, 0.1])
    assert cube(np.ones((1, 3)))[0] == pytest.approx(0.25 - 0.25 * np.sqrt(3))
    hollow = smooth_subtraction(ball((0, 0, 0), 1.0), ball((0, 0, 0), 0.5), 0.01)
    np.testing.assert_allclose(hollow(np.array([[0, 0, 0], [0.75, 0, 0]])), [-0.5, 0.25], atol=0.01)
    both = smooth_union([ball((0, 0, 0), 1.0), ball((3, 0, 0), 1.0)], 0.1)
    np.testing.assert_allclose(both(np.array([[0, 0, 0], [1.5, 0, 0]])), [1, -0.5], atol=0.02)


def test_relaxed_triangles_are_even_and_on_the_solid() -> None:
    solid = smooth_union([ball((0, 0, 0), 0.3), ball((0.3, 0.1, 0), 0.2)], 0.05)
    rough = polygonise(solid, [(-0.5, -0.5, -0.5), (0.7, 0.5, 0.5)], 0.04)
    even = relaxed(rough, solid)
    assert np.abs(solid(even.vertices)).max() < 1e-3
    quality = [mesh.areas().min() / mesh.areas().mean() for mesh in (rough, even)]
    assert quality[1] > 0.1 > quality[0]


def test_locked_channels_stay_locked() -> None:
    skeleton = Skeleton(["a", "b"], [-1, 0], [[0, 0, 0], [1, 0, 0]])
    partial = PartialJointPose(skeleton, ["b.rz", "a.tx"], translating=["a"])
    assert [parameter.name for parameter in partial.parameters] == ["b.rz", "a.tx"]
    pose = [[0.3, 0.2], [-0.4, 0.1]]
    np.testing.assert_allclose(partial.pack(*partial.unpack(pose)), pose, atol=1e-12)
    unlocked = JointPose(skeleton, translating=["a"])
    turned = np.zeros(unlocked.n_parameters)
    turned[1] = 0.5
    with pytest.raises(SuppleError, match="locked"):
        partial.pack(*unlocked.unpack(turned))
    for names, message in ((["b.rq"], 'no pose entry "b.rq"'), (["b.rz", "b.rz"], "twice")):
        with pytest.raises(SuppleError, match=message):
            PartialJointPose(skeleton, names)


def test_curves_are_smooth_and_pass_their_keys() -> None:
    line = Timeline(3.0, rate=100)
    curve = line.curve([(0.5, 0.0), (1.0, 2.0), (2.0, -1.0)])[:, 0]
    np.testing.assert_allclose(curve[[0, 50, 100, 200, 300]], [0, 0, 2, -1, -1], atol=1e-12)
    assert np.abs(np.diff(curve, 3)).max() * 100**2 < 10  # the acceleration does not jump
    roots = line.roots([(0, (0, 0, 0)), (3, (1, 2, 3))], [(0, 0), (3, 90)], [(0, 0), (3, 30)])
    np.testing.assert_allclose(roots[-1, :3, 3], [1, 2, 3])
    np.testing.assert_allclose(roots[-1] @ [0, 1, 0, 0], [0.5, np.sqrt(0.75), 0, 0], atol=1e-12)
    products = roots[:, :3, :3] @ roots[:, :3, :3].transpose(0, 2, 1)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(3), products.shape), atol=1e-12)
    for keys in ([], [(1.0, 0.0), (0.5, 0.0)], [(-1.0, 0.0)]):
        with pytest.raises(SuppleError, match="increasing times"):
            line.curve(keys)
    with pytest.raises(SuppleError, match="timeline"):
        Timeline(-1.0)


def test_relaxed_skin_of_a_rigid_motion_is_that_motion() -> None:
    solid = ellipsoid((0, 0, 0), (0.3, 0.2, 0.1))
    surface = polygonise(solid, [(-0.4, -0.3, -0.2), (0.4, 0.3, 0.2)], 0.05)
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    moved = surface.vertices @ turn.T + [1.0, 2.0, 3.0]
    np.testing.assert_allclose(SkinRelaxer(surface)(moved), moved, atol=1e-9)
