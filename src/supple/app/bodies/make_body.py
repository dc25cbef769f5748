"""`supple stvk`: make an elastic body of a mesh or a scene, save it, and print a summary.

`supple view` shows the same bodies, of a file, a mesh or a scene; bodies of scenes are cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from supple.app.bodies.body_options import SIDES, BodyOptions, parsed_fixed
from supple.app.bodies.body_source import BodySource, Mesh, read_body_source
from supple.app.command_files import model_target
from supple.app.processes import peak_megabytes
from supple.arrays import Floats, Ints
from supple.elastic.material import Material
from supple.engines.engine import BODY_MODEL
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SuppleError
from supple.formats.meshes.veg import read_bou
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.playback.character_sources import source_kind
from supple.playback.progress_bar import build_log, console, working
from supple.reduction.build_log import BuildLog
from supple.scenes.bodies.elastic_scene import stvk_scene
from supple.user_cache import cached, model_cache

USUAL_MODES = 20
#: Of a body without a material; at this frequency it swings visibly, whatever its size.
USUAL_FREQUENCY, USUAL_POISSON, USUAL_DENSITY = 2.0, 0.4, 1000.0
#: A body larger or smaller than this, in m, is probably in other units.
SMALLEST, LARGEST = 1e-3, 50.0
#: Coefficients of more megabytes than this get a note.
LARGE = 100
#: Seconds for which steps are timed, and their time step.
TIMED, STEP = 0.1, 1e-3
#: Thickness of a side relative to the extent; the next one if too few vertices are in it.
THICKNESS = (0.05, 0.1, 0.2, 0.4)
#: Points are collinear if their second singular value is below this, relative to the first.
COLLINEAR = 1e-6


def made_body(
    given: str, options: BodyOptions, log: BuildLog
) -> tuple[StvkModel, BodySource, list[str]]:
    """Make the body of a file or a scene; return also its source, and notes on default choices."""
    with log.stage("mesh"):
        source = read_body_source(
            given, options.filling, log.report, scale=options.scale, shown=options.surface
        )
        fixed, described = held_vertices(source, options.fixed)
    notes = []
    size = float(np.ptp(source.mesh.vertices, axis=0).max())
    if options.scale == 1.0 and not SMALLEST <= size <= LARGEST:
        notes.append(f"it is {size:.3g} m long; for other units, --scale sets the metres per unit")
    fixed_text = f"held: {described} ({len(fixed):,} of {len(source.mesh.vertices):,} vertices)"
    notes.append(fixed_text if options.fixed else f"{fixed_text}; --fixed changes it")
    usual = source.material or Material("stvk", 1e5, USUAL_POISSON, USUAL_DENSITY)
    notes += _flattened_materials(usual, options)
    modes, linear = options.modes or source.modes or USUAL_MODES, options.linear_modes
    if linear is None and options.basis == "derivatives" and modes == source.modes:
        linear = source.linear_modes
    with log.stage("polynomials"):
        log.report(0.0, "modes and derivatives")
        model = StvkModel.build(
            source.mesh,
            options.material(usual),
            modes,
            fixed=fixed,
            basis=options.basis,
            linear=linear,
            mass=options.mass,
            surface=source.surface,
            progress=lambda part: log.report(part, "coefficients"),
        )
    frequency = options.frequency
    if frequency is None and options.young is None and source.material is None:
        frequency = USUAL_FREQUENCY
    if frequency is not None:
        model = _tuned(model, frequency)
        young = f"{float(model.groups.young.max()):.3g}"
        hint = "" if options.frequency else "; --young or --frequency changes it"
        notes.append(f"Young's modulus {young} Pa: the lowest frequency is {frequency:g} Hz{hint}")
    megabytes = model.parts.nbytes / 1e6
    if megabytes > LARGE:
        notes.append(
            f"{modes} modes of {counted(len(model.groups), 'material')} take {megabytes:,.0f} MB; "
            "half as many modes take a sixteenth"
        )
    return model, source, notes


def _flattened_materials(material: Material, options: BodyOptions) -> list[str]:
    """Return notes on options that replace several constants of a file by one."""
    notes = []
    for option in ("young", "poisson", "density"):
        count = len(np.unique(getattr(material, option)))
        if getattr(options, option) is not None and count > 1:
            notes.append(f"--{option} replaces {count} different values of the file by one")
    return notes


def body_frequencies(model: StvkModel) -> Floats:
    """Return frequencies of small vibrations, (r,) in Hz, ascending; 0 without stiffness."""
    stiffness = model.stiffness(np.zeros(model.modes))
    try:
        squares = scipy.linalg.eigh(stiffness, model.mass, eigvals_only=True)
    except (ValueError, np.linalg.LinAlgError):
        raise SuppleError("the body's mass is not positive; make the body again") from None
    return np.sqrt(np.maximum(squares, 0.0)) / (2 * np.pi)


def _tuned(model: StvkModel, frequency: float) -> StvkModel:
    """Scale the stiffness of a body so that its lowest frequency has this value in Hz."""
    lowest = float(body_frequencies(model)[0])
    if not lowest > 0:
        raise SuppleError("the body has a mode without stiffness; fix more of it with --fixed")
    factor = (frequency / lowest) ** 2
    for group, young in enumerate(model.groups.young.tolist()):
        model = model.with_material(group, young=factor * young)
    return model


def run_stvk(
    given: str, output: Path | None, options: BodyOptions | None = None, *, quiet: bool = False
) -> dict[str, Any]:
    """Make a body, save it, and return its sizes, frequencies and times."""
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
    """Return the results of `run_stvk` as one line of text."""
    lowest = ", ".join(f"{value:.3g}" for value in figures["frequencies_hz"][:3])
    return (
        f"{figures['elements']:,} {figures['kind']}, {figures['modes']} modes ({lowest} … Hz), "
        f"precomputed in {figures['precompute_s']:.1f} s, "
        f"{figures['steps_per_second']:,} steps per second, {figures['model_mb']:.1f} MB"
    )


def steps_per_second(model: StvkModel) -> float:
    """Return the measured number of steps per second of a body at rest."""
    simulator = StvkSimulator(model, STEP)
    simulator.run(20)  # compiles, and fills the processor's caches
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
    """Return the body of a file, a scene or a mesh, with the defaults of `supple stvk`."""
    return prepared_body_and_mesh(given, quiet=quiet)[0]


def prepared_body_and_mesh(
    given: str, *, quiet: bool = True
) -> tuple[StvkModel, TetMesh | HexMesh | None]:
    """Return a `prepared_body` and its elements, which a body's file does not have."""
    kind, notes = source_kind(given), list[str]()
    if kind == "body":
        with working("reading", quiet):
            return StvkModel.load(given), None
    sources: list[BodySource] = []

    def make() -> StvkModel:
        with build_log(quiet) as log:
            model, source, new_notes = made_body(given, BodyOptions(), log)
        notes.extend(new_notes)
        sources.append(source)
        return model

    if kind == "body scene":
        return cached(_SCENE_BODIES, f"model-{given}", make).value, stvk_scene(given).mesh
    body = make()
    if not quiet:
        for note in (*notes, f"supple stvk {given} writes it to a file, with options"):
            console.print(f"note: {note}", markup=False, soft_wrap=True)
    return body, sources[0].mesh


