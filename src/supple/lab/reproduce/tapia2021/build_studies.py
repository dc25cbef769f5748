"""tapia2021 §4.2 and §5.1: the number of cubature points per handle, and β from a scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from supple.app.pictures.drawing import save_picture
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.cubature import fitted_cubature, oblivious_cubature
from supple.engines.soft_skeleton.flesh.deformation_bases import BASES
from supple.engines.soft_skeleton.flesh.soft_layer import flesh_layer
from supple.errors import SuppleError
from supple.formats.smpl.fit_shape import fit_shape, posed_body
from supple.lab.reproduce.figures import label_chart, new_figure
from supple.lab.reproduce.tapia2021.soft_bodies import SIZES, draw_body, key_of, sheet
from supple.linalg.blas import single_threaded
from supple.mesh.filling.tetrahedralise import bisected
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.progress import Progress
from supple.scenes.characters.character_scene import scene

#: Cubature points per handle; "we found no apparent increase in quality after using 5 to 10".
PER_HANDLE = (2, 5, 10, 20)
#: Tets of the person, and seeds of the paper's random points.
TETS, SEEDS = 5_000, (0, 1, 2)


def points(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Measure errors of forces with 2 to 20 cubature points per handle, ours and the paper's."""
    progress(0.0, "tets")
    character, handles = scene("human").character, 12 if quick else SIZES["human"][0]
    with single_threaded():
        tets = 1_500 if quick else TETS
        layer = flesh_layer(character, RigBones(character.rig), tets, None, None)
        shapes, at = BASES["handles"](layer, handles, None)
        rows = []
        for number, each in enumerate(PER_HANDLE[:2] if quick else PER_HANDLE):
            progress((number + 0.5) / len(PER_HANDLE), f"{each} points per handle")
            count = each * handles
            paper = [
                oblivious_cubature(layer, shapes, at, count, seed).error
                for seed in SEEDS[: 1 if quick else None]
            ]
            fitted = fitted_cubature(layer, shapes, count, 0)
            rows.append(
                {
                    "per_handle": each,
                    "points": count,
                    "paper_error": float(np.median(paper)),
                    "fitted_error": float(fitted.error),
                }
            )
    figure = new_figure((5.0, 3.4), "Error of the flesh's forces, over cubature points per handle")
    axes = figure.subplots()
    for key, name in (("paper_error", "the paper's, by volume"), ("fitted_error", "fitted")):
        axes.loglog(
            [row["per_handle"] for row in rows], [row[key] for row in rows], "o-", label=name
        )
    axes.legend(frameon=False, fontsize=8)
    label_chart(axes, "points per handle", "mean relative error of forces")
    save_picture(figure, folder / "tapia2021-points.png")
    first, last = rows[0], rows[-1]
    return {
        "title": "tapia2021 §4.2: cubature points per handle",
        "message": f"From {first['per_handle']} to {last['per_handle']} points per handle the "
        f"error of forces falls from {first['paper_error']:.2g} to {last['paper_error']:.2g} with "
        f"the paper's points, from {first['fitted_error']:.2g} to {last['fitted_error']:.2g} with "
        "fitted ones.",
        "rows": rows,
        "note": "At deformations by forces on patches, which weights were not fitted to; the "
        "paper's points are random: the median of three seeds.",
    }


#: Shape of the scanned hand, standard deviation of its noise in m, and length of its edges in m.
BETAS, NOISE, EDGE = (1.2, -0.9, 0.6, -0.5), 5e-4, 0.004


def betas(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Find shape coefficients of a hand from scans: its own vertices, others, and one side."""
    source: Any = scene("hand").character.source
    body, true = source.body, np.array(BETAS)[: source.body.n_betas]
    random = np.random.default_rng(5)
    pose = 0.12 * random.normal(size=3 * body.n_joints)
    skin = posed_body(body, true, pose, np.array([0.05, -0.02, 0.03]))
    own = SurfaceMesh(skin, body.triangles)
    vertices, triangles = bisected(skin, body.triangles, EDGE)
    order = random.permutation(len(vertices))
    noisy = (vertices + NOISE * random.normal(size=vertices.shape))[order]
    other = SurfaceMesh(noisy, np.argsort(order)[triangles])
    kept = (vertex_normals(other.vertices, other.triangles)[:, 1] > -0.1)[other.triangles]
    used, corners = np.unique(other.triangles[kept.all(axis=1)], return_inverse=True)
    part = SurfaceMesh(other.vertices[used], corners.reshape(-1, 3))
    scans = {"its own vertices": own, "other vertices, noise": other, "the back alone": part}
    figure, grid = sheet("A hand's shape from scans: distance of the found shape at rest", 1, 3)
    rows, before = [], np.linalg.norm(body.template - body.shaped(true), axis=1)
    for column, (name, scan) in enumerate(list(scans.items())[: 1 if quick else None]):
        progress(column / len(scans), name)
        found = fit_shape(body, scan)
        away = 1e3 * np.linalg.norm(body.shaped(found.betas) - body.shaped(true), axis=1)
        rows.append(
            {
                "scan": name,
                "vertices": len(scan.vertices),
                "covered": found.covered,
                "largest_beta_error": float(np.abs(found.betas - true).max()),
                "shape_mm": float(away.mean()),
                "shape_largest_mm": float(away.max()),
                "before_mm": 1e3 * float(before.mean()),
                "scan_distance_mm": 1e3 * found.median,
            }
        )
        text = f"{name}: {away.mean():.2g} mm in the mean"
        surface = SurfaceMesh(body.template, body.triangles)
        view: dict[str, Any] = {"azimuth": 20.0, "elevation": 70.0}
        draw_body(grid[0, column], surface, found.body.template, text, values=away, **view)
    key_of(figure, grid[0, -1], 1.0, "mm")
    save_picture(figure, folder / "tapia2021-betas.png")
    try:
        fit_shape(body, SurfaceMesh(1e3 * skin, body.triangles))
        refused = ""
    except SuppleError as error:
        refused = str(error)
    return {
        "title": "tapia2021 §5.1: shape coefficients from a scan",
        "message": "; ".join(
            f"{row['scan']}: shape within {row['shape_mm']:.2g} mm" for row in rows
        )
        + f" in the mean ({rows[0]['before_mm']:.2g} mm before).",
        "rows": rows,
        "refused": refused,
        "note": "The scans are made of the model in a shape and a pose that the fit does not know; "
        "the paper fits a hand from CT and MRI, which is not published.",
    }
