"""barbic2005 figs 2, 3, 4, 6 and 7: meshes, deformed bodies, modes and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from supple.app.pictures.drawing import save_picture
from supple.arrays import Floats
from supple.elastic.body import HexBody
from supple.elastic.material import Material
from supple.engines.stvk.bases import (
    body_derivatives,
    body_modes,
    derivative_basis,
    principal_basis,
)
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.engines.stvk.sketch import pulling_loads, static_shapes
from supple.errors import SolverError
from supple.lab.reproduce.barbic2005.bodies import draw_body, height_to_width, pair, shown_scene
from supple.lab.reproduce.figures import new_figure
from supple.mesh.hex_embedding import embed_hexes
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.progress import Progress
from supple.reduction.modes import Modes
from supple.scenes.bodies.elastic_scene import STVK_SCENES, ElasticScene
from supple.scenes.modelling.voxel_lists import box_points, voxels_around

#: Colours of triangles of free cubes, and of those with fixed corners.
_FREE, _FIXED = np.array([0.80, 0.78, 0.72]), np.array([0.16, 0.32, 0.72])
#: Seconds of a swing, and its amplitude relative to the size.
_SWING_SECONDS, _SWING = 1.0, 0.35


def _names(quick: bool, names: Sequence[str] = STVK_SCENES) -> Sequence[str]:
    return ("spoon",) if quick else names


def fig2(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw the cubes of each body, with the fixed ones in blue."""
    names, drawn = _names(quick), []
    rows: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        progress(at / len(names), name)
        scene = shown_scene(name, quick)
        surface, vertices = scene.mesh.surface()
        fixed = np.zeros(len(scene.mesh.vertices), bool)
        fixed[scene.fixed] = True
        blue = fixed[vertices][surface.triangles].any(axis=1)
        drawn.append((name, surface, np.where(blue[:, None], _FIXED, _FREE)))
        rows.append({"body": name, "fixed_vertices": len(scene.fixed), "vertices": len(fixed)})

    def draw(axes: Axes, k: int) -> None:
        name, surface, colours = drawn[k]
        draw_body(axes, name, surface, surface.vertices, name, colour=colours)

    _save_row(folder / "barbic2005-fig2.png", "Cubes; fixed vertices are blue", draw, drawn)
    return {
        "title": "barbic2005 fig. 2: simulation meshes",
        "message": ", ".join(
            f"{row['body']}: {row['fixed_vertices']:,} of {row['vertices']:,} vertices are fixed"
            for row in rows
        )
        + ".",
        "rows": rows,
    }


