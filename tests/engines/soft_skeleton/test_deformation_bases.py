"""Bases of flesh: handles, the paper's, interior ones, modes and elastic answers."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import supple
from helpers.soft_skeleton_samples import elbow, soft_skeleton_options
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.deformation_bases import (
    BASES,
    handle_weights,
    precise_energy,
)
from supple.engines.soft_skeleton.flesh.handles import Handles
from supple.engines.soft_skeleton.flesh.soft_layer import flesh_layer
from supple.errors import SuppleError
from supple.scenes.bodies.beam import beam


@cache
def layer():
    arm = elbow((12, 4, 4))
    return flesh_layer(arm, RigBones(arm.rig), beam(cells=(12, 4, 4)), None, None)


@pytest.mark.parametrize("name", BASES)
def test_a_basis_has_three_coordinates_a_handle_and_leaves_bone_alone(name):
    flesh = layer()
    shapes, at = BASES[name](flesh, 10, None)
    assert len(at) == 10
    for each in shapes:
        assert each.shape == (len(flesh.mesh.vertices), 30)
        assert np.array_equal(each.indices, shapes[0].indices)
        assert not each[flesh.held].data.any()
    columns = np.concatenate([each.toarray() for each in shapes])
    assert np.linalg.matrix_rank(columns) == 30


def test_weights_are_1_at_a_handle_and_0_at_others_and_fade():
    flesh = layer()
    at = BASES["handles"](flesh, 10, None).handles
    weights = handle_weights(flesh.mesh, flesh.held, at).toarray()
    np.testing.assert_allclose(weights[at], np.eye(10), atol=1e-12)
    small = np.abs(weights[weights != 0])
    assert small.min() < 0.05
    assert np.isin(at, flesh.outer).all()


def test_the_papers_energy_is_linearly_precise():
    mesh = beam(cells=(6, 3, 3))
    energy = precise_energy(mesh)
    assert np.abs(energy @ mesh.vertices).max() < 1e-8 * np.abs(energy.data).max()
    bent = energy @ mesh.vertices**2
    assert np.abs(bent).max() > 1e-5 * np.abs(energy.data).max()


def test_elastic_answers_are_softer_than_handles_under_a_push():
    """Work of loads, uᵀf with u the answer within a basis, is at most that of all tets."""
    flesh = layer()
    stiffness = flesh.body.stiffness(flesh.body.rest)
    places = flesh.outer[::9]
    load = np.zeros((3 * len(flesh.mesh.vertices), len(places)))
    load[3 * places + 1, np.arange(len(places))] = -1.0
    work = {}
    for name in ("handles", "responses", "interior", "modal"):
        shapes, _ = BASES[name](flesh, Handles(24, mirror=False), None)
        U = np.zeros((len(load), 72))
        for i, each in enumerate(shapes):
            U[i::3] = each.toarray()
        pull = U.T @ load
        work[name] = float((pull * np.linalg.solve(U.T @ (stiffness @ U), pull)).sum())
    assert all(value > 0 for value in work.values())
    assert work["responses"] > 0.5 * work["handles"]


def test_handles_are_denser_in_the_requested_parts():
    options = soft_skeleton_options(handles=20)
    even = supple.build(elbow(), engine="soft-skeleton", **options)
    hand = supple.build(elbow(), engine="soft-skeleton", denser={"fore*": 4}, **options)
    far = [(m.surface.vertices[m.handles, 0] > 0.5).sum() for m in (even, hand)]
    assert far[1] > far[0] + 3
    painted = np.where(elbow().surface.vertices[:, 0] > 0.5, 4.0, 1.0)
    same = supple.build(elbow(), engine="soft-skeleton", denser=painted, **options)
    assert (same.surface.vertices[same.handles, 0] > 0.5).sum() > far[0] + 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"basis": "modes"}, "no basis 'modes'; did you mean \"modal\""),
        ({"denser": {"for": 2}}, "no bone 'for'; did you mean \"fore\""),
        ({"denser": {"fore": -2}}, "`denser` must be positive, not -2"),
        ({"denser": [1.0, 2.0]}, "denser"),
    ],
)
def test_missing_bases_are_refused_in_one_line(options, said):
    with pytest.raises(SuppleError, match=said) as refused:
        supple.build(elbow(), engine="soft-skeleton", **soft_skeleton_options(**options))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["modal", "responses"])
def test_any_basis_is_stepped_and_saved(name, tmp_path):
    model = supple.build(elbow(), engine="soft-skeleton", **soft_skeleton_options(basis=name))
    model.save(tmp_path / "arm.supple")
    simulators = [
        supple.Simulator(each) for each in (model, supple.load_model(tmp_path / "arm.supple"))
    ]
    tip = int(model.surface.vertices[:, 0].argmax())
    for simulator in simulators:
        for _ in range(3):
            assert simulator.step(forces={tip: [0.0, 1.0, 0.0]}).limits == ()
    np.testing.assert_array_equal(simulators[0].surface(), simulators[1].surface())
