"""Costs of spoon, bridge, tower and heart (barbic2005 figs 5, 8, 11), and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, draw_surface, plain_axes, view_axes
from supple.app.processes import with_cores
from supple.arrays import Floats
from supple.compiled.jit import compiled_fused
from supple.elastic.body import HexBody
from supple.engines.stvk.bases import body_modes, principal_basis
from supple.engines.stvk.body_simulator import coefficient_arrays
from supple.engines.stvk.build import surface_of
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.engines.stvk.stvk_step import evaluate_tangent
from supple.lab.bench.timing import DGEMM_SIZE, processor_time, timed
from supple.lab.reproduce.figures import frame_view, new_figure
from supple.linalg.upper_triangle import cholesky, padded_identity, solve
from supple.mesh.surface import SurfaceMesh
from supple.reduction.mass_pca import scaled_candidates
from supple.reduction.modes import Modes
from supple.scenes.bodies.elastic_scene import ElasticScene, stvk_scene

#: Displacement for differences of the stiffness, relative to the size.
_STEP = 0.05
#: Factor of the cubes' size in a quick run.
_COARSE = 4
#: Amplitude of the body's swing relative to its size.
_SWING = 0.2
#: Number of measurements, of which the shortest counts, and duration of each in s.
_TRIES, _TRY_SECONDS = 7, 0.05


def shown_scene(name: str, quick: bool) -> ElasticScene:
    """Return the body at its published size, or, if quick, a spoon of large cubes."""
    if not quick:
        return stvk_scene(name)
    from supple.scenes.bodies.spoon import CUBE, assemble

    return assemble(_COARSE * CUBE)


@cache
def body_costs(name: str, quick: bool) -> dict[str, Any]:
    """Return times and sizes, measured once in a separate process with one core.

    ``shape`` (n̄, 3) is the surface of the swinging body at the time of its largest deflection.
    """
    costs: dict[str, Any] = with_cores(1, _costs, name, quick)
    return costs


def _costs(name: str, quick: bool) -> dict[str, Any]:
    if not quick:
        _costs("spoon", True)  # compiles before times are measured
    scene = shown_scene(name, quick)
    times, basis, swinging = _basis_costs(scene)
    model, seconds = _clocked(lambda: StvkModel.from_basis(scene.mesh, scene.material, basis))
    surface, carried = surface_of(scene.mesh, scene.surface, basis)
    model = replace(model, surface=surface, surface_basis=carried)
    return {
        "elements": len(scene.mesh.hexes),
        "vertices": len(scene.mesh.vertices),
        "modes": model.modes,
        "linear_modes": scene.linear_modes,
        **times,
        "coefficients_s": seconds,
        "coefficient_bytes": model.tangent.nbytes,
        **_step_costs(model, scene.dt, swinging),
    }


def _basis_costs(scene: ElasticScene) -> tuple[dict[str, float], Floats, Floats]:
    """Return times of modes and derivatives, the basis, and an initial velocity (r,) in it.

    The velocity gives the first mode the amplitude `_SWING`.
    """
    body = scene.body()
    modes, modes_s = _clocked(lambda: body_modes(body, scene.linear_modes, fixed=scene.fixed))
    bent, right_s, solve_s = derivative_parts(body, modes)
    bent /= np.sqrt(np.repeat(body.vertex_masses(), 3) @ bent**2)
    shapes = scaled_candidates(modes.eigenvalues, modes.vectors, bent)
    basis, pca_s = _clocked(lambda: principal_basis(body, shapes, scene.modes, scene.fixed))
    seconds = {"modes_s": modes_s, "right_sides_s": right_s, "solve_s": solve_s, "pca_s": pca_s}
    first = modes.vectors[:, 0].reshape(-1, 3)
    reach = _SWING * float(np.ptp(body.rest, axis=0).max())
    speed = np.sqrt(modes.eigenvalues[0]) * reach / np.linalg.norm(first, axis=1).max()
    heavy = body.vertex_masses()[:, None] * first
    return seconds, basis, speed * np.einsum("nkr,nk->r", basis, heavy)


def derivative_parts(body: HexBody, modes: Modes) -> tuple[Floats, float, float]:
    """Return derivatives of modes, (3n, k(k + 1)/2), and seconds of right sides and solutions.

    −(H : Ψ_i) Ψ_j (barbic2005 eq. 14) is a difference of two stiffness matrices, which is exact,
    as the stiffness of a Saint Venant–Kirchhoff body is quadratic.
    """
    vectors = modes.vectors
    reach = _STEP * float(np.linalg.norm(np.ptp(body.rest, axis=0)))
    derivatives, seconds = [], [0.0, 0.0]
    for i in range(vectors.shape[1]):
        right, spent = _clocked(partial(_right_sides, body, vectors, i, reach))
        seconds[0] += spent
        bent, spent = _clocked(partial(modes.compliance, right))
        seconds[1] += spent
        derivatives.append(bent)
    return np.hstack(derivatives), seconds[0], seconds[1]


def _right_sides(body: HexBody, vectors: Floats, i: int, reach: float) -> Floats:
    step = vectors[:, i].reshape(-1, 3)
    h = reach / float(np.abs(step).max())
    along = np.ascontiguousarray(vectors[:, i:])
    ahead = body.stiffness(body.rest + h * step) @ along
    return (body.stiffness(body.rest - h * step) @ along - ahead) / (2 * h)


def _step_costs(model: StvkModel, dt: float, velocity: Floats) -> dict[str, Any]:
    """Return times of a swinging body's step and its parts in µs, and its most deformed shape."""
    simulator = StvkSimulator(model, dt)
    simulator.reset(velocity=velocity)
    trace = simulator.run(int(1 / dt))
    moment = model.surface_at(trace[int((trace @ velocity).argmax())])
    blocks, linear, terms, packed = coefficient_arrays(model, np.dtype(np.float64))
    dense = model.mass + dt**2 / 4 * model.stiffness(trace[-1])
    scratch, right = padded_identity(model.modes), np.ones((2, model.modes))
    out = simulator.surface()
    a, b = np.random.default_rng(0).random((2, DGEMM_SIZE, DGEMM_SIZE))
    seconds = _each(
        {
            "step_us": simulator.run,
            "evaluation_us": lambda n: _evaluations(n, trace[-1], blocks, linear, terms, packed),
            "system_us": lambda n: _solutions(n, dense, right, scratch),
            "surface_us": lambda n: [simulator.surface(out) for _ in range(n)],
            "dgemm256_us": lambda n: [np.dot(a, b) for _ in range(n)],
        }
    )
    return {name: 1e6 * spent for name, spent in seconds.items()} | {"shape": moment}


