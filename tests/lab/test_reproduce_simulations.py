"""Comparisons of whole simulations, small: contact in the basis, regions, coarse bodies."""

from __future__ import annotations

import numpy as np
import pytest

from supple.lab.reproduce.xu2016 import fig5_contact as reproduce_contact
from supple.lab.reproduce.xu2016 import fig11_local as reproduce_local
from supple.lab.reproduce.xu2016 import fig15_coarse as reproduce_coarse
from supple.lab.reproduce.xu2016.fig5_contact import outline, penetration, touching_skin
from supple.mesh.surface import SurfaceMesh


def _told(part: float, text: str) -> None:
    assert 0 <= part <= 1
    assert text


def _two_plates(gap: float) -> tuple[SurfaceMesh, np.ndarray]:
    """Two cubes of 1 m, far apart at rest; posed with a gap between them, in x."""
    corners = np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)])
    squares = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    cube = np.array([half for a, b, c, d in squares for half in ((a, b, c), (a, c, d))])
    away = np.array([9.0, 0, 0])
    surface = SurfaceMesh(
        np.concatenate([corners, corners + away]), np.concatenate([cube, cube + 8])
    )
    for _ in range(3):
        surface = _halved(surface)
    second = surface.vertices[:, 0] > 4
    posed = surface.vertices - np.outer(second, [8.0 - gap, 0, 0])
    return surface, posed


def _halved(surface: SurfaceMesh) -> SurfaceMesh:
    import igl

    return SurfaceMesh(*igl.upsample(surface.vertices, surface.triangles, 1))


def test_penetration_of_two_cubes_is_how_far_they_overlap():
    surface, apart = _two_plates(0.1)
    assert penetration(surface, apart).max() == 0
    surface, posed = _two_plates(-0.2)
    depths = penetration(surface, posed)
    second = surface.vertices[:, 0] > 4
    facing = np.abs(posed[:, 0] - np.where(second, 0.8, 1.0)) < 1e-9
    middle = facing & (np.abs(posed[:, 1:] - 0.5).max(axis=1) < 0.2)
    assert middle.sum() >= 8
    np.testing.assert_allclose(depths[middle], 0.2, rtol=1e-6)


def test_pressure_acts_towards_what_is_touched_and_adds_up_to_the_area():
    surface, posed = _two_plates(0.05)
    touching = touching_skin(surface, posed, 0.1)
    forces = touching.pressed(100.0)
    second = surface.vertices[:, 0] > 4
    inner = [v for v in forces if 0.2 < posed[v, 1] < 0.8 and 0.2 < posed[v, 2] < 0.8]
    assert inner
    for vertex in inner:
        towards = -1.0 if second[vertex] else 1.0
        assert forces[vertex][0] * towards == pytest.approx(np.linalg.norm(forces[vertex]))
    total = sum(np.linalg.norm(force) for force in forces.values())
    assert total == pytest.approx(100.0 * touching.areas.sum())
    one = touching.pressed(100.0, second[touching.vertices])
    assert set(one) == {v for v in forces if second[v]}


def test_outline_of_a_cut_cube_is_its_square():
    surface, _ = _two_plates(0.0)
    segments = outline(
        surface.vertices, surface.triangles, np.array([0.43, 0, 0]), np.array([1.0, 0, 0])
    )
    np.testing.assert_allclose(segments[:, :, 0], 0.43)
    lengths = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    assert lengths.sum() == pytest.approx(4.0)


def test_contact_in_the_basis_keeps_pressed_skins_apart(tmp_path):
    found = reproduce_contact.run(tmp_path, quick=True, progress=_told)
    assert (tmp_path / "fig5.png").stat().st_size > 10_000
    last = found["rows"][-1]
    assert last["with_percent"] < 0.2
    assert last["without_percent"] > 5 * max(last["with_percent"], 0.02)
    left = found["constraints_left_by_the_basis"]
    assert left["with"] < 1e-3 < 0.05 < left["without"]


def test_regions_move_a_far_limb_less_than_global_modes(tmp_path):
    found = reproduce_local.run(tmp_path, quick=True, progress=_told)
    assert (tmp_path / "fig11.png").stat().st_size > 10_000
    cheek = found["cheek"]
    assert cheek["ours"]["left_hand_percent"] < cheek["global_25"]["left_hand_percent"]
    assert {row["basis"].split(",")[0] for row in found["rows"]} == {
        "our regions",
        "global",
        "full simulation",
    }
    for row in found["rows"]:
        assert 0 < row["represented"] <= 1.0 + 1e-5
        assert (row["left_arm_wrong_percent"] == 0) == (row["basis"] == "full simulation")


def test_a_coarse_body_is_farther_from_the_fine_simulation_than_a_reduced_one(tmp_path):
    found = reproduce_coarse.run(tmp_path, quick=True, progress=_told)
    assert (tmp_path / "fig15.png").stat().st_size > 10_000
    ours, fine, coarse, printed = found["rows"]
    assert printed["simulation"].startswith("as printed")
    assert ours["rms_to_full"] < 0.7 * coarse["rms_to_full"]
    assert coarse["held_by_bones_percent"] > fine["held_by_bones_percent"]
    assert all(row["step_ms"] > 0 for row in found["rows"])
