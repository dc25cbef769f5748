"""Cubature of flesh: few tets whose forces are those of all."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.linalg

import supple
from helpers.soft_skeleton_samples import elbow, soft_skeleton_options
from supple.elastic.material import Material
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.cubature import (
    MOST_PRESSED,
    FleshInCoordinates,
    fitted_cubature,
    flesh_samples,
    integrated_coordinates,
    lloyd_centres,
    oblivious_cubature,
)
from supple.engines.soft_skeleton.flesh.deformation_bases import (
    handle_weights,
    three_coordinates,
)
from supple.engines.soft_skeleton.flesh.flesh_energy import add_flesh_terms, rest_stiffness
from supple.engines.soft_skeleton.flesh.handles import farthest_handles
from supple.engines.soft_skeleton.flesh.soft_layer import flesh_layer
from supple.errors import SuppleError
from supple.scenes.bodies.beam import beam
from supple.scenes.characters.character_scene import scene


@cache
def flesh():
    """An arm of 12 handles and 810 tets."""
    arm = elbow((15, 3, 3))
    layer = flesh_layer(arm, RigBones(arm.rig), beam(cells=(15, 3, 3)), None, None)
    at = farthest_handles(layer.mesh, layer.outer, 12)
    return layer, three_coordinates(handle_weights(layer.mesh, layer.held, at)), at


def test_forces_at_unseen_deformations_are_those_of_all_tets():
    layer, shapes, _ = flesh()
    found = fitted_cubature(layer, shapes, 100, 0)
    assert len(found.tables.volumes) == 100 < len(layer.soft) / 7
    assert found.error < 0.25
    assert found.tables.volumes.min() > 0
    few = rest_stiffness(layer.material, found.tables, len(found.stiffness))
    ratios = scipy.linalg.eigh(few, found.stiffness, eigvals_only=True)
    assert ratios[0] > 0.05
    assert ratios[-1] < 4
    more = fitted_cubature(layer, shapes, 200, 0)
    assert more.error < found.error


def test_all_tets_stand_for_themselves():
    layer, shapes, _ = flesh()
    found = fitted_cubature(layer, shapes, 10**6, 0)
    assert found.error < 1e-12


def test_ours_misses_less_than_the_papers_whatever_its_sampling():
    layer, shapes, at = flesh()
    ours = fitted_cubature(layer, shapes, 100, 0).error
    for sampling in ("uniform", "importance", "colocated"):
        assert oblivious_cubature(layer, shapes, at, 100, 0, sampling).error > 1.5 * ours


def test_integrated_coordinates_add_up_to_the_volume():
    mesh = beam(cells=(6, 3, 3))
    quarters = np.repeat(mesh.volumes() / 4, 4)
    volumes = np.asarray(np.bincount(mesh.tets.ravel(), quarters), np.float64)
    points = np.array([0, 5, 30, 60, 80, 110])
    found = integrated_coordinates(mesh, volumes, points)
    assert found.sum() == pytest.approx(volumes.sum())


def test_samples_press_the_skin_by_a_part_of_the_flesh():
    layer, shapes, _ = flesh()
    whole = FleshInCoordinates.of(layer, shapes)
    phis = flesh_samples(layer, shapes, whole.stiffness, 30, 3)
    moved = np.stack([each[layer.outer] @ phis.T for each in shapes])
    deep = np.linalg.norm(moved, axis=0).max(axis=0)
    bone = layer.mesh.vertices[layer.held]
    away = np.linalg.norm(layer.mesh.vertices[layer.outer][:, None] - bone, axis=2).min(axis=1)
    assert (deep > 0).all()
    assert deep.max() <= MOST_PRESSED * away.max()
    others = flesh_samples(layer, shapes, whole.stiffness, 30, 4)
    assert np.abs(others - phis).max(axis=1).min() > 0


def test_centres_are_spread_by_weight():
    places = np.column_stack([np.linspace(0, 1, 1000), np.zeros((1000, 2))])
    matters = np.where(places[:, 0] < 0.5, 9.0, 1.0)
    nearest, owner = lloyd_centres(places, matters, 20, 0)
    assert len(nearest) == 20
    assert (owner[nearest] == np.arange(20)).all()
    assert (places[nearest, 0] < 0.5).sum() >= 12


def test_an_unknown_method_is_refused_in_one_line():
    with pytest.raises(SuppleError, match=r"cubature_method 'papper'; did you mean"):
        supple.build(
            elbow(), engine="soft-skeleton", **soft_skeleton_options(cubature_method="papper")
        )


def test_the_papers_cubature_builds_and_saves(tmp_path):
    options = soft_skeleton_options(cubature_method="paper")
    model = supple.build(elbow(), engine="soft-skeleton", **options)
    model.save(tmp_path / "a.supple")
    assert supple.load_model(tmp_path / "a.supple").error == model.error


@cache
def layer_of(name: str):
    """Flesh and handles of a scene, coarse."""
    body = scene(name).character
    layer = flesh_layer(body, RigBones(body.rig), 1_500, None, None)
    at = farthest_handles(layer.mesh, layer.outer, 24)
    return layer, three_coordinates(handle_weights(layer.mesh, layer.held, at))


@pytest.mark.parametrize("kind", ["saturating", "neo-hookean", "stvk", "orthotropic"])
@pytest.mark.parametrize("name", ["hand", "human"])
def test_flesh_at_rest_is_stiff_in_every_direction_for_any_material(name, kind):
    layer, shapes = layer_of(name)
    made = replace(layer, material=Material(kind, young=1e4, poisson=0.45))
    found = fitted_cubature(made, shapes, 120, 0)
    size = len(found.stiffness)
    gradient, hessian = np.zeros(size), np.zeros((size, size))
    add_flesh_terms(made.material.code, 1.0, found.tables, np.zeros(size), 0, gradient, hessian, 2)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    np.linalg.cholesky(hessian, upper=True)  # without anything added to its diagonal
    low = scipy.linalg.eigvalsh(np.triu(hessian) + np.triu(hessian, 1).T, found.stiffness)[0]
    assert low > 0.2
