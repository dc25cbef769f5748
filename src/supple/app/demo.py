"""`supple demo`: a body is meshed, dropped, and drawn while it swings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.drawing import INK, PAPER, filmstrip, save_picture
from supple.app.progress import console, first_use_message, progress_bar
from supple.errors import SuppleError
from supple.saving import write_whole

__all__ = ["run_demo"]

Floats = NDArray[np.float64]

SECONDS, RATE, FRAMES = 2.0, 90, 8


@dataclass
class Swing:
    """What the simulation left behind."""

    triangles: NDArray[np.int64]
    surfaces: list[Floats]
    strains: list[Floats]
    times: list[float]
    energies: list[dict[str, float]]
    summary: dict[str, Any]


def run_demo(output: Path, *, tets: int = 4000, quiet: bool = False) -> dict[str, Any]:
    """Make the demonstration's files in `output`, and return its figures."""
    if output.exists() and not output.is_dir():
        raise SuppleError(f"{output}: is a file; choose a folder with --output")
    first_use_message(quiet)
    swing = _simulate(tets, quiet)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SuppleError(f"{output}: cannot be made ({error}); choose another --output") from None
    captions = [f"{time:.2f} s" for time in swing.times]
    strip = filmstrip(
        swing.surfaces,
        swing.triangles,
        captions,
        colours=[_strain_colours(strain) for strain in swing.strains],
        title="Held by one arm and let go: coloured by how far the flesh is stretched",
    )
    save_picture(strip, output / "filmstrip.png")
    save_picture(_energy_chart(swing), output / "energy.png")
    write_whole(output / "report.md", _report(swing).encode())
    if not quiet:
        console.print(f"wrote {output / 'filmstrip.png'}, energy.png and report.md; look at them")
    return swing.summary


def _simulate(tets: int, quiet: bool) -> Swing:
    # Numba and libigl take a second to import, which `supple --help` must not spend.
    from supple.dynamics import FullSimulator
    from supple.elastic import ElasticBody, Material
    from supple.mesh import embed, tetrahedralise
    from supple.scenes import starfish

    began = perf_counter()
    surface = starfish()
    mesh = tetrahedralise(surface, tets=tets)
    embedding = embed(surface.vertices, mesh)
    meshed = perf_counter()
    body = ElasticBody(mesh, Material("neo-hookean", young=1e5, poisson=0.45))
    held = np.flatnonzero(mesh.vertices[:, 0] < mesh.vertices[:, 0].min() + 0.06)
    simulator = FullSimulator(
        body, 1 / RATE, fixed=held, integrator="newmark", newton=3, alpha=0.2, beta=0.001
    )
    steps = int(SECONDS * RATE)
    pictured = set(np.linspace(0, steps, FRAMES).astype(int).tolist())
    surfaces, strains, times = [], [], []
    energies = [simulator.energies()]
    timings = {"assembly": 0.0, "factorise": 0.0, "solve": 0.0}
    stepping = 0.0
    with progress_bar(quiet) as progress:
        task = progress.add_task(f"swinging, {len(mesh.tets):,} tets", total=steps)
        for number in range(steps + 1):
            if number:
                started = perf_counter()
                report = simulator.step()
                stepping += perf_counter() - started
                for part, seconds in report.seconds.items():
                    timings[part] += seconds
                energies.append(simulator.energies())
                progress.advance(task)
            if number in pictured:
                positions = simulator.positions
                surfaces.append(embedding @ positions)
                strains.append(_stretch(surface.vertices, surfaces[-1], surface.triangles))
                times.append(simulator.time)
    summary = {
        "surface_vertices": len(surface.vertices),
        "tets": len(mesh.tets),
        "tet_vertices": len(mesh.vertices),
        "meshing_s": round(meshed - began, 3),
        "steps": steps,
        "step_ms": round(1e3 * stepping / steps, 3),
        "split_ms": {part: round(1e3 * s / steps, 3) for part, s in timings.items()},
        "largest_energy_gain_j": max(0.0, float(np.diff([e["total"] for e in energies]).max())),
        "final_energy_j": energies[-1]["total"],
    }
    return Swing(surface.triangles, surfaces, strains, times, energies, summary)


def _stretch(rest: Floats, now: Floats, triangles: NDArray[np.int64]) -> Floats:
    """How much each triangle's edges have grown or shrunk, root mean square."""
    after, before = (
        np.linalg.norm(x[triangles] - x[np.roll(triangles, 1, axis=1)], axis=2) for x in (now, rest)
    )
    return np.sqrt(np.mean((after / before - 1) ** 2, axis=1))


def _strain_colours(strain: Floats) -> Floats:
    from matplotlib import colormaps

    return colormaps["YlOrRd"](np.clip(0.2 + strain / 0.8, 0.0, 0.95))[:, :3]


def _energy_chart(swing: Swing) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor(PAPER)
    times = np.arange(len(swing.energies)) / RATE
    start = swing.energies[0]["gravity"]
    for part, colour in (
        ("kinetic", "#2f6db5"),
        ("elastic", "#c8503c"),
        ("gravity", "#6b8f3a"),
        ("total", INK),
    ):
        values = np.array([energies[part] for energies in swing.energies])
        if part in ("gravity", "total"):
            values = values - start
        axes.plot(times, values, color=colour, label=part, lw=2 if part == "total" else 1.4)
    axes.set(xlabel="time in s", ylabel="energy in J", xlim=(0, times[-1]))
    axes.set_title("Energy of the swing (damped, so the total falls)", color=INK, fontsize=11)
    axes.legend(frameon=False, ncols=4, loc="upper right", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _report(swing: Swing) -> str:
    s = swing.summary
    rows = [
        ("surface vertices", f"{s['surface_vertices']:,}"),
        ("tets", f"{s['tets']:,}"),
        ("tet vertices", f"{s['tet_vertices']:,}"),
        ("meshing", f"{s['meshing_s']:.2f} s"),
        ("steps", f"{s['steps']} of 1/{RATE} s"),
        ("one step, unreduced", f"{s['step_ms']:.1f} ms"),
    ]
    rows += [(f"  of that {part}", f"{ms:.1f} ms") for part, ms in s["split_ms"].items()]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    energies = "\n".join(
        f"| {number / RATE:.2f} | " + " | ".join(f"{value:.4f}" for value in e.values()) + " |"
        for number, e in list(enumerate(swing.energies))[:: RATE // 9]
    )
    return (
        "# A soft starfish, let go\n\n![frames](filmstrip.png)\n\n"
        f"| | |\n|---|---|\n{table}\n\n## Energy over time\n\n![energy](energy.png)\n\n"
        "| s | kinetic J | elastic J | gravity J | total J |\n|---|---|---|---|---|\n"
        f"{energies}\n"
    )
