"""Handles of soft skeletons: chosen by hand, mirrored, and refused where there is no flesh."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.spatial import cKDTree

import supple
from helpers.soft_skeleton_samples import elbow, soft_skeleton_options
from supple.elastic.material import Material
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.fibres import ALONG, fibre_axes, with_fibres
from supple.engines.soft_skeleton.flesh.handles import Handles, handle_vertices
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer, flesh_layer
from supple.errors import SuppleError
from supple.rig.skeleton.skinning import skinned_rigs
from supple.scenes.characters.character_scene import scene


@cache
def person() -> FleshLayer:
    character = scene("human").character
    return flesh_layer(character, RigBones(character.rig), 3_000, None, None)


def mirror_distance(points) -> np.ndarray:
    """Distance of each point's mirror image in x from the nearest of the points."""
    away = np.linalg.norm((points * [-1, 1, 1])[:, None] - points[None], axis=2)
    return away.min(axis=1)


def test_spread_handles_are_the_same_on_both_sides():
    layer = person()
    for count in (24, 25, 60):
        at = handle_vertices(layer, count, None)
        alone = handle_vertices(layer, Handles(count, mirror=False), None)
        assert len(np.unique(at)) == len(np.unique(alone)) == count
        places = layer.mesh.vertices
        # Not exactly: the skin itself differs by up to 18 mm from side to side.
        assert np.median(mirror_distance(places[at])) < 0.004
        assert np.quantile(mirror_distance(places[at]), 0.95) < 0.05
        assert np.median(mirror_distance(places[alone])) > 0.02


def test_handles_chosen_on_one_side_are_repeated_on_the_other():
    layer = person()
    nearest = cKDTree(layer.mesh.vertices[layer.outer]).query(layer.skin)
    soft = nearest[0] < 0.02  # hard skin, such as the head, has no handles
    left = np.flatnonzero((layer.skin[:, 0] > 0.1) & soft)
    left = left[np.unique(nearest[1][left], return_index=True)[1]][::20]
    at = handle_vertices(layer, Handles(vertices=left), None)
    places = layer.mesh.vertices[at]
    assert len(at) == 2 * len(left)
    assert (places[:, 0] > 0).sum() == (places[:, 0] < 0).sum() == len(left)
    assert len(handle_vertices(layer, Handles(vertices=left, mirror=False), None)) == len(left)
    as_points = handle_vertices(layer, Handles.of(layer.skin[left]), None)
    np.testing.assert_array_equal(np.sort(as_points), np.sort(at))


def test_a_model_has_the_handles_that_were_chosen():
    arm = elbow()
    chosen = np.flatnonzero(np.abs(arm.surface.vertices[:, 0] - 0.75) < 0.01)[::4]
    model = supple.build(
        arm,
        engine="soft-skeleton",
        **soft_skeleton_options(handles=Handles(vertices=chosen, mirror=False)),
    )
    assert set(model.handles) == set(chosen)
    assert len(model.stiffness) == 3 * len(chosen)


@pytest.mark.parametrize(
    ("handles", "said"),
    [
        (0, "handles"),
        ([], "empty"),
        ([10**6], "vertex 1000000 does not exist"),
        ([[9.0, 9.0, 9.0]], "from soft skin"),
        ([[np.nan, 0, 0]], "finite"),
        ([3, 3], "same vertex of the tets"),
        ("many", "handles"),
    ],
)
def test_wrong_handles_are_refused_in_one_line(handles, said):
    with pytest.raises(SuppleError, match=said) as refused:
        supple.build(elbow(), engine="soft-skeleton", **soft_skeleton_options(handles=handles))
    assert "\n" not in str(refused.value)


def test_fibres_run_along_the_bones():
    layer = person()
    bones = RigBones(scene("human").character.rig)
    (rig,) = skinned_rigs(scene("human").character.rig)
    axes = fibre_axes(rig, tuple(bones.names), layer.weights, layer.mesh)
    np.testing.assert_allclose(
        np.einsum("tij,tik->tjk", axes, axes), np.tile(np.eye(3), (len(axes), 1, 1)), atol=1e-9
    )
    middles = layer.mesh.vertices[layer.mesh.tets].mean(axis=1)
    upper_arm = (
        (np.abs(middles[:, 0]) > 0.3) & (np.abs(middles[:, 0]) < 0.5) & (middles[:, 1] > 1.2)
    )
    assert np.abs(axes[upper_arm, 0, 0]).min() > 0.9  # arms are spread along x
    made = with_fibres(
        Material("saturating", young=2e4), rig, tuple(bones.names), layer.weights, layer.mesh
    )
    young = np.asarray(made.young)
    assert young.shape == (len(axes), 3)
    np.testing.assert_allclose(np.prod(young, axis=1) ** (1 / 3), 2e4)
    assert (young[:, 0] == ALONG * 2e4).all()


def test_a_saturating_model_is_stiffer_along_its_fibres():
    plain, fibrous = (
        supple.build(
            elbow(),
            engine="soft-skeleton",
            **soft_skeleton_options(material=material, cubature=10**6),
        )
        for material in (
            Material("saturating", young=(2e4, 2e4, 2e4), axes=np.eye(3)),
            Material("saturating", young=2e4),
        )
    )
    # The arm is along x: fibres make it stiffer there, and softer across.
    stretch, squeeze = (
        np.diag(fibrous.stiffness)[axis::3].sum() / np.diag(plain.stiffness)[axis::3].sum()
        for axis in (0, 1)
    )
    assert stretch > 1.1 * squeeze
