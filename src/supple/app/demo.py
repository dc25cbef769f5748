"""`supple demo`: play a built-in character and write a report that opens in any browser."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.errors import SuppleError
from supple.playback.progress_bar import console, first_use_message, task_bar, working
from supple.scenes.contact.contact_scene import CONTACT_SCENES

if TYPE_CHECKING:
    from supple.engines.pose_space.model.model import PoseSpaceModel
    from supple.rig.baked_motion import BakedMotion
    from supple.scenes.characters.character_scene import Scene
    from supple.scenes.contact.contact_scene import ContactRecord, ContactScene

SCENE = "gorilla"
#: Contact scenes that show a character.
CONTACT_DEMOS = {"hand": "hand-ball", "human": "body-fall"}
#: Frames per second, and number of steps that are timed.
RATE, TIMED = 30.0, 200
#: Azimuth in degrees of the page's camera, where it differs from that of the sheets.
PAGE_AZIMUTHS = {"gorilla": 55.0}


def run_demo(
    output: Path,
    *,
    scene: str = SCENE,
    tets: int | None = None,
    quiet: bool = False,
    **recipe: Any,
) -> dict[str, Any]:
    """Write the files of a demonstration into the folder `output`; return sizes and times.

    `scene` is one of `supple.scenes.SCENES`, which writes filmstrip.png, or of `CONTACT_SCENES` and
    `CONTACT_DEMOS`, which writes contact.png; both write NAME_soft.glb and report.html. `tets` and
    other options of the builder, such as ``modes=8``, override the scene's recipe.
    """
    changes = recipe | ({} if tets is None else {"tets": int(tets)})
    with _folder(output):
        if scene in (*CONTACT_DEMOS, *CONTACT_SCENES):
            return _contact_demo(output, CONTACT_DEMOS.get(scene, scene), changes, quiet)
        return _character_demo(output, scene, changes, quiet)


@contextmanager
def _folder(output: Path) -> Iterator[None]:
    """Create the folder and check that it is writable; after an error remove it if it is empty."""
    if output.exists() and not output.is_dir():
        raise SuppleError(f"{output}: is a file; choose a folder with --output")
    created = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SuppleError(
            f"{output}: cannot be written to ({why}); choose another --output"
        ) from None
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # a folder with files stays
            for folder in created:
                folder.rmdir()
        raise


@dataclass
class _Clock:
    """Wall-clock seconds of the demonstration's parts."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        began = perf_counter()
        yield
        self.seconds[part] = round(perf_counter() - began, 2)


@contextmanager
def _bar(what: str, quiet: bool) -> Iterator[Callable[[float], None]]:
    with task_bar(quiet) as progress:
        progress(0.0, what)
        yield lambda part: progress(part, what)


def _built_model(name: str, quiet: bool, **changes: Any) -> tuple[Any, float]:
    """Return the model of a scene, and the size of its file in MB."""
    from supple.playback.character_models import scene_model_file
    from supple.playback.character_sources import load_character_model

    with scene_model_file(name, quiet=quiet, **changes) as path:
        return load_character_model(path), path.stat().st_size / 1e6


def _print_files(files: list[Path]) -> None:
    for path in files:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        console.print(f"wrote {path} ({size})", markup=False, soft_wrap=True)


# A character that moves ------------------------------------------------------------------------


def _character_demo(
    output: Path, name: str, changes: dict[str, Any], quiet: bool
) -> dict[str, Any]:
    from supple.playback.baking import bake
    from supple.scenes.characters.character_scene import scene

    clock = _Clock()
    with clock("building"):
        with working(f"sculpting the {name}", quiet):
            shown = scene(name)
        model, megabytes = _built_model(name, quiet, **changes)
    with clock("simulating"):
        with _bar("simulating", quiet) as progress:
            baked = bake(
                shown.character, model=model, rate=RATE, progress=lambda part, what: progress(part)
            )
        step_ms = _step_ms(model, baked)
    figures = _statistics(shown, model, megabytes, step_ms)
    files = [output / each for each in ("report.html", "filmstrip.png", f"{name}_soft.glb")]
    written = _write(files, name, baked, figures, clock, quiet)
    if not quiet:
        _print_figures(name, figures)
        far = 100 * written["filmstrip"]["farthest_m"]
        total = sum(clock.seconds.values())
        console.print(f"flesh moves up to {far:.1f} cm away from the rig; {total:.0f} s in all")
        _print_files(files)
        address = files[0].resolve().as_uri()
        console.print(f"open the report in a browser: {address}", markup=False, soft_wrap=True)
    return figures | written | {"seconds": clock.seconds, "files": [str(path) for path in files]}


def _step_ms(model: PoseSpaceModel, baked: BakedMotion) -> float:
    """Return the median time of a step with its skin, in ms."""
    from supple.engines.factory import Simulator

    motion = baked.motion.resample(90)
    simulator, out = Simulator(model, 1 / 90), np.empty(baked.frames.shape[1:], np.float32)
    simulator.reset(motion.poses[0], motion.roots[0])
    seconds = []
    for pose, root in zip(motion.poses[:TIMED], motion.roots[:TIMED], strict=True):
        began = perf_counter()
        simulator.step(pose, root)
        simulator.surface(out)
        seconds.append(perf_counter() - began)
    return 1e3 * float(np.median(seconds))


