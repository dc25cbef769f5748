"""Bodies are built on their anatomy: bone inside, no tets across gaps, props apart."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.sample_bodies import BodyParts, bending, figure, rod, with_box
from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.body_plan import (
    BodyPlan,
    anatomical_material,
    plan_body,
    without_bridges,
)
from supple.anatomy.flesh_firmness import HeldBody
from supple.anatomy.loose_parts import RIDING
from supple.mesh.embedding import embed, embed_parts, part_set
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.tets import TetMesh
from supple.playback.bake_model import model_options
from supple.playback.baking import bake
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.tets.surface_samples import typical_edge

SMALL: dict[str, Any] = {"tets": 1500, "modes": 12, "most_poses": 2, "anatomy": "auto"}


def arm(scale: float = 1.0) -> Character:
    """Two bones and a hand that bends."""
    parts = BodyParts()
    parts.joint("upperarm.L", None, (0, 0, 0))
    parts.joint("forearm.L", "upperarm.L", (0.3, 0, 0))
    parts.joint("hand.L", "forearm.L", (0.6, 0, 0))
    radii = [0.07] * 12 + [0.05] * 8
    parts.skin(rod((-0.05, 0, 0), (0.8, 0, 0), radii), ["upperarm.L", "forearm.L", "hand.L"], 0.08)
    return bending(parts.character("arm", scale=scale), "forearm.L", 0.6)


@pytest.fixture(scope="module")
def plan() -> BodyPlan:
    return plan_body(with_box(figure()).character(), 3000)


def nearest_joint(plan: BodyPlan, points: np.ndarray) -> np.ndarray:
    skin = plan.anatomy.surface.vertices
    near = np.linalg.norm(points[:, None] - skin[None], axis=2).argmin(axis=1)
    return np.array(plan.anatomy.joints)[plan.anatomy.region[near]]


def test_hands_are_held_whole_and_the_trunk_is_not(plan: BodyPlan):
    joint = nearest_joint(plan, plan.mesh.vertices)
    held = np.zeros(len(plan.mesh.vertices), bool)
    held[plan.held] = True
    assert held[joint == "hand.R"].mean() > 0.95
    assert held[np.isin(joint, ("hips", "chest"))].mean() < 0.5


def test_tets_deep_in_a_limb_are_bone(plan: BodyPlan):
    depth = plan.anatomy.balls.depth(plan.mesh.vertices)
    thickness = plan.anatomy.balls.thickness(plan.mesh.vertices)
    deep = depth > 0.9 * thickness
    assert np.isin(np.flatnonzero(deep), plan.held).all()


def test_a_prop_has_tets_of_its_own_that_are_all_held(plan: BodyPlan):
    own = plan.mesh.sets[RIDING]
    corners = np.unique(plan.mesh.tets[own])
    assert len(own) > 0
    assert np.isin(corners, plan.held).all()
    others = np.delete(np.arange(len(plan.mesh.tets)), own)
    assert not np.isin(corners, plan.mesh.tets[others]).any()


def test_a_prop_has_one_tet_no_larger_than_those_of_flesh(plan: BodyPlan):
    own = plan.mesh.sets[RIDING]
    props = np.unique(plan.anatomy.part[plan.anatomy.riding])
    assert len(own) == len(props) > 0
    volumes = plan.mesh.volumes()
    assert volumes[own].max() < 2 * np.delete(volumes, own).mean()


def long_body(spear: float) -> Character:
    """Flesh on three joints, and a spear of some length beside it."""
    parts = BodyParts()
    for k in range(3):
        parts.joint(f"j{k}", f"j{k - 1}" if k else None, (0, 0.6 * k, 0))
    parts.joint("spear", "j1", (0.4, 0.6, 0))
    parts.skin(rod((0, -0.2, 0), (0, 1.6, 0), [0.2] * 10), ["j0", "j1", "j2"], 0.1)
    low, high = 0.6 - 0.5 * spear, 0.6 + 0.5 * spear
    parts.skin(rod((0.4, low, 0), (0.4, high, 0), [0.02] * 6), ["spear"], 0.1)
    return parts.character()


def test_flesh_does_not_depend_on_the_length_of_a_spear():
    """Cells and sag are those of flesh; the spear's tet was once as long as it."""
    short, long = (plan_body(long_body(spear), 800) for spear in (0.4, 2.0))
    assert abs(typical_edge(long.mesh) / typical_edge(short.mesh) - 1) < 0.05
    soft = long.anatomy.surface.vertices[~long.anatomy.hard]
    body = HeldBody(long.anatomy, long.mesh, long.held, anatomical_material(long.anatomy))
    sag = body.sag(long.factors, soft)
    assert np.median(sag) > 1e-3 * sag.max() > 0


