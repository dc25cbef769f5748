"""`supple stvk`: a mesh or a scene in, a body out that moves at a kilohertz, and figures.

Also the bodies that `supple view` shows: of a file, of a scene (kept in the cache), or of a mesh.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg

from supple.app.bodies.body_options import BodyOptions
from supple.app.bodies.body_source import BodySource, read_body_source
from supple.app.bodies.fixed_vertices import held_vertices
from supple.app.command_files import model_target
from supple.app.processes import peak_megabytes
from supple.arrays import Floats
from supple.elastic.material import Material
from supple.engines.engine import BODY_MODEL
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.playback.character_sources import source_kind
from supple.playback.progress_bar import build_log, console, working
from supple.reduction.build_log import BuildLog
from supple.user_cache import cached, model_cache

USUAL_MODES = 20
#: Of what has no material: it swings visibly, whatever its size.
USUAL_FREQUENCY, USUAL_POISSON, USUAL_DENSITY = 2.0, 0.4, 1000.0
#: A body larger or smaller than this, in m, is likely to be in other units.
SMALLEST, LARGEST = 1e-3, 50.0
#: Seconds that steps are timed for, and their time step.
TIMED, STEP = 0.1, 1e-3


def made_body(
    given: str, options: BodyOptions, log: BuildLog
) -> tuple[StvkModel, BodySource, list[str]]:
    """Make the body of a file or a scene; return its source, and notes of what was chosen, too."""
    with log.stage("mesh"):
        source = read_body_source(
            given, options.filling, scale=options.scale, seen=options.surface, tell=log.tell
        )
        fixed, named = held_vertices(source, options.fixed)
    notes = _size_notes(source, options)
    held = f"held: {named} ({len(fixed):,} of {len(source.mesh.vertices):,} vertices)"
    notes.append(held if options.fixed else f"{held}; --fixed says otherwise")
    usual = source.material or Material("stvk", 1e5, USUAL_POISSON, USUAL_DENSITY)
    made = options.material(usual)
    with log.stage("polynomials"):
        log.tell(0.0, "modes and derivatives")
        model = StvkModel.build(
            source.mesh,
            made,
            options.modes or source.modes or USUAL_MODES,
            fixed=fixed,
            basis=options.basis,
            surface=source.surface,
            progress=lambda part: log.tell(part, "coefficients"),
        )
    wanted = options.frequency
    if wanted is None and options.young is None and source.material is None:
        wanted = USUAL_FREQUENCY
    if wanted is not None:
        model = _tuned(model, wanted)
        young = f"{float(model.groups.young.max()):.3g}"
        said = "" if options.frequency else "; --young or --frequency says otherwise"
        notes.append(f"Young's modulus {young} Pa: the slowest swing is {wanted:g} Hz{said}")
    return model, source, notes


def _size_notes(source: BodySource, options: BodyOptions) -> list[str]:
    size = float(np.ptp(source.mesh.vertices, axis=0).max())
    if options.scale != 1.0 or SMALLEST <= size <= LARGEST:
        return []
    return [f"it is {size:.3g} m long; if its units are others, --scale says how many metres each"]


def body_frequencies(model: StvkModel) -> Floats:
    """Return frequencies of small swings about rest, (r,) in Hz, ascending; 0 without stiffness."""
    stiffness = model.stiffness(np.zeros(model.modes))
    try:
        squares = scipy.linalg.eigh(stiffness, model.mass, eigvals_only=True)
    except (ValueError, np.linalg.LinAlgError):
        raise SuppleError("the body's mass is not positive; make it again") from None
    return np.sqrt(np.maximum(squares, 0.0)) / (2 * np.pi)


def _tuned(model: StvkModel, frequency: float) -> StvkModel:
    """Make a body stiffer all over, or softer, until its slowest swing has this frequency in Hz."""
    lowest = float(body_frequencies(model)[0])
    if not lowest > 0:
        raise SuppleError("the body swings without stiffness; hold more of it with --fixed")
    factor = (frequency / lowest) ** 2
    for group, young in enumerate(model.groups.young.tolist()):
        model = model.with_material(group, young=factor * young)
    return model


def run_stvk(
    given: str, output: Path | None, options: BodyOptions | None = None, *, quiet: bool = False
) -> dict[str, Any]:
    """Make a body, save it, and return figures."""
    options = options or BodyOptions()
    target = model_target(given, output, BODY_MODEL)
    with build_log(quiet) as log:
        model, source, notes = made_body(given, options, log)
        with log.stage("writing"):
            model.save(target)
        with log.stage("timing"):
            rate = steps_per_second(model)
    figures = _figures(model, source, log) | {
        "steps_per_second": round(rate),
        "model_mb": round(target.stat().st_size / 1e6, 3),
        "output": str(target),
        "notes": notes,
    }
    if not quiet:
        for note in notes:
            console.print(f"note: {note}", markup=False, soft_wrap=True)
        console.print(summary(figures), markup=False, soft_wrap=True)
        shown = f"wrote {target}; supple view {target} shows it"
        console.print(shown, markup=False, soft_wrap=True)
    return figures


def _figures(model: StvkModel, source: BodySource, log: BuildLog) -> dict[str, Any]:
    peak = peak_megabytes()
    return {
        "elements": len(model.groups.of_element),
        "kind": "tets" if isinstance(source.mesh, TetMesh) else "hexes",
        "vertices": len(model.rest),
        "surface_vertices": len(model.surface.vertices),
        "modes": model.modes,
        "groups": len(model.groups),
        "young": [float(f"{value:.6g}") for value in model.groups.young],
        "frequencies_hz": [float(f"{value:.5g}") for value in body_frequencies(model)],
        "mesh_s": round(log.stages["mesh"], 3),
        "precompute_s": round(log.stages["polynomials"], 3),
        "peak_mb": None if peak is None else round(peak, 1),
    }


def summary(figures: dict[str, Any]) -> str:
    """Return the figures in a line for people."""
    lowest = ", ".join(f"{value:.3g}" for value in figures["frequencies_hz"][:3])
    return (
        f"{figures['elements']:,} {figures['kind']}, {figures['modes']} modes ({lowest} … Hz), "
        f"precomputed in {figures['precompute_s']:.1f} s, "
        f"{figures['steps_per_second']:,} steps a second, {figures['model_mb']:.1f} MB"
    )


def steps_per_second(model: StvkModel) -> float:
    """Time steps of a body at rest, many in one call."""
    simulator = StvkSimulator(model, STEP)
    simulator.run(20)  # compiled, and in the cache
    count = 50
    while True:
        began = perf_counter()
        simulator.run(count)
        seconds = perf_counter() - began
        if seconds >= TIMED or count >= 100_000:
            return count / max(seconds, 1e-9)
        count *= 4


_SCENE_BODIES = model_cache(BODY_MODEL, StvkModel.load)


def prepared_body(given: str, *, quiet: bool = True) -> StvkModel:
    """Return the body of a file or a scene, or of a mesh as `supple stvk` makes it by default."""
    kind, notes = source_kind(given), list[str]()
    if kind == "body":
        with working("reading", quiet):
            return StvkModel.load(given)

    def make() -> StvkModel:
        with build_log(quiet) as log:
            model, _, said = made_body(given, BodyOptions(), log)
        notes.extend(said)
        return model

    if kind == "body scene":
        body: StvkModel = cached(_SCENE_BODIES, f"model-{given}", make).value
        return body
    body = make()
    if not quiet:
        for note in (*notes, f"supple stvk {given} makes a file of it, with options"):
            console.print(f"note: {note}", markup=False, soft_wrap=True)
    return body