# Fixed vertices --------------------------------------------------------------------------------


def held_vertices(source: BodySource, words: Sequence[str] | None) -> tuple[Ints, str]:
    """Return the fixed vertices of the mesh, and a description of them.

    `words` are the values of --fixed; None selects the source's vertices, or else the bottom.
    """
    points = source.mesh.vertices
    if words is not None and list(words) == ["none"]:
        return np.empty(0, np.int64), "nothing: it floats"
    if words is not None:
        held, described = _given_vertices(source, words), " ".join(words)[:80]
    elif source.fixed is not None:
        held, described = source.fixed, f"those of {source.fixed_by}"
    else:
        held, described = _bottom(points)
    if len(held):
        _check_pieces(source.mesh, held)
    return held, described


def _given_vertices(source: BodySource, words: Sequence[str]) -> Ints:
    points = source.mesh.vertices
    held = np.zeros(len(points), bool)
    for word in words:
        held |= _mask(word, source)
    named = " ".join(words)[:80]
    if not held.any():
        low, high = points.min(axis=0), points.max(axis=0)
        spans = ", ".join(
            f"{axis} {a:.4g} to {b:.4g}" for axis, a, b in zip("xyz", low, high, strict=True)
        )
        raise SuppleError(f"--fixed {named}: no vertex is there; the body extends over {spans} m")
    if _collinear(points[held]):
        vertices = counted(int(held.sum()), "vertex is", "vertices are")
        raise SuppleError(
            f"--fixed {named}: {vertices} on a line, about which the body would rotate; fix more"
        )
    return np.flatnonzero(held)