def _statistics(
    shown: Scene, model: PoseSpaceModel, megabytes: float, step_ms: float
) -> dict[str, Any]:
    """Return our sizes and times, each followed by the paper's (xu2016 Tables 1 to 3)."""
    paper = shown.paper
    rows = (
        ("tets", len(model.mesh.tets), paper.tets),
        ("tet_vertices", len(model.mesh.vertices), paper.tet_vertices),
        ("surface_vertices", len(model.surface.vertices), paper.surface_vertices),
        ("modes", model.n_modes, paper.modes),
        ("regions", len(model.regions), paper.regions),
        ("poses", model.n_poses, paper.poses),
        ("cubature_tets", len(model.elastic_tets), paper.elastic_cubature),
        ("cubature_vertices", len(model.inertial_vertices), paper.inertial_cubature),
        ("model_mb", round(megabytes, 2), paper.megabytes),
        ("step_ms", round(step_ms, 3), paper.milliseconds),
    )
    figures: dict[str, Any] = {}
    for name, ours, theirs in rows:
        figures |= {name: ours, f"paper_{name}": theirs}
    return figures


def _write(
    files: list[Path],
    name: str,
    baked: BakedMotion,
    figures: dict[str, Any],
    clock: _Clock,
    quiet: bool,
) -> dict[str, Any]:
    """Write page, filmstrip and character, each atomically; return the figures of each writer."""
    from supple.app.pictures.filmstrip import filmstrip
    from supple.app.pictures.scene_sheet import AZIMUTHS
    from supple.app.report.report_page import write_page
    from supple.formats.save import save

    page, strip, character = files
    azimuth = AZIMUTHS.get(name, 35)
    written: dict[str, Any] = {}
    with clock("filmstrip"), _bar("drawing the filmstrip", quiet) as progress:
        written["filmstrip"] = filmstrip(strip, baked, azimuth=azimuth, progress=progress)
    with clock("character"), working(f"writing {character.name}", quiet):
        written["character"] = save(character, baked)
    with clock("page"), _bar("writing the report", quiet) as progress:
        pictures: dict[str, Path | bytes] = {"The rig alone above, with flesh below": strip}
        azimuth = PAGE_AZIMUTHS.get(name, azimuth)
        written["page"] = write_page(
            page, baked, figures, pictures, azimuth=azimuth, progress=progress
        )
    written["character"].pop("path", None)
    return written


def _print_figures(name: str, figures: dict[str, Any]) -> None:
    """Print a table of our numbers and the paper's, on standard output."""
    from rich.console import Console

    from supple.app.report.figure_tables import grids, rich_table

    for _, headings, rows in grids(figures):
        table = rich_table(f"the {name}, ours and the paper's", headings, rows)
        Console(highlight=False).print(table)


# A hand or a body that touches objects ---------------------------------------------------------


def _contact_demo(output: Path, name: str, changes: dict[str, Any], quiet: bool) -> dict[str, Any]:
    from supple.scenes.contact.contact_scene import contact_scene

    first_use_message(quiet)
    clock = _Clock()
    with clock("building"):
        with working("sculpting", quiet):
            shown = contact_scene(name)
        who = shown.scene.name
        model, megabytes = _built_model(who, quiet, engine="soft-skeleton", **changes)
    with clock("simulating"), working("simulating", quiet):
        began = perf_counter()
        record = shown.record(shown.simulator(model), RATE)
        step_ms = 1e3 * (perf_counter() - began) / (len(record.step_times) - 1)
    strength = np.linalg.norm(record.forces, axis=1)
    figures: dict[str, Any] = {
        "scene": shown.name,
        "surface_vertices": len(model.surface.vertices),
        "paper_surface_vertices": shown.scene.paper.surface_vertices,
        **{key: value for key, value in model.figures.items() if np.isscalar(value)},
        "model_mb": round(megabytes, 2),
        "step_ms": round(step_ms, 2),
        "strongest_n": round(float(strength.max()), 2),
        "strongest_at_s": round(float(record.step_times[strength.argmax()]), 3),
        "last_n": round(float(strength[-1]), 2),
        "limits": list(record.limits),
    }
    files = _write_contact(output, shown, record, figures, clock, quiet)
    if not quiet:
        for key, value in figures.items():
            print(f"{key.replace('_', ' ')}: {value}")
        _print_files(files)
    return figures | {"seconds": clock.seconds, "files": [str(path) for path in files]}


def _write_contact(
    output: Path,
    shown: ContactScene,
    record: ContactRecord,
    figures: dict[str, Any],
    clock: _Clock,
    quiet: bool,
) -> list[Path]:
    """Write page, picture and character, each atomically; return their paths."""
    from supple.app.pictures.scene_sheet import contact_strip
    from supple.app.report.report_page import write_page
    from supple.formats.save import save
    from supple.playback.obstacles.recording import baked_colliders
    from supple.rig.baked_motion import BakedMotion
    from supple.rig.motion.motion import Motion

    character = shown.scene.character
    poses, roots = shown.motion.at(np.minimum(shown.start + record.times, shown.motion.duration))
    motion = Motion(record.times, poses, roots, shown.motion.name)
    middle = record.skins.reshape(-1, 3).mean(axis=0, dtype=np.float64)
    obstacles = baked_colliders(shown.colliders, record.places, len(shown.obstacles), middle)
    baked = BakedMotion(character, motion, record.skins, RATE, obstacles=obstacles)
    page, picture = output / "report.html", output / "contact.png"
    glb = output / f"{character.name}_soft.glb"
    with clock("picture"), working("drawing", quiet):
        contact_strip(picture, shown, record)
    with clock("character"), working(f"writing {glb.name}", quiet):
        save(glb, baked, with_obstacles=True)
    with clock("page"), working("writing the report", quiet):
        pictures: dict[str, Path | bytes] = {shown.description: picture}
        write_page(page, baked, figures, pictures, azimuth=shown.azimuth)
    return [page, picture, glb]