@compiled_fused
def _evaluations(count, q, blocks, linear, terms, packed):  # type: ignore[no-untyped-def]
    """Evaluate force and stiffness `count` times."""
    for _ in range(count):
        evaluate_tangent(q, blocks, linear, terms, packed)


@compiled_fused
def _solutions(count, dense, right, system):  # type: ignore[no-untyped-def]
    """Fill, factorise and solve a system `count` times."""
    b, x = right[0], right[1]
    n = len(b)
    for _ in range(count):
        for i in range(n):
            x[i] = b[i]
            row, source = system[i, i:n], dense[i, i:n]
            for j in range(len(row)):
                row[j] = source[j]
        cholesky(system)
        solve(system, x)


def _each(parts: dict[str, Callable[[int], Any]]) -> dict[str, float]:
    """Return processor seconds of one repetition of each part, the shortest of several runs."""
    counts = {name: _enough(repeat) for name, repeat in parts.items()}
    best = dict.fromkeys(parts, np.inf)
    for _ in range(_TRIES):
        for name, repeat in parts.items():
            best[name] = min(best[name], _spent(repeat, counts[name]) / counts[name])
    return best


def _enough(repeat: Callable[[int], Any]) -> int:
    """Return a number of calls that takes long enough to be measured."""
    repeat(1)  # compiles
    count = 1
    while (spent := _spent(repeat, count)) < 0.2 * _TRY_SECONDS:
        count *= 4
    return max(1, round(count * _TRY_SECONDS / spent))