@pytest.mark.parametrize("tets", [50, 300])
@pytest.mark.parametrize("rigid", [0.0, 1.0])
def test_something_holds_a_body_without_joints_however_coarse_or_hard(tets: int, rigid: float):
    parts = BodyParts()
    parts.joint("world", None, (0, 0, 0))
    parts.skin(rod((0, 0, 0), (0, 1, 0), [0.3] * 8), ["world"], 0.1)
    character = parts.character()
    painted = {"rigid": np.full(len(character.surface.vertices), rigid)}
    held = plan_body(replace(character, painted=painted), tets).held
    assert len(held) >= 4


def test_bone_that_is_a_line_does_not_let_flesh_turn_about_it():
    parts = BodyParts()
    for k in range(3):
        parts.joint(f"j{k}", f"j{k - 1}" if k else None, (0, 0.4 * k, 0))
    parts.skin(rod((0, -0.2, 0), (0, 1.2, 0), [0.1] * 10), ["j0", "j1", "j2"], 0.1)
    found = plan_body(parts.character(), 600)
    middle = found.mesh.vertices[found.held]
    away = np.linalg.norm(middle[:, [0, 2]] - middle[:, [0, 2]].mean(axis=0), axis=1)
    assert away.max() > 0.02


def test_a_body_without_joints_has_a_core_that_follows_the_rig():
    parts = BodyParts()
    parts.joint("world", None, (0, 0, 0))
    parts.skin(rod((0, 0, 0), (0, 1, 0), [0.3] * 8), ["world"], 0.1)
    found = plan_body(parts.character(), 1500)
    depth = found.anatomy.balls.depth(found.mesh.vertices[found.held])
    assert 0 < len(found.held) < 0.8 * len(found.mesh.vertices)
    assert depth.min() > 0.05


def test_skin_is_carried_by_tets_of_its_own_part_though_others_are_nearer():
    parts = BodyParts()
    parts.joint("a", None, (0, 0, 0))
    shape = rod((0, 0, 0), (1, 0, 0), [0.1] * 4)
    parts.skin(shape, ["a"], 0.1)
    parts.skin((shape[0] + [0, 0.02, 0], shape[1]), ["a"], 0.1)
    surface = parts.character().surface
    body = tetrahedralise(surface, tets=400)
    twice = TetMesh(
        np.concatenate([body.vertices, body.vertices]),
        np.concatenate([body.tets, body.tets + len(body.vertices)]),
        {
            part_set([0]): np.arange(len(body.tets)),
            part_set([1]): len(body.tets) + np.arange(len(body.tets)),
        },
    )
    owners = np.arange(len(surface.vertices))
    matrix = embed_parts(surface, surface.vertices, owners, twice)
    np.testing.assert_allclose(matrix @ twice.vertices, surface.vertices, atol=1e-9)
    second = matrix.indices.reshape(-1, 4) >= len(body.vertices)
    assert (second.all(axis=1) == (owners >= len(shape[0]))).all()


def test_a_mesh_without_parts_is_embedded_as_ever():
    surface = arm().surface
    mesh = tetrahedralise(surface, tets=300)
    owners = np.arange(len(surface.vertices))
    ours, theirs = (
        embed_parts(surface, surface.vertices, owners, mesh),
        embed(surface.vertices, mesh),
    )
    np.testing.assert_array_equal(ours.data, theirs.data)
    np.testing.assert_array_equal(ours.indices, theirs.indices)


