"""Shape of a body from a scan: its own vertices, others, a part; and scans that are refused."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from supple.cli.main import main
from supple.errors import SuppleError
from supple.formats.smpl.body_model import BodyModel, read_body_model, write_body_model
from supple.formats.smpl.fit_shape import fit_shape, posed_body
from supple.mesh.filling.tetrahedralise import bisected
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.scenes.characters.character_scene import scene

BETAS = np.array([0.8, -0.6, 0.5, -0.4])
SHIFT = np.array([0.03, -0.01, 0.02])


def body() -> BodyModel:
    return scene("hand").character.source.body


@cache
def posed() -> SurfaceMesh:
    pose = 0.1 * np.random.default_rng(1).normal(size=3 * body().n_joints)
    return SurfaceMesh(posed_body(body(), BETAS, pose, SHIFT), body().triangles)


@cache
def resampled() -> SurfaceMesh:
    """The same hand with other vertices, in another order, and noise of half a millimetre."""
    random, mesh = np.random.default_rng(2), posed()
    vertices, triangles = bisected(mesh.vertices, mesh.triangles, 0.004)
    order = random.permutation(len(vertices))
    noise = 5e-4 * random.normal(size=vertices.shape)
    return SurfaceMesh((vertices + noise)[order], np.argsort(order)[triangles])


def shape_error(betas) -> float:
    """Mean distance in m of a shape's vertices at rest from the true ones."""
    away = np.linalg.norm(body().shaped(betas) - body().shaped(BETAS), axis=1)
    return float(away.mean())


def test_posed_vertices_are_those_of_the_rig():
    pose = 0.4 * np.random.default_rng(0).normal(size=3 * body().n_joints)
    ours = posed_body(body(), BETAS, pose, np.zeros(3))
    np.testing.assert_allclose(ours, body().rig(BETAS)(pose), atol=1e-12)


def test_a_scan_with_the_models_vertices_gives_its_betas():
    found = fit_shape(body(), posed())
    assert found.same_vertices
    np.testing.assert_allclose(found.betas, BETAS, atol=1e-4)
    assert found.largest < 1e-5
    assert found.body.n_betas == 0
    np.testing.assert_allclose(found.body.template, body().shaped(found.betas))


def test_a_scan_with_other_vertices_gives_the_shape():
    found = fit_shape(body(), resampled())
    assert not found.same_vertices
    assert shape_error(found.betas) < 0.25 * shape_error(np.zeros(4))
    assert found.median < 1e-3
    assert found.covered > 0.9


def test_a_scan_of_one_side_gives_the_shape():
    mesh = resampled()
    normals = vertex_normals(mesh.vertices, mesh.triangles)
    kept = (normals[:, 1] > -0.1)[mesh.triangles].all(axis=1)
    used, triangles = np.unique(mesh.triangles[kept], return_inverse=True)
    part = SurfaceMesh(mesh.vertices[used], triangles.reshape(-1, 3))
    found = fit_shape(body(), part)
    assert shape_error(found.betas) < 0.4 * shape_error(np.zeros(4))
    assert found.median < 1e-3


def cube(size: float, count: int = 12) -> SurfaceMesh:
    grid = np.linspace(0, 1, count)
    a, b = np.meshgrid(grid, grid)
    points = size * np.column_stack([a.ravel(), b.ravel(), 0 * a.ravel()])
    at = np.arange(count * (count - 1)).reshape(-1, count)[:, :-1].ravel()
    triangles = np.vstack(
        [
            np.column_stack([at, at + 1, at + count]),
            np.column_stack([at + 1, at + count + 1, at + count]),
        ]
    )
    return SurfaceMesh(points, triangles)


@pytest.mark.parametrize(
    ("scan", "said"),
    [
        (lambda: SurfaceMesh(posed().vertices[:3], [[0, 1, 2]]), "has 3 vertices"),
        (lambda: SurfaceMesh(1000 * posed().vertices, body().triangles), "give its unit"),
        (lambda: SurfaceMesh(0.01 * posed().vertices, body().triangles), "too small a part"),
        (lambda: cube(0.2), "from the nearest shape|covers"),
    ],
)
def test_scans_that_do_not_fit_are_refused_with_a_reason(scan, said):
    with pytest.raises(SuppleError, match=said) as refused:
        fit_shape(body(), scan())
    assert "\n" not in str(refused.value)


def test_the_command_writes_a_body_of_the_scans_shape(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_body_model("hand.npz", body())
    mesh = posed()
    lines = [f"v {x:.9f} {y:.9f} {z:.9f}" for x, y, z in mesh.vertices]
    lines += ["f " + " ".join(str(k + 1) for k in row) for row in mesh.triangles]
    (tmp_path / "scan.obj").write_text("\n".join(lines))
    main(["fit-body", "hand.npz", "scan.obj", "--json"])
    fitted = read_body_model("hand_scan.npz")
    np.testing.assert_allclose(fitted.template, body().shaped(BETAS), atol=1e-5)
    with pytest.raises(SystemExit):
        main(["fit-body", "hand.npz", "hand.npz"])
