"""xu2016 figs 6 and 7: alignment of bases before their columns are blended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, draw_surface, save_picture, view_axes
from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import align
from supple.engines.pose_space.interpolation import mass_products, reduced_mass
from supple.lab.reproduce.figures import frame_view, label_chart, new_figure
from supple.mesh.tets import TetMesh
from supple.progress import Progress
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region
from supple.rig.tets.vertex_frames import edge_rotations
from supple.scenes.bodies.beam import beam

MATERIAL = Material("stvk", young=1e7, poisson=0.45, density=1000)


@dataclass(frozen=True)
class BeamModes:
    """Lowest modes of a beam at several shapes."""

    mesh: TetMesh
    region: Region
    mass: Floats
    shapes: list[Floats]
    bases: list[Floats]
    stiffnesses: list[Floats]

    def mass_matrix(self, bases: Sequence[Floats], weights: Sequence[float]) -> Floats:
        """Return the mass matrix M̃ (r, r) of blended columns of unit length (xu2016 eq. 16)."""
        products = mass_products([[basis] for basis in bases], [self.region], self.mass)
        return reduced_mass(products, weights)

    def on_all_vertices(self, vector: Floats) -> Floats:
        """Return a column (k, 3) extended by zero to all vertices."""
        displacements = np.zeros_like(self.mesh.vertices)
        displacements[self.region.vertices] = vector
        return displacements


def mirrored_beam(size: tuple[float, float, float], cells: tuple[int, int, int]) -> TetMesh:
    """Return a beam whose tets are symmetric about its middle planes.

    The asymmetric tets of `beam` separate the two bending modes of a square beam more than a small
    difference of width and height.
    """
    quarter = beam(np.array(size) / [1, 2, 2], np.array(cells) // [1, 2, 2])
    vertices, tets = quarter.vertices, quarter.tets
    for axis in (1, 2):
        other = vertices.copy()
        other[:, axis] *= -1
        # A reflection inverts tets; swapping two corners inverts them again.
        tets = np.concatenate([tets, tets[:, [1, 0, 2, 3]] + len(vertices)])
        vertices = np.concatenate([vertices, other])
    _, first, where = np.unique(
        np.round(vertices, 9) + 0.0, axis=0, return_index=True, return_inverse=True
    )
    return TetMesh(vertices[first], where.reshape(-1)[tets])


def modes_at(mesh: TetMesh, shapes: list[Floats], count: int) -> BeamModes:
    """Return the `count` lowest modes at each shape of a beam held at x = 0."""
    body = ElasticBody(mesh, MATERIAL)
    region = Region.whole(body.n_vertices, np.flatnonzero(mesh.vertices[:, 0] == 0))
    held = null_space(None, body.n_vertices, free=region.vertices)
    masses, bases, stiffnesses = body.vertex_masses(), [], []
    for shape in shapes:
        K = body.stiffness(shape, rest=shape, out=body.pattern.zeros())
        U = linear_modes(K, masses, count, null_space=held).vectors
        bases.append(U.reshape(-1, 3, count)[region.vertices])
        stiffnesses.append(U.T @ (K @ U))
    return BeamModes(mesh, region, masses, shapes, bases, stiffnesses)


#: Width of a beam 1 m long, in m.
_SIDE = 1 / 6
_NAIVE, _OURS, _GREY = "#b5483a", "#2f6f8f", np.array([0.78, 0.78, 0.76])
#: Largest displacement of a mode in pictures, in m.
_SHOWN = 0.25


def fig6(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Align two poses of a nearly square beam whose first two modes swap."""
    mesh = mirrored_beam((1.0, _SIDE, _SIDE), (12, 2, 2) if quick else (24, 4, 4))
    sizes = (0.1, 0.01, 0.001) if quick else (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    rows, case = [], None
    for at, epsilon in enumerate(sizes):
        progress(at / len(sizes), f"ε = {epsilon:g}")
        case = _swapped(mesh, epsilon)
        rows.append({"epsilon": epsilon, **_blend_figures(case)})
    progress(0.9, "drawing")
    assert case is not None
    save_picture(_fig6_picture(case, rows), folder / "fig6.png")
    last = rows[-1]
    return {
        "title": "Fig. 6: modes that swap between two poses",
        "message": "The least eigenvalue of the blend's mass matrix halfway, 1 if both modes "
        f"remain, is {last['naive_least_eigenvalue']:.2g} if columns are blended directly and "
        f"{last['aligned_least_eigenvalue']:.2g} if they are aligned first.",
        "rows": rows,
        "columns_that_remain": {
            "naive": 1 if last["naive_least_eigenvalue"] < 1e-3 else 2,
            "aligned": 2 if last["aligned_least_eigenvalue"] > 0.5 else 1,
            "paper_naive": 1,
            "paper_aligned": 2,
        },
        "note": "Least eigenvalue of the blend's mass matrix at weights (½, ½): 1 when columns are "
        "orthogonal, 0 when they are the same. Naive blending depends on the arbitrary signs of "
        "modes; with the best signs it works here.",
    }


def _swapped(mesh: TetMesh, epsilon: float) -> BeamModes:
    wide = mesh.vertices * [1, 1 + epsilon, 1 - epsilon]
    high = mesh.vertices * [1, 1 - epsilon, 1 + epsilon]
    return modes_at(mesh, [wide, high], 2)


def _naive(case: BeamModes) -> list[tuple[float, Floats]]:
    """Return (least eigenvalue of the blend's mass matrix, second basis) for all signs, sorted."""
    pairs = []
    for signs in product((1.0, -1.0), repeat=2):
        signed = case.bases[1] * np.array(signs)
        mass = case.mass_matrix([case.bases[0], signed], (0.5, 0.5))
        pairs.append((float(np.linalg.eigvalsh(mass)[0]), signed))
    return sorted(pairs, key=lambda pair: pair[0])


def _aligned(case: BeamModes) -> list[Floats]:
    masses = case.mass[case.region.vertices]
    return list(align(case.bases, [-1, 0], masses, stiffnesses=case.stiffnesses).bases)


def _blend_figures(case: BeamModes) -> dict[str, float]:
    signs = _naive(case)
    aligned = case.mass_matrix(_aligned(case), (0.5, 0.5))
    return {
        "naive_least_eigenvalue": signs[0][0],
        "naive_with_best_signs": signs[-1][0],
        "aligned_least_eigenvalue": float(np.linalg.eigvalsh(aligned)[0]),
    }


def _fig6_picture(case: BeamModes, rows: list[dict[str, float]]) -> Figure:
    figure = new_figure((12.5, 4.9))
    parts: Any = figure.subfigures(1, 2, width_ratios=(2.5, 1))
    left, right = parts
    figure.suptitle("Modes that swap, blended directly and aligned first", color=INK, fontsize=13)
    naive = [case.bases[0], _naive(case)[0][1]]
    aligned = _aligned(case)
    middle = 0.5 * (case.shapes[0] + case.shapes[1])
    columns = [
        ("pose 1, a little wider", case.shapes[0], case.bases[0]),
        ("pose 2, a little higher", case.shapes[1], case.bases[1]),
        ("halfway, naive blend", middle, naive[0] + naive[1]),
        ("halfway, aligned first", middle, aligned[0] + aligned[1]),
    ]
    grid = left.subplots(2, 4)
    for at, (caption, shape, basis) in enumerate(columns):
        for mode in range(2):
            axes = grid[mode, at]
            _draw_mode(axes, case, shape, basis[:, :, mode], _mode_colour(at))
            if mode == 0:
                axes.set_title(caption, color=INK, fontsize=10)
            if at == 0:
                style = {"rotation": 90, "ha": "right", "va": "center", "color": INK}
                text, place = f"column {mode + 1}", axes.transAxes
                axes.text(-0.04, 0.5, text, transform=place, fontsize=10, **style)
    _eigenvalue_chart(right.subplots(), rows)
    return figure


def _mode_colour(at: int) -> Floats:
    hues = {2: (0.80, 0.42, 0.36), 3: (0.36, 0.60, 0.72)}
    return np.array(hues.get(at, (0.86, 0.70, 0.45)))


def _eigenvalue_chart(axes: Axes, rows: list[dict[str, float]]) -> None:
    epsilon = [row["epsilon"] for row in rows]
    lines = {
        "aligned_least_eigenvalue": ("aligned", _OURS, "o"),
        "naive_least_eigenvalue": ("naive", _NAIVE, "s"),
    }
    for key, (name, colour, mark) in lines.items():
        values = [max(row[key], 1e-12) for row in rows]
        axes.loglog(epsilon, values, marker=mark, color=colour, label=name)
    axes.legend(frameon=False)
    below = "ε: relative difference of width and height"
    label_chart(
        axes, below, "least eigenvalue of the mass matrix, halfway", "0: the columns are equal"
    )


def _draw_mode(
    axes: Axes, case: BeamModes, shape: Floats, column: Floats, colour: Floats, size: float = 0.47
) -> None:
    """Draw the shape in grey and, in colour, displaced by a column, along the beam's axis."""
    view = view_axes(62.0, 22.0)
    surface, source = case.mesh.surface()
    displacements = case.on_all_vertices(column)
    displacements *= _SHOWN / np.linalg.norm(displacements, axis=1).max()
    for points, tint in ((shape, _GREY), (shape + displacements, colour)):
        draw_surface(axes, points[source], surface.triangles, colour=tint, view=view)
    middle = shape.mean(axis=0) @ view[:2].T
    frame_view(axes, middle - size, middle + size)


def fig7(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Align a beam with the same beam rolled by 90°; its modes must match themselves."""
    progress(0.0, "modes")
    mesh = mirrored_beam((1.0, _SIDE, _SIDE / 1.5), (12, 2, 2) if quick else (24, 4, 4))
    rolled = mesh.vertices @ np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]).T
    case = modes_at(mesh, [mesh.vertices.copy(), rolled], 4)
    masses = case.mass[case.region.vertices]
    rotations = edge_rotations(mesh, case.shapes, [-1, 0])[:, case.region.vertices]
    plain = align(case.bases, [-1, 0], masses, weighted=False, variant="world")
    rotated = align(
        case.bases, [-1, 0], masses, rotations=rotations, weighted=False, variant="world"
    )
    progress(0.6, "drawing")
    first, second = case.stiffnesses
    rows = [
        {
            "column": mode + 1,
            "pose1_hz": _hertz(first, np.eye(4)[mode]),
            "procrustes_only_hz": _hertz(second, plain.transformations[1][:, mode]),
            "turned_first_hz": _hertz(second, rotated.transformations[1][:, mode]),
        }
        for mode in range(4)
    ]
    shares = {
        name: float((np.diag(alignment.transformations[1])[:2] ** 2).mean())
        for name, alignment in (("procrustes_only", plain), ("turned_first", rotated))
    }
    picture = _fig7_picture(case, plain.transformations[1], rotated.transformations[1], rows)
    save_picture(picture, folder / "fig7.png")
    return {
        "title": "Fig. 7: two poses rolled by 90° against each other",
        "message": f"Aligned directly, the first two modes match themselves by "
        f"{100 * shares['procrustes_only']:.3g} %; with vertices rotated back first, by "
        f"{100 * shares['turned_first']:.3g} %.",
        "rows": rows,
        "matched_with_itself": shares | {"paper_procrustes_only": 0.0, "paper_turned_first": 1.0},
        "largest_angle_degrees": {
            "procrustes_only": float(np.degrees(plain.angles[1].max())),
            "turned_first": float(np.degrees(rotated.angles[1].max())),
        },
        "note": "Hz: frequency of the aligned column of pose 2, which should equal that of pose 1. "
        "Matched with itself: mean square of the first two diagonal entries of Q (eq. 12). The "
        "paper has pictures only, which show 0 and 1.",
    }


def _hertz(stiffness: Floats, column: Floats) -> float:
    return float(np.sqrt(column @ stiffness @ column) / (2 * np.pi))


def _fig7_picture(
    case: BeamModes, plain: Floats, rotated: Floats, rows: list[dict[str, Any]]
) -> Figure:
    figure = new_figure(
        (12.0, 5.4), "Aligned modes of a beam and of the same beam rolled by 90°", 13
    )
    parts: Any = figure.subfigures(1, 2, width_ratios=(2.2, 1))
    left, right = parts
    mixed = [case.bases[1] @ Q for Q in (plain, rotated)]
    columns = [
        ("pose 1", case.shapes[0], case.bases[0], "pose1_hz", 0),
        ("pose 2, Procrustes only", case.shapes[1], mixed[0], "procrustes_only_hz", 2),
        ("pose 2, rotated back first", case.shapes[1], mixed[1], "turned_first_hz", 3),
    ]
    grid = left.subplots(2, 3)
    for at, (caption, shape, basis, key, colour) in enumerate(columns):
        for mode in range(2):
            axes = grid[mode, at]
            _draw_mode(axes, case, shape, basis[:, :, mode], _mode_colour(colour))
            text = f"column {mode + 1}: {rows[mode][key]:.1f} Hz"
            axes.set_title(caption + "\n" + text if mode == 0 else text, color=INK, fontsize=10)
    for axes, Q, caption in zip(
        right.subplots(2, 1),
        (plain, rotated),
        ("Procrustes only", "rotated back first"),
        strict=True,
    ):
        image = axes.imshow(np.abs(Q), vmin=0, vmax=1, cmap="Blues")
        axes.set_title(caption, color=INK, fontsize=10)
        axes.set_xlabel("column after alignment", color=INK)
        axes.set_ylabel("mode of pose 2", color=INK)
        axes.set_xticks(range(len(Q)), [str(k + 1) for k in range(len(Q))])
        axes.set_yticks(range(len(Q)), [str(k + 1) for k in range(len(Q))])
        right.colorbar(image, ax=axes, label="|Q|")
    return figure
