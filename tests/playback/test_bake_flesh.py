"""How soft flesh is where nobody says it: thin parts hold, and violent motions do not squash it."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.build_samples import MATERIAL, bar_mesh, bar_options, bending_bar, jointed_arm
from supple.anatomy.flesh_presets import flesh_material
from supple.anatomy.thickness import STIFFEST, slender_factors, thickness
from supple.errors import SuppleWarning
from supple.mesh.surface import SurfaceMesh
from supple.playback.bake_model import model_options
from supple.playback.baking import bake
from supple.playback.take import STIFFER
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

CELLS = (12, 2, 2)


def box(size: tuple[float, float, float], cells: tuple[int, int, int] = (12, 2, 12)) -> SurfaceMesh:
    """A box from the origin on, its faces cut into triangles."""
    surface, _ = bar_mesh(cells).surface()
    low, high = surface.vertices.min(axis=0), surface.vertices.max(axis=0)
    return SurfaceMesh((surface.vertices - low) / (high - low) * size, surface.triangles)


def on_a_bone(surface: SurfaceMesh, place: tuple[float, float, float]) -> Character:
    """Held by a short bone there."""
    skeleton = Skeleton(["bone", "end"], [-1, 0], [list(place), [0.02, 0.0, 0.0]])
    count = len(surface.vertices)
    bind = np.linalg.inv(skeleton.rest_world())
    joints, weights = np.zeros((count, 1), int), np.ones((count, 1))
    rig = SkinnedRig(JointPose(skeleton), surface.vertices, joints, weights, bind)
    return Character("held", surface, rig)


@pytest.mark.parametrize("thin", [0.05, 0.2, 0.8])
def test_the_thickness_of_a_plate_is_how_thick_it_is(thin):
    found = thickness(box((1.0, thin, 1.0)))
    # From the rim the way through is the way across; most places are no rim.
    assert np.median(found) == pytest.approx(thin, rel=1e-6)
    assert found.min() == pytest.approx(thin, rel=1e-6)


def test_skin_below_cloth_does_not_make_a_body_thin():
    body, cloth = box((1.0, 1.0, 1.0), (6, 6, 6)), box((1.02, 1.02, 1.02), (6, 6, 6))
    both = SurfaceMesh(
        np.concatenate([body.vertices, cloth.vertices - 0.01]),
        np.concatenate([body.triangles, cloth.triangles + len(body.vertices)]),
    )
    assert thickness(both).min() > 0.99


def test_a_plate_is_stiffer_the_farther_it_reaches_from_its_bone():
    plate = box((1.0, 0.04, 0.3))
    character = on_a_bone(plate, (0.0, 0.02, 0.15))
    factors = slender_factors(character)
    assert factors is not None
    along = plate.vertices[:, 0]
    near, middle, far = (factors[np.abs(along - x) < 0.05].max() for x in (0.0, 0.25, 1.0))
    assert near < middle < far == STIFFEST
    assert middle > 10
    young = np.asarray(model_options(character, anatomy=None)["young"])
    np.testing.assert_allclose(
        young, factors * float(np.max(flesh_material(plate.size).young)), rtol=1e-5
    )


def test_thick_bodies_and_given_stiffness_are_left_as_they_are():
    assert slender_factors(on_a_bone(box((1.0, 1.0, 1.0)), (0.5, 0.5, 0.5))) is None
    assert "young" not in model_options(jointed_arm(), anatomy=None)
    plate = on_a_bone(box((1.0, 0.04, 0.3)), (0.0, 0.02, 0.15))
    assert "young" not in model_options(plate, young=2e4)
    assert "young" not in model_options(plate, material=MATERIAL)
    count = len(plate.surface.vertices)
    twice = np.asarray(model_options(plate, stiffness=np.full(count, 2.0))["young"])
    np.testing.assert_allclose(twice, 2 * np.asarray(model_options(plate)["young"]))


def test_a_rig_without_a_skeleton_has_no_bones_to_be_far_from():
    plate = box((1.0, 0.04, 0.3))
    rig = Bend(plate.vertices, (0, 0.02, 0.15), (1, 0, 0), (0, 0, 1), low=0, high=1)
    assert slender_factors(Character("sheet", plate, rig)) is None


def beaten(strength: float) -> Motion:
    """To and fro, three times a second."""
    times = np.arange(25) / 30
    poses = strength * np.sin(2 * np.pi * 3 * times)[:, None]
    return Motion(times, poses, name="beaten")


@pytest.mark.filterwarnings("ignore:motion .beaten.. in .* steps")
def test_a_motion_that_squashes_flesh_makes_it_stiffer_with_a_warning():
    character, options = bending_bar(cells=CELLS), bar_options(CELLS)
    with pytest.warns(SuppleWarning, match='"beaten": in .* steps flesh moved too far'):
        soft = bake(character, beaten(0.4), simulation={"stiffness": 1.0}, **options)
    assert soft.report["stiffness"] == 1
    with pytest.warns(SuppleWarning, match=r'"beaten" is too violent .* times as stiff'):
        calm = bake(character, beaten(0.4), **options)
    factor = calm.report["stiffness"]
    assert factor in STIFFER[1:]
    count = [max(b.report["limits"].values(), default=0) for b in (soft, calm)]
    assert count[1] < 0.7 * count[0]
    # It is what a simulator with so much stiffness gives, to the bit.
    again = bake(character, beaten(0.4), simulation={"stiffness": factor}, **options)
    assert again.frames.tobytes() == calm.frames.tobytes()
    told = bake(character, beaten(0.4), young=3e4, **options)
    assert told.report["stiffness"] == 1


def test_a_gentle_motion_keeps_flesh_as_it_is():
    baked = bake(bending_bar(cells=CELLS), beaten(0.02), **bar_options(CELLS))
    assert (baked.report["stiffness"], baked.report["limits"]) == (1, {})