def _mask(word: str, source: BodySource) -> NDArray[np.bool_]:
    """Return whether each vertex of the mesh is selected by a value of --fixed, (n,)."""
    kind, parts = parsed_fixed(word)
    points = source.mesh.vertices
    if kind == "file":
        return _listed(Path(word), source)
    assert parts is not None
    if kind == "side":
        return _side(points, parts[1], THICKNESS[0] if parts[2] is None else float(parts[2]) / 100)
    along = points[:, "xyz".index(parts[1])]
    return along <= float(parts[3]) if parts[2] == "<" else along >= float(parts[3])


def _listed(file: Path, source: BodySource) -> NDArray[np.bool_]:
    """Return whether each vertex of the mesh is selected by a .bou file, (n,).

    For a filled surface, the file lists vertices of the surface, and the vertices of their elements
    are selected.
    """
    held = np.zeros(len(source.mesh.vertices), bool)
    if source.embedding is None:
        held[read_bou(file, len(held))] = True
    else:
        held[source.embedding[read_bou(file, source.embedding.shape[0])].indices] = True
    return held


def _side(points: Floats, name: str, part: float) -> NDArray[np.bool_]:
    axis, sign = SIDES[name]
    depth = sign * points[:, axis]
    return depth >= depth.max() - part * float(np.ptp(depth))


def _bottom(points: Floats) -> tuple[Ints, str]:
    """Return enough of the lowest vertices to fix the body, and a description of them."""
    for part in THICKNESS:
        held = _side(points, "bottom", part)
        if not _collinear(points[held]) and not held.all():
            return np.flatnonzero(held), f"the lowest {100 * part:.0f} %"
    raise SuppleError("the bottom cannot hold the body; use --fixed with a place, or --fixed none")


def _check_pieces(mesh: Mesh, held: Ints) -> None:
    """Refuse a mesh with a disconnected piece that has no fixed vertex."""
    pieces = mesh.components()
    elements = mesh.tets if isinstance(mesh, TetMesh) else mesh.hexes
    is_held = np.zeros(len(mesh.vertices), bool)
    is_held[held] = True
    fixed_pieces = np.zeros(int(pieces.max()) + 1, bool)
    fixed_pieces[pieces[is_held[elements].any(axis=1)]] = True
    if not fixed_pieces.all():
        element = int((pieces == int(fixed_pieces.argmin())).argmax())
        raise SuppleError(
            f"the piece of the mesh with element {element} has no fixed vertex; fix some of it "
            "with --fixed, or remove it"
        )


def _collinear(points: Floats) -> bool:
    if len(points) < 3:
        return True
    sizes = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return not bool(sizes[1] > COLLINEAR * sizes[0])