def two_fingers() -> Character:
    """Two rods side by side on one base, nearer than a cell; one bends away."""
    parts = BodyParts()
    parts.joint("base", None, (-0.2, 0, 0))
    parts.joint("one", "base", (0, 0.055, 0))
    parts.joint("other", "base", (0, -0.055, 0))
    parts.skin(rod((-0.3, 0, 0), (0.02, 0, 0), [0.15] * 5), ["base"], 0.1)
    for name, y in (("one", 0.055), ("other", -0.055)):
        parts.skin(rod((-0.1, y, 0), (0.8, y, 0), [0.05] * 14), ["base", name], 0.1)
    return parts.character("fingers")


def test_tets_between_skin_that_moves_apart_are_taken_out():
    still = two_fingers()
    moving = bending(still, "one", 0.7)
    anatomy = anatomy_of(moving)
    mesh = tetrahedralise(moving.surface, cell=0.1)
    cut = without_bridges(moving, mesh, anatomy)
    across = between(mesh)
    assert across > 0
    assert len(cut.tets) < len(mesh.tets)
    assert between(cut) < 0.2 * across
    assert without_bridges(still, mesh, anatomy_of(still)) is mesh


def between(mesh: TetMesh) -> int:
    """Tets that reach from one finger to the other, away from the base."""
    corners = mesh.vertices[mesh.tets]
    y, x = corners[:, :, 1], corners[:, :, 0].min(axis=1)
    return int(((y.max(axis=1) > 0.01) & (y.min(axis=1) < -0.01) & (x > 0.2)).sum())


@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_stiffness_goes_with_the_square_of_the_size(scale: float):
    usual, scaled = (anatomical_material(anatomy_of(arm(size))) for size in (1.0, scale))
    assert float(np.asarray(scaled.young)) / float(np.asarray(usual.young)) == pytest.approx(
        scale**2, rel=0.01
    )


def displacements(baked: BakedMotion) -> np.ndarray:
    """(t, n̄, 3) flesh beside the rig."""
    rigs = [baked.rig_frame(frame) for frame in range(baked.n_frames)]
    return baked.frames - np.stack(rigs)


@cache
def arm_flesh(size: float) -> np.ndarray:
    """Displacements of an arm of some size, baked."""
    # Nearly all tets are cubature, so it does not matter which: with 36 of 1,500, a rounding in
    # the choice of them moved flesh by up to 9 % of the peak.
    many: dict[str, Any] = {**SMALL, "tets": 500, "modes": 8}
    many |= {"elastic_cubature": 240, "inertial_cubature": 80}
    return displacements(bake(arm(size), rate=15.0, **many))


@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_a_scaled_character_moves_alike(scale: float):
    """Gravity and the limits on acceleration go with the size, as stiffness does."""
    ours, theirs = (arm_flesh(size) / size for size in (1.0, scale))
    peak = np.abs(ours).max()
    assert peak > 1e-4
    np.testing.assert_allclose(theirs, ours, atol=0.003 * peak)


def test_a_hand_does_not_wobble_and_an_arm_does():
    character = arm()
    anatomy: Anatomy = anatomy_of(character)
    baked = bake(character, rate=15.0, **SMALL)
    peak = np.linalg.norm(displacements(baked), axis=2).max(axis=0)
    assert peak[anatomy.hard].max() < 0.003 * character.surface.size
    assert peak[~anatomy.hard].max() > 2 * peak[anatomy.hard].max()


def test_flesh_is_firmer_where_motions_would_swing_it_through_itself_and_only_there():
    calm, wild = arm(), arm()
    wild = bending(wild, "forearm.L", 0.6, seconds=0.2)
    firm = [plan_body(each, 1500).factors for each in (calm, wild)]
    grown = firm[1] / firm[0]
    assert grown.max() > 1.5
    assert grown.min() < 1.05


def test_no_anatomy_is_what_it_was_before():
    character = arm()
    options = model_options(character, tets=500, anatomy=None)
    assert options["tets"] == 500
    assert "bones" not in options
    found = model_options(character, anatomy="auto", tets=500)
    assert isinstance(found["tets"], TetMesh)
    assert len(found["bones"]) > 0
