"""What cannot be built is refused in one line that says what to do."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import (
    WIDTH,
    bar_mesh,
    bar_options,
    bending_bar,
    held_end,
    motion_of,
)
from supple.engines.pose_space.build.build import build
from supple.errors import SuppleError, SuppleWarning
from supple.mesh.obstacles import Plane
from supple.mesh.tets import TetMesh
from supple.reduction.build_log import BuildLog
from supple.reduction.regions.handles import Handle
from supple.reduction.regions.region import Region
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend

MIDDLE = WIDTH / 2


def refused(words: str, character: Character | None = None, **changed: Any) -> list[str]:
    """Check that a build is an error with these words; the stages it began."""
    log = BuildLog()
    with pytest.raises(SuppleError, match=words) as caught:
        build(character or bending_bar(), **bar_options(**changed), log=log)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250
    return list(log.stages)


def two_bars() -> tuple[Character, TetMesh]:
    """Beside each other, without touching; vertices of the second come last."""
    one = bar_mesh()
    apart = np.vstack([one.vertices, one.vertices + np.array([0, 2 * WIDTH, 0])])
    mesh = TetMesh(apart, np.vstack([one.tets, one.tets + len(one.vertices)]))
    surface, _ = mesh.surface()
    rig = Bend(surface.vertices, (0, MIDDLE, MIDDLE), (1, 0, 0), (0, 0, 1), low=0, high=1)
    return Character("two bars", surface, rig), mesh


def handle(name: str, points: list[list[float]]) -> Handle:
    return Handle(name, np.array(points))


def region(name: str, vertices: list[int]) -> Region:
    return Region(name, np.array(vertices, np.int64), np.ones(len(vertices)))


def test_a_loose_piece_is_named_with_its_place_and_what_to_do():
    character, mesh = two_bars()
    first = len(bar_mesh().vertices)
    words = (
        rf"a piece of 288 tets, 117 vertices \(one is vertex {first}\) around \(0\.\d+, 0\.4.*fix"
    )
    refused(words, character, tets=mesh, poses=[np.radians([-20.0])])
    # Two loose pieces are no free body either.
    refused("moves without resistance; fix", character, tets=mesh, bones=[], poses=1)
    held = np.flatnonzero(mesh.vertices[:, 0] < 1e-9)
    model = build(character, **bar_options(tets=mesh, bones=held, poses=1))
    assert model.n_modes == 8


def test_a_pose_given_twice_is_named():
    words = 'poses "left" and "port" give the same shape; remove one'
    refused(words, poses={"left": [-1.0], "right": [1.0], "port": [-1.0]})
    refused('poses "pose 0" and "pose 1" give the same shape', poses=[[0.4], [0.4]])
    refused('poses "T" and "A" give the same shape', poses={"T": [0.0], "A": [0.0]})


@pytest.mark.parametrize("modes", [325, 4000, 10**12])
def test_more_modes_than_there_are_is_an_error_with_their_number(modes):
    refused(r'region "body": \d+ .* it has 324 unknowns; use fewer', modes=modes)


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        (0, "0 modes"),
        (-1, "-1 modes"),
        (True, "whole numbers"),
        (2.5, "modes must be whole numbers, not 2.5"),
        ("8", "modes must be whole numbers"),
        (None, "modes must be whole numbers"),
        ([4, 4], "2 numbers of modes; give one per region"),
        ([], "0 numbers of modes"),
        ([[3]], "whole numbers"),
    ],
)
def test_modes_that_are_no_number_of_modes(modes, words):
    assert "modes" not in refused(words, modes=modes)


def test_each_region_needs_a_number_of_modes_and_at_least_one():
    regions = [handle("near", [[0.25, MIDDLE, MIDDLE]]), handle("far", [[0.8, MIDDLE, MIDDLE]])]
    refused("3 numbers of modes; give one per region", regions=regions, modes=[4, 3, 2])
    refused("1 modes for 2 regions; each needs at least one", regions=regions, modes=1)
    refused("0 modes; a region needs at least one", regions=regions, modes=[4, 0])


def test_a_region_without_vertices_is_named():
    near = handle("near", [[0.3, MIDDLE, MIDDLE]])
    moon = handle("moon", [[100.0, 0, 0]])
    refused('handle "moon" is 99 m outside of the body; move it in', regions=[near, moon])
    twin = Handle("twin", near.points)
    refused('handle "twin" is in the same tets as "near"; move', regions=[near, twin])
    with pytest.raises(SuppleError, match='region "nothing" has no vertices; move or drop'):
        region("nothing", [])


@pytest.mark.parametrize(
    ("regions", "words"),
    [
        ("all", 'regions="all"; use "auto"'),
        (5, "regions"),
        ([[1, 2, 3]], "handles must be a list of Handle"),
        ([region("big", [2000])], 'region "big" has vertex 2000, but there are 117'),
        ([Region.whole(117)], 'region "body" has vertex 0, which is fixed'),
        ([region("a", [50]), handle("b", [[0.5, 0, 0]])], "handles"),
    ],
)
def test_regions_that_are_none(regions, words):
    assert "modes" not in refused(words, regions=regions)


def test_flesh_in_no_region_is_reported():
    along = bar_mesh().vertices[:, 0]
    part = region("tip", np.flatnonzero(along > 0.5).tolist())
    with pytest.warns(SuppleWarning, match=r"no region contains \d+ tet vertices"):
        model = build(bending_bar(), **bar_options(regions=[part], poses=1))
    assert model.report["regions"][0]["vertices"] == len(part.vertices)


@pytest.mark.parametrize("name", ["elastic_cubature", "inertial_cubature"])
@pytest.mark.parametrize("count", [0, -1, True, 2.5, "x", [3]])
def test_cubature_counts_are_looked_at_before_anything_is_computed(name, count):
    assert "modes" not in refused(f"{name} must be a positive whole number", **{name: count})


@pytest.mark.parametrize(
    ("name", "things"), [("elastic_cubature", "tets"), ("inertial_cubature", "vertices")]
)
def test_more_cubature_than_there_is_costs_no_more_than_all_of_it(name, things):
    tracemalloc.start()
    with pytest.warns(SuppleWarning, match=f"1000000 cubature {things} requested"):
        model = build(bending_bar(), **bar_options(poses=1) | {name: 1_000_000})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300e6  # mixtures for each of a million would take gigabytes
    assert len(model.elastic_tets) <= 288
    assert len(model.inertial_vertices) <= 108


def test_invalid_painted_materials_are_named():
    n_skin = len(bending_bar().surface.vertices)
    young = np.full((3, n_skin), 3e4)
    young[2, 17] = np.nan
    refused("painted young at pose 2: vertex 17 is nan", young=young)
    refused("painted young: vertex 17 is nan; .*paint it again", young=young[2])
    refused("painted poisson: vertex 4 is 0.5", poisson=np.where(np.arange(n_skin) == 4, 0.5, 0.3))
    refused("young is painted for 2 poses, and there are 3", young=young[:2])
    refused(f"has 5 values; the surface has {n_skin} vertices", young=np.ones(5))


def test_an_invalid_material_is_a_one_line_error():
    assert "modes" not in refused(r"material .*Material\(", material="stvk")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("poses", 0, "0 poses; at least 1"),
        ("poses", None, "poses must be"),
        ("poses", [], "poses must be"),
        ("poses", {}, "poses must be"),
        ("poses", 2.5, "poses must be"),
        ("poses", "x", '"x" is not a frame of a motion; write it like "sweep:0"'),
        ("poses", "sweep:99", "no frame 99; its frames are 0 to 20"),
        ("poses", "sweap:9", 'did you mean "sweep"'),
        ("poses", [[1.0, 2.0]], 'pose "pose 0": .*the rig has 1 parameter'),
        ("poses", [[np.nan]], 'pose "pose 0": "bend.angle" is not finite'),
        ("interpolation", "banana", "use one of frames, world"),
        ("recipe", "banana", "use one of default, printed"),
        ("contacts", "banana", 'contacts is "banana"; use two-sided, one-sided, fixed'),
        ("contacts", True, "contacts is .*; use two-sided"),
        ("seed", "x", "seed must be a whole number"),
        ("seed", -1, "seed must be a whole number"),
        ("seed", 2.5, "seed must be a whole number"),
        ("seed", 2**70, "seed .*2⁶³"),
        ("obstacles", [3], "obstacle 0 is a int, which"),
        ("obstacles", None, "obstacles"),
        ("obstacles", Plane((0, 0, 0), (0, 0, 1)), "obstacles"),
        ("most_poses", "x", "most_poses"),
        ("most_poses", 0, "most_poses"),
        ("most_poses", 2.5, "most_poses"),
        ("tets", 0, "cannot make 0 tets"),
        ("tets", "x", "tets"),
        ("tets", None, "tets"),
        ("tets", 10**9, "cannot make 1000000000 tets"),
        ("bones", "x", "fixed vertices must be a list"),
        ("bones", [999], "fixed vertex 999 does not exist; there are 117"),
        ("bones", np.arange(117), "every tet vertex is fixed"),
        ("gamma", -1, "gamma is -1"),
        ("gamma", "x", "gamma"),
        ("variant", "x", 'no variant "x"'),
        ("most_added", -1, "cannot add -1 poses"),
        ("most_added", "x", "most_added"),
    ],
)
def test_options_that_make_no_sense_are_named(option, value, words):
    own = {"poses": "auto"} if option == "most_poses" else {}
    refused(words, **own | {option: value})


def test_an_option_that_does_not_exist_is_refused_by_name():
    with pytest.raises(SuppleError, match='no option "smoothing"; it has poses'):
        build(bending_bar(), **bar_options(smoothing=3))


def test_without_a_skeleton_and_bones_a_warning_states_that_nothing_holds_the_flesh():
    with pytest.warns(SuppleWarning, match="no skeleton, and no bones are given; nothing holds"):
        model = build(bending_bar(), **bar_options(bones=None, poses=1))
    assert len(model.fixed) == 0


def test_a_character_without_a_mesh_is_an_error():
    with pytest.raises(SuppleError, match="bare: has no mesh"):
        build(Character("bare", None, None), poses=1)


def test_a_motion_of_another_rig_is_named_even_if_no_pose_is_taken_from_it():
    bar = bending_bar()
    walk = {"walk": motion_of(np.zeros((4, 3)), "walk")}
    character = Character("bar", bar.surface, bar.rig, walk)
    words = 'poses of motion "walk" have 3 entries, but the rig has 1 parameter.*retarget'
    refused(words, character, poses="auto")
    refused(words, character)


def test_a_body_far_too_small_for_its_regions_or_modes_is_an_error():
    mesh = bar_mesh((1, 1, 1))
    surface, _ = mesh.surface()
    rig = Bend(surface.vertices, (0, MIDDLE, MIDDLE), (1, 0, 0), (0, 0, 1), low=0, high=1)
    cube = Character("cube", surface, rig)
    refused("12 unknowns; use fewer", cube, tets=mesh, bones=held_end(mesh), poses=1, modes=13)
    with pytest.warns(SuppleWarning, match="cubature tets requested"):
        model = build(
            cube,
            **bar_options(tets=mesh, bones=held_end(mesh), poses=1, modes=3, inertial_cubature=2),
        )
    assert model.n_modes == 3


def test_training_does_not_fail_where_few_modes_are_far_from_independent():
    """Sets of weights that are exchanged for ever, and single ones that take many turns."""
    model = build(bending_bar(170.0), **bar_options(poses="auto", modes=3))
    assert model.report["elastic_error"]["held_out"] < 0.03
