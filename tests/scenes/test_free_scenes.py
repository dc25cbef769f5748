"""The elephant and the wrestler are what Hahn et al. 2013 had in size and kind, and are sound."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import igl
import numpy as np
import pytest

from helpers.build_samples import kept_scenes
from supple.engines.rig_space.build import build
from supple.engines.rig_space.free_parameters import free_entries
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.mesh.tets import TetMesh
from supple.rig.jacobian import DifferencedJacobian, rig_jacobian
from supple.rig.tets.skinned_tets import rig_on_tets
from supple.scenes.characters.character_scene import PAPERS, Scene, scene

#: Vertices, and parameters that are free, by group: hahn2013 §5.
PUBLISHED = {
    "elephant": (2089, {"trunk": 13, "belly": 36}),
    "sumo": (2269, {"belly": 90, "chest": 36, "cheeks": 30, "hair": 18}),
}


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


@pytest.fixture(params=PAPERS["hahn2013"])
def shown(request: pytest.FixtureRequest) -> Scene:
    return scene(request.param)


@cache
def filled(name: str) -> TetMesh:
    return tetrahedralise(scene(name).character.surface, tets=scene(name).tets)


def test_sizes_are_the_papers(shown: Scene) -> None:
    vertices, groups = PUBLISHED[shown.name]
    assert len(shown.character.surface.vertices) == vertices == shown.paper.tet_vertices
    assert len(filled(shown.name).vertices) == pytest.approx(vertices, rel=0.05)
    found = {
        group: len(free_entries(shown.character, names)) for group, names in shown.free.items()
    }
    assert found == groups


def test_surfaces_are_closed_outward_and_of_one_piece(shown: Scene) -> None:
    surface = shown.character.surface
    assert surface.defects() == []
    assert surface.components().max() == 0
    assert len(surface.vertices) - len(surface.triangles) // 2 == 2
    np.testing.assert_allclose(shown.character.rig(shown.poses[0]), surface.vertices, atol=1e-12)


def test_poses_hardly_enter_themselves_and_keep_their_volume(shown: Scene) -> None:
    triangles = shown.character.surface.triangles
    for name, pose in zip(shown.pose_names, shown.poses, strict=True):
        points = shown.character.rig(pose)
        edge = np.linalg.norm(points[triangles[:, 0]] - points[triangles[:, 1]], axis=1).mean()
        before = points + 0.15 * edge * vertex_normals(points, triangles)
        inside = np.abs(igl.fast_winding_number(points, triangles, before)) > 0.5
        assert inside.mean() < 0.02, name
        volume = SurfaceMesh(points, triangles).volume()
        assert volume == pytest.approx(shown.character.surface.volume(), rel=0.08), name


def test_no_tet_is_inverted_at_rest_and_few_in_motion(shown: Scene) -> None:
    mesh, character = filled(shown.name), shown.character
    carried = rig_on_tets(character.rig, character.surface, mesh)
    assert TetMesh(carried(carried.rest_pose), mesh.tets).volumes().min() > 0
    for motion in character.motions.values():
        for pose in motion.poses[::40]:
            volumes = TetMesh(carried(pose), mesh.tets).volumes()
            assert (volumes <= 0).mean() < 0.01, motion.name


def test_free_parameters_are_local_and_analytic(shown: Scene) -> None:
    rig, names = shown.character.rig, [name for free in shown.free.values() for name in free]
    entries = free_entries(shown.character, names)
    jacobian = rig_jacobian(rig, entries)
    assert not isinstance(jacobian, DifferencedJacobian)
    columns = np.empty((rig.n_vertices, 3, len(entries)))
    jacobian.evaluate(np.asarray(rig.rest_pose), columns)
    moved = (np.abs(columns) > 1e-9).any(axis=1)
    assert moved.any(axis=0).all()
    assert moved.mean() < {"elephant": 0.16, "sumo": 0.06}[shown.name]
    flat = columns.reshape(-1, len(entries))
    flat = flat / np.linalg.norm(flat, axis=0)
    assert np.linalg.eigvalsh(flat.T @ flat)[0] > 1e-5  # none does what others do


def test_no_motion_keys_what_is_free_and_none_jolts(shown: Scene) -> None:
    names = [name for free in shown.free.values() for name in free]
    entries, character = free_entries(shown.character, names), shown.character
    some = np.arange(0, len(character.surface.vertices), 97)
    for motion in character.motions.values():
        assert np.abs(motion.poses[:, entries]).max() == 0
        fastest = []
        for rate in (120, 480):
            poses, roots = motion.at(np.arange(0, motion.duration, 1 / rate))
            places = np.array([character.rig(pose, some) for pose in poses])
            world = np.einsum("tij,tnj->tni", roots[:, :3, :3], places) + roots[:, None, :3, 3]
            fastest.append(np.linalg.norm(np.diff(world, 2, axis=0), axis=2).max() * rate**2)
        assert 1 < fastest[1] < 120
        assert fastest[1] < 1.25 * fastest[0]


def test_the_walk_is_a_loop_and_the_toss_is_more_violent_than_the_nod() -> None:
    motions = scene("elephant").character.motions
    walk = motions["walk"]
    np.testing.assert_allclose(walk.poses[0], walk.poses[-1], atol=1e-12)
    np.testing.assert_allclose(walk.poses[1] - walk.poses[0], walk.poses[-120] - walk.poses[-121])
    assert np.ptp(walk.roots[:, 2, 3]) > 2
    speed = {
        name: np.abs(np.diff(motion.poses, axis=0)).max() / np.diff(motion.times)[0]
        for name, motion in motions.items()
    }
    assert speed["toss"] > 5 * speed["nod"]


def built(name: str, groups: list[str], tets: int) -> RigSpaceModel:
    shown = scene(name)
    free = [pattern for group in groups for pattern in shown.free[group]]
    small = {"tets": tets, "modes": 4, "cubature": 90, "free": free}
    return build(shown.character, **(shown.recipe("rig-space") | small))


def test_the_trunk_swings_and_settles() -> None:
    model, motion = built("elephant", ["trunk"], 2000), scene("elephant").character.motions["toss"]
    simulator = RigSpaceSimulator(model)
    tip, far = len(model.entries) - 3, []
    for time in np.arange(1, 5.5 * 90) / 90:
        state = simulator.step(*motion.at(min(time, motion.duration)))
        assert state.limits == ()
        far.append(float(np.abs(simulator.coordinates[tip : tip + 3]).max()))
    assert 0.15 < max(far) < 0.9  # metres, inside of its bounds
    assert max(far[-15:]) < 0.25 * max(far)


def test_cheeks_wobble_within_their_bounds() -> None:
    model, motion = built("sumo", ["cheeks"], 3000), scene("sumo").character.motions["shiko"]
    assert (model.lower == -1).all()
    simulator = RigSpaceSimulator(model)
    simulator.reset(*motion.at(2.9))
    far = []
    for time in np.arange(2.9, motion.duration, 1 / 90):
        simulator.step(*motion.at(time))
        far.append(float(np.abs(simulator.coordinates[: len(model.entries)]).max()))
    assert 0.1 < max(far) <= 1
    assert max(far[-10:]) < 0.2 * max(far)


def test_scenes_of_other_papers_take_free_names_too() -> None:
    x = scene("x")
    recipe = x.recipe("rig-space") | {"tets": 1000, "modes": 0, "cubature": 60}
    (only,) = x.character.rig.parameters
    model = build(x.character, free=[only.name], **recipe)
    assert model.free_parameters == (only,)
    assert len(model.held) > 5