def _spent(repeat: Callable[[int], Any], count: int) -> float:
    return timed(lambda: repeat(count), processor_time)


def _clocked(make: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a function and its processor time in s."""
    began = processor_time()
    result = make()
    return result, processor_time() - began


OURS, PRINTED = "#2f6f8f", "#b9b3a6"
_VIEW = (25.0, 18.0)
#: Azimuth and elevation of the camera in degrees.
_VIEWS = {"spoon": (35.0, 28.0), "bridge": (28.0, 16.0), "tower": (30.0, 10.0)}
_METAL, _FLESH = np.array([0.55, 0.66, 0.74]), np.array([0.80, 0.40, 0.36])


def picture(title: str, columns: int) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with a row of axes."""
    figure = new_figure((max(6.0, 3.2 * columns), 3.4), title, 12)
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def draw_body(
    axes: Axes,
    name: str,
    surface: SurfaceMesh,
    shape: Floats,
    caption: str,
    *,
    limits: Sequence[Floats] = (),
    colour: Floats | None = None,
) -> None:
    """Draw a body in a shape; the view also contains the shapes of `limits`."""
    if colour is None:
        colour = _FLESH if name == "heart" else _METAL
    draw_surface(axes, shape, surface.triangles, colour=colour, view=body_view(name))
    low, high = _extent(name, [shape, *limits])
    frame_view(axes, low, high)
    axes.set_title(caption, color=INK, fontsize=9)


def pair(ours: float, paper: float | None, quick: bool) -> dict[str, float | None]:
    """Return a pair of our number and the paper's, which a quick run omits."""
    return {"ours": ours, "paper": None if quick else paper}


def height_to_width(name: str, shapes: Sequence[Floats]) -> float:
    """Return the ratio of height to width of a view of shapes of a body."""
    low, high = _extent(name, shapes)
    return float((high - low)[1] / (high - low)[0])


def body_view(name: str) -> Floats:
    return view_axes(*_VIEWS.get(name, _VIEW))


def _extent(name: str, shapes: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the lower left and upper right corners of the projected shapes, with a margin."""
    flat = np.concatenate([np.asarray(each, float) @ body_view(name)[:2].T for each in shapes])
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.04 * float((high - low).max())
    return low - margin, high + margin


def bars(
    axes: Axes,
    names: Sequence[str],
    pairs: Sequence[tuple[float, float | None]],
    unit: str,
    title: str,
) -> None:
    """Draw bars of our numbers and the paper's, without None, on a logarithmic scale."""
    places = np.arange(len(names), dtype=float)
    for shift, which, colour, label in ((-0.2, 1, PRINTED, "paper"), (0.2, 0, OURS, "ours")):
        values = [(x, pair[which]) for x, pair in zip(places, pairs, strict=True)]
        shown = [(x, value) for x, value in values if value is not None]
        drawn = axes.bar(
            [x + shift for x, _ in shown],
            [value for _, value in shown],
            0.38,
            color=colour,
            label=label,
        )
        labels = [f"{value:,.0f}" if value >= 100 else f"{value:.2g}" for _, value in shown]
        axes.bar_label(drawn, labels, fontsize=7, color=INK, padding=1)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.5, high * 6)  # room for labels and the legend
    axes.set_xticks(places, list(names))
    axes.tick_params(labelsize=8)
    axes.set_ylabel(unit, color=INK, fontsize=9)
    axes.set_title(title, color=INK, fontsize=10)
    plain_axes(axes)
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