def fig3(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Return the table of the bodies' sizes, with their surfaces."""
    drawn = []
    rows: list[dict[str, Any]] = []
    for name in _names(quick):
        progress(0.2, name)
        scene = shown_scene(name, quick)
        paper = scene.paper
        size = float(np.ptp(scene.mesh.vertices, axis=0).max())
        edge = float(np.cbrt(scene.mesh.volumes().mean()))
        sizes = {
            "surface_vertices": (len(scene.surface.vertices), paper.surface_vertices),
            "triangles": (len(scene.surface.triangles), paper.triangles),
            "resolution": (round(size / edge), paper.resolution),
            "vertices": (len(scene.mesh.vertices), paper.vertices),
            "elements": (len(scene.mesh.hexes), paper.elements),
        }
        rows.append({"body": name} | {key: pair(*values, quick) for key, values in sizes.items()})
        drawn.append((name, scene.surface))

    def draw(axes: Axes, k: int) -> None:
        name, surface = drawn[k]
        draw_body(axes, name, surface, surface.vertices, f"{name}: {len(surface.triangles):,}")

    _save_row(folder / "barbic2005-fig3.png", "Bodies, and their triangles", draw, drawn)
    worst = (
        max(
            abs(row[key]["ours"] / row[key]["paper"] - 1)
            for row in rows
            for key in row
            if key != "body" and row[key]["paper"]
        )
        if not quick
        else None
    )
    return {
        "title": "barbic2005 fig. 3: the models",
        "message": "Sizes of our bodies beside the paper's."
        if worst is None
        else f"Sizes of our bodies differ from the paper's by up to {worst:.0%}.",
        "rows": rows,
        "largest_difference": worst,
        "note": "Bodies of our own, modelled after the paper's pictures.",
    }


def fig4(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Simulate tower and heart with their printed r and k, and draw extreme shapes."""
    names, drawn = _names(quick, ("tower", "heart")), []
    rows: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        progress(at / len(names), f"{name}, basis and swing")
        scene = shown_scene(name, quick)
        model, most, stretched = _swung(scene)
        drawn.append((scene, [scene.surface.vertices, *most]))
        rows.append(
            {
                "body": name,
                "r": model.modes,
                "linear_modes": scene.linear_modes,
                "farthest_as_part_of_size": float(stretched),
            }
        )
    heights = [3.0 * height_to_width(scene.name, shapes) for scene, shapes in drawn]
    figure = new_figure((9.5, sum(heights) + 0.9), "Undeformed, and deformed in a subspace", 12)
    grid = figure.subplots(len(drawn), 3, squeeze=False, height_ratios=heights)
    captions = ("undeformed", "deformed", "deformed")
    for line, (scene, shapes) in zip(grid, drawn, strict=True):
        for axes, shape, caption in zip(line, shapes, captions, strict=True):
            text = f"{scene.name}, {caption}"
            draw_body(axes, scene.name, scene.surface, shape, text, limits=shapes)
    save_picture(figure, folder / "barbic2005-fig4.png")
    return {
        "title": "barbic2005 fig. 4: subspace integration of tower and heart",
        "message": " ".join(
            f"{row['body'].capitalize()}, r = {row['r']}: vertices move by "
            f"{row['farthest_as_part_of_size']:.0%} of its size."
            for row in rows
        ),
        "rows": rows,
        "note": f"Released with the speed of its first two modes for {_SWING_SECONDS:g} s.",
    }


def _swung(scene: ElasticScene) -> tuple[StvkModel, list[Floats], float]:
    """Return the reduced body, its farthest shapes to both sides, and their distance."""
    body = scene.body()
    basis = derivative_basis(body, scene.modes, fixed=scene.fixed, linear=scene.linear_modes)
    model = StvkModel.from_basis(
        scene.mesh, scene.material, basis, fixed=scene.fixed, surface=scene.surface
    )
    modes = body_modes(body, 2, fixed=scene.fixed)
    size = float(np.ptp(body.rest, axis=0).max())
    heavy = np.repeat(body.vertex_masses(), 3)
    velocity = np.zeros(model.modes)
    for value, mode in zip(modes.eigenvalues, modes.vectors.T, strict=True):
        reach = np.linalg.norm(mode.reshape(-1, 3), axis=1).max()
        speed = np.sqrt(value) * _SWING * size / reach
        velocity += speed * basis.reshape(-1, model.modes).T @ (heavy * mode)
    simulator = StvkSimulator(model, scene.dt, iterations=5)
    simulator.reset(velocity=velocity)
    trace = simulator.run(round(_SWING_SECONDS / scene.dt))
    ends = [int((trace @ velocity).argmax()), int((trace @ velocity).argmin())]
    shapes = [np.asarray(model.surface_at(trace[k]), float) for k in ends]
    moved = max(np.linalg.norm(s - scene.surface.vertices, axis=1).max() for s in shapes)
    return model, shapes, moved / size


#: Modes and derivatives that are drawn, counted from one, and their amplitude.
_DRAWN_MODES, _AMPLITUDE = (1, 2, 3), 0.25


def fig6(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw the spoon's softest modes and their derivatives, a symmetric table."""
    scene, count = shown_scene("spoon", quick), len(_DRAWN_MODES)
    body = scene.body()
    modes = body_modes(body, count, fixed=scene.fixed)
    progress(0.4, "derivatives")
    bent = body_derivatives(body, modes)
    first, second = np.triu_indices(count)
    column = {(int(i), int(j)): k for k, (i, j) in enumerate(zip(first, second, strict=True))}
    asymmetry = _asymmetry(body, modes, bent, column)
    embedding = embed_hexes(scene.surface.vertices, scene.mesh)
    size = float(np.ptp(body.rest, axis=0).max())

    def shape(field: Floats) -> Floats:
        moved = field.reshape(-1, 3)
        far = np.linalg.norm(moved, axis=1).max()
        result: Floats = scene.surface.vertices + embedding @ (_AMPLITUDE * size / far * moved)
        return result

    figure = new_figure((3.0 * (count + 1), 2.1 * count + 0.5), "Modes and derivatives", 12)
    grid = figure.subplots(count, count + 1, squeeze=False)
    for i in range(count):
        mode = shape(modes.vectors[:, i])
        draw_body(grid[i, 0], "spoon", scene.surface, mode, f"$\\Psi^{i + 1}$")
        for j in range(count):
            axes = grid[i, j + 1]
            if j < i:
                axes.set_axis_off()
                axes.text(0.5, 0.5, "symmetric", ha="center", transform=axes.transAxes)
                continue
            text = f"$\\Phi^{{{i + 1}{j + 1}}}$"
            draw_body(axes, "spoon", scene.surface, shape(bent[:, column[i, j]]), text)
    save_picture(figure, folder / "barbic2005-fig6.png")
    return {
        "title": "barbic2005 fig. 6: dominant linear modes and modal derivatives",
        "message": f"Derivatives Φij and Φji differ by at most {asymmetry:.1g} of their size.",
        "frequencies_Hz": np.sqrt(modes.eigenvalues) / (2 * np.pi),
        "largest_asymmetry": asymmetry,
        "note": "Asymmetry: derivatives along Ψj of the shape Ψi, solved again with i and j "
        "exchanged.",
    }


def _asymmetry(
    body: HexBody, modes: Modes, bent: Floats, column: dict[tuple[int, int], int]
) -> float:
    """Return the largest relative difference of Φ_ij from Φ_ji, which is solved separately."""
    worst, size = 0.0, float(np.linalg.norm(np.ptp(body.rest, axis=0)))
    for (i, j), k in column.items():
        along = modes.vectors[:, j].reshape(-1, 3)
        h = 0.05 * size / float(np.abs(along).max())
        ahead = body.stiffness(body.rest + h * along) @ modes.vectors[:, [i]]
        behind = body.stiffness(body.rest - h * along) @ modes.vectors[:, [i]]
        again = modes.compliance((behind - ahead) / (2 * h))[:, 0]
        worst = max(worst, float(np.abs(again - bent[:, k]).max() / np.abs(bent[:, k]).max()))
    return worst


#: Linear modes and size of the spoon's basis, as printed, and displacement of the linear model.
_SPOON, _REACH = (6, 15), 0.8
#: Number of modes among which the twisting ones are, and cubes across the beam.
_SEARCHED, _ACROSS = 24, 4
#: Twist in degrees that is printed, and seconds in which the torque grows.
_TWIST, _SECONDS = 270.0, 6.0


def fig7(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Bend a spoon far (k = 6, r = 15), and twist a beam past 270° in five vectors."""
    scene = shown_scene("spoon", quick)
    progress(0.0, "spoon under a strong pull, full and reduced")
    spoon = _bent_spoon(scene)
    progress(0.6, "a beam twisted by a torque")
    surface, angles, shapes, volumes = _twisted_beam(3 if quick else _ACROSS)
    figure = new_figure((11, 6.2), "Extreme shapes in subspaces of modal derivatives", 12)
    grid = figure.subplots(2, 3, squeeze=False)
    rows = [
        ("spoon", scene.surface, list(spoon["shapes"].values()), list(spoon["shapes"])),
        ("beam", surface, shapes, [f"beam, r = 5, twist {angle:.0f}°" for angle in angles]),
    ]
    for line, (name, shown, places, captions) in zip(grid, rows, strict=True):
        for axes, place, caption in zip(line, places, captions, strict=True):
            draw_body(axes, name, shown, place, caption, limits=places)
    save_picture(figure, folder / "barbic2005-fig7.png")
    return {
        "title": "barbic2005 fig. 7: extreme shapes captured by modal derivatives",
        "message": f"The beam is twisted by {angles[-1]:.0f}° in five vectors (paper: 270°); the "
        f"spoon's shape in {spoon['r']} vectors differs by {spoon['off']:.1%} from the full one.",
        "twist_degrees": pair(angles[-1], _TWIST, quick),
        "volume_when_twisted": volumes[-1],
        "spoon": {key: spoon[key] for key in ("r", "linear_modes", "off", "farthest")},
        "note": "The torque turns with the beam's free end and grows until the twist is reached. "
        "Volume is relative to that at rest. Off: mass-weighted RMS distance from the full shape, "
        "relative to its displacement.",
    }


def _bent_spoon(scene: ElasticScene) -> dict[str, Any]:
    body, (linear, r) = scene.body(), _SPOON
    pulls = np.array([[0.0, 1.0, 0.4]])
    load = pulling_loads(
        body, [scene.pulled], fixed=scene.fixed, reach=_REACH, steps=1, directions=pulls
    )[0]
    full = static_shapes(body, [load], fixed=scene.fixed)[0]
    basis = derivative_basis(body, r, fixed=scene.fixed, linear=linear)
    model = StvkModel.from_basis(scene.mesh, scene.material, basis, fixed=scene.fixed)
    masses = body.vertex_masses()
    start = np.einsum("nkr,nk->r", basis, masses[:, None] * full)
    at = model.equilibrium(np.einsum("nkr,nk->r", basis, load), start)
    if at is None:
        raise SolverError("the reduced spoon has no equilibrium under its load")
    reduced = basis @ at
    wrong, right = ((field**2).sum(axis=1) @ masses for field in (reduced - full, full))
    embedding = embed_hexes(scene.surface.vertices, scene.mesh)
    rest = scene.surface.vertices
    return {
        "r": r,
        "linear_modes": linear,
        "off": float(np.sqrt(wrong / right)),
        "farthest": float(np.linalg.norm(full, axis=1).max() / np.ptp(body.rest, axis=0).max()),
        "shapes": {
            "spoon at rest": rest,
            "spoon, full": rest + embedding @ full,
            f"spoon, reduced, r = {r}": rest + embedding @ reduced,
        },
    }


def _twisted_beam(across: int) -> tuple[SurfaceMesh, list[float], list[Floats], list[float]]:
    """Twist a beam of cubes along x; return its surface, and angles, shapes and volumes.

    The basis is two twisting modes and their three derivatives, as printed.
    """
    half = np.array([0.5, 1 / 12, 1 / 12]) - 1e-4
    edge = 1 / (6 * across)
    voxels = voxels_around(box_points(half, half - 1e-3, np.eye(3), 0.4 * edge), edge)
    mesh = HexMesh(voxels.vertices, voxels.hexes)
    material = Material("stvk", young=1e5, poisson=0.3)
    body, x = HexBody(mesh, material), mesh.vertices
    fixed = np.flatnonzero(x[:, 0] < x[:, 0].min() + 0.5 * edge)
    end = np.flatnonzero(x[:, 0] > x[:, 0].max() - 0.5 * edge)
    modes = body_modes(body, _SEARCHED, fixed=fixed)
    arms = x - x.mean(axis=0)
    turning = np.stack([np.zeros(len(x)), -arms[:, 2], arms[:, 1]], axis=1)
    moving = modes.vectors.reshape(len(x), 3, -1)
    aligned = np.abs(np.einsum("nk,nkc->c", turning, moving))
    aligned /= np.linalg.norm(turning) * np.linalg.norm(moving, axis=(0, 1))
    twists = np.sort(np.argsort(aligned)[-2:])
    chosen = replace(
        modes,
        eigenvalues=modes.eigenvalues[twists],
        vectors=np.ascontiguousarray(modes.vectors[:, twists]),
        unweighted=np.ascontiguousarray(modes.unweighted[:, twists]),
        residuals=modes.residuals[twists],
    )
    shapes = np.hstack([chosen.vectors, body_derivatives(body, chosen)])
    shapes /= np.linalg.norm(shapes, axis=0)
    basis = principal_basis(body, shapes, 5, fixed)
    model = StvkModel.from_basis(mesh, material, basis, fixed=fixed)
    slowest = float(np.sqrt(chosen.eigenvalues[0]))
    return _twist(model, basis[end], x[end] - x.mean(axis=0), slowest)


def _twist(
    model: StvkModel, basis: Floats, arms: Floats, omega: float
) -> tuple[SurfaceMesh, list[float], list[Floats], list[float]]:
    """Apply a torque about x to the end, with these rows and arms, that grows until it is twisted.

    Return the surface; and angle, shape and volume at thirds of the printed twist.
    """
    dt = 0.02 / omega
    simulator = StvkSimulator(model, dt, alpha=2 * omega, iterations=10)
    torque, angle, before = 0.0, 0.0, 0.0
    angles: list[float] = []
    shapes: list[Floats] = []
    volumes: list[float] = []
    volume = model.surface.volume()
    slope = omega**2 / (_SECONDS * 50 / 0.02)
    for _ in range(_MOST_TWIST_STEPS):
        places = arms + basis @ simulator.q
        across, rest = places[:, 1:], arms[:, 1:]
        crossed = float((rest[:, 0] * across[:, 1] - rest[:, 1] * across[:, 0]).sum())
        now = np.degrees(np.arctan2(crossed, float((rest * across).sum())))
        angle += (now - before + 180) % 360 - 180
        before = now
        if angle >= _TWIST * (len(angles) + 1) / 3:
            shape = np.asarray(model.surface_at(simulator.q), float)
            angles.append(float(angle))
            shapes.append(shape)
            volumes.append(float(SurfaceMesh(shape, model.surface.triangles).volume() / volume))
            if len(angles) == 3:
                return model.surface, angles, shapes, volumes
        torque += slope
        tangents = np.stack([np.zeros(len(arms)), -places[:, 2], places[:, 1]], axis=1)
        force = torque * tangents / np.linalg.norm(tangents)
        simulator.step(np.einsum("nk,nkr->r", force, basis))
    raise SolverError(f"the beam is twisted by {angle:.0f}° only; use more vectors")


_MOST_TWIST_STEPS = 40_000


def _save_row(
    file: Path, title: str, draw: Callable[[Axes, int], None], items: Sequence[Any]
) -> None:
    figure = new_figure((3.0 * len(items) + 0.5, 3.6), title, 12)
    for k, axes in enumerate(figure.subplots(1, len(items), squeeze=False)[0]):
        draw(axes, k)
    save_picture(figure, file)
