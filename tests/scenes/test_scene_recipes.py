"""Each scene says how it is reduced, and that is what the paper did."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from supple.anatomy.painted_material import pose_materials
from supple.elastic.body import ElasticBody
from supple.engines.common.pose_selection import resolve_poses
from supple.mesh.embedding import embed
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.rig.tets.bones import Bones, held_tets
from supple.scenes.characters.character_scene import PAPERS, Scene, scene

#: Material, modes in all, and of each region: xu2016 §9.
PUBLISHED = {
    "arm": ("stvk", 45, {"girdle": 15, "upper arm": 15, "forearm": 15}),
    "x": ("neo-hookean", 30, {"middle": 30}),
    "bear": (
        "stvk",
        100,
        {"head": 20, "body": 20, "arm.L": 15, "arm.R": 15, "leg.L": 15, "leg.R": 15},
    ),
    "gorilla": (
        "stvk",
        100,
        {"head": 20, "body": 20, "arm.L": 20, "arm.R": 20, "leg.L": 10, "leg.R": 10},
    ),
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


def test_recipes_are_the_papers(shown: Scene) -> None:
    kind, modes, by_region = PUBLISHED[shown.name]
    recipe = shown.recipe()
    assert recipe["material"].kind == kind
    named = {h.name: m for h, m in zip(recipe["regions"], recipe["modes"], strict=True)}
    assert named == by_region
    assert sum(recipe["modes"]) == modes == shown.paper.modes
    assert recipe["elastic_cubature"] <= shown.paper.elastic_cubature
    assert recipe["inertial_cubature"] == shown.paper.inertial_cubature
    assert recipe["tets"] == shown.paper.tets
    assert len(recipe["poses"]) == shown.paper.poses


def test_recipes_are_taken_as_they_are_and_flesh_swings_at_two_to_six_hertz(shown: Scene) -> None:
    recipe = shown.recipe()
    given = recipe["poses"]
    poses, names = resolve_poses(shown.character, given)
    np.testing.assert_array_equal(poses, shown.poses)
    assert names == shown.pose_names
    mesh = tetrahedralise(shown.character.surface, tets=recipe["tets"] // 4)
    assert isinstance(recipe["bones"], Bones)
    assert recipe["bones"].names == tuple(bone.name for bone in shown.bones)
    held = held_tets(recipe["bones"], shown.character.surface, mesh)
    assert 0 < len(held.vertices) < 0.4 * len(mesh.vertices)
    assert held.bones_inside == len(shown.bones)
    materials = pose_materials(
        recipe["material"],
        mesh,
        embed(shown.character.surface.vertices, mesh),
        len(poses),
        young=recipe["young"],
    )
    assert len(materials) == len(poses)
    frequencies = _lowest_frequencies(ElasticBody(mesh, materials[0]), held.vertices)
    assert frequencies.min() > 2
    assert frequencies.max() < 6


def _lowest_frequencies(body: ElasticBody, fixed: np.ndarray, count: int = 4) -> np.ndarray:
    """Hz, with the fixed vertices held."""
    free = np.setdiff1d(np.arange(len(body.rest)), fixed)
    unknowns = (3 * free[:, None] + np.arange(3)).ravel()
    stiffness = sp.csc_array(body.stiffness(body.rest))[unknowns][:, unknowns]
    mass = sp.diags_array(np.repeat(body.vertex_masses()[free], 3)).tocsc()
    squares = eigsh(stiffness, count, mass, sigma=0, return_eigenvectors=False, v0=mass.diagonal())
    return np.sqrt(squares) / (2 * np.pi)


def test_only_the_arm_is_painted() -> None:
    assert [name for name in PAPERS["xu2016"] if scene(name).young is not None] == ["arm"]


def test_the_arms_biceps_stiffens_as_the_elbow_bends() -> None:
    arm = scene("arm")
    young, rest = arm.young, arm.character.surface.vertices
    assert young is not None
    assert young.shape == (len(arm.poses), len(rest))
    assert young.min() > 1e3
    assert young.max() < 1e6
    muscle = np.argmin(np.linalg.norm(rest - [0.165, 0.08, 0.004], axis=1))
    order = np.argsort(arm.poses[:, 3])
    assert (np.diff(young[order, muscle]) > 0)[np.diff(arm.poses[order, 3]) > 0].all()
    flexed = arm.pose_names.index("flexed")
    assert young[flexed, muscle] > 3 * young[0, muscle]
    # The hand and the body do not take part.
    still = (rest[:, 0] > 0.62) | (rest[:, 0] < -0.1)
    np.testing.assert_allclose(young[flexed, still], young[0, still], rtol=0.01)
    # Smooth: neighbours on the skin differ little.
    a, b = arm.character.surface.triangles[:, :2].T
    assert np.abs(np.log(young[:, a] / young[:, b])).max() < 0.6
