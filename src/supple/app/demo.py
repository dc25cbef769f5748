"""`supple demo`: a built-in character comes alive, and a report that opens in any browser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.app.contact_demo import CONTACT_DEMOS, run_contact_demo
from supple.app.demo_files import DemoClock, demo_folder
from supple.playback.progress_bar import console, task_bar, working
from supple.scenes.contact.contact_scene import CONTACT_SCENES

if TYPE_CHECKING:
    from supple.engines.pose_space.model.model import PoseSpaceModel
    from supple.rig.baked_motion import BakedMotion

SCENE = "gorilla"
#: Frames per second.
RATE = 30.0
#: Steps whose time is taken.
TIMED = 200
#: Where the page's camera stands, in degrees, if not as on sheets: between the ways it faces.
PAGE_AZIMUTHS = {"gorilla": 55.0}


def run_demo(
    output: Path,
    *,
    scene: str = SCENE,
    tets: int | None = None,
    quiet: bool = False,
    **recipe: Any,
) -> dict[str, Any]:
    """Make the demonstration's files in `output`, and return its figures.

    Parameters
    ----------
    output
        A folder, made if need be: filmstrip.png, SCENE_soft.glb and report.html go there.
    scene
        One of `supple.scenes.SCENES` or `CONTACT_SCENES`; those of the latter, and hand and human,
        touch things: see `run_contact_demo`.
    tets
        How many to simulate; by default the paper's.
    quiet
        Show nothing.
    **recipe
        More that differs from the scene's recipe, such as ``modes=8``.
    """
    from supple.playback.character_models import scene_model_file
    from supple.playback.character_sources import load_character_model

    if scene in (*CONTACT_DEMOS, *CONTACT_SCENES):
        return run_contact_demo(output, scene, tets=tets, quiet=quiet, **recipe)
    with demo_folder(output):
        clock = DemoClock()
        changes = recipe | ({} if tets is None else {"tets": int(tets)})
        with clock("building"):
            _sculpt(scene, quiet)
            with scene_model_file(scene, quiet=quiet, **changes) as path:
                model, megabytes = load_character_model(path), path.stat().st_size / 1e6
        with clock("simulating"):
            baked = _baked(scene, model, quiet)
            step_ms = _step_ms(model, baked)
        figures = _statistics(scene, model, megabytes, step_ms)
        files = _Files(output, scene)
        written = files.written(baked, figures, clock, quiet)
    if not quiet:
        _tell(figures, files, written, clock)
    return figures | written | {"seconds": clock.seconds, "files": files.names}


def _sculpt(name: str, quiet: bool) -> None:
    from supple.scenes.characters.character_scene import scene

    with working(f"sculpting the {name}", quiet):
        scene(name)


def _baked(name: str, model: PoseSpaceModel, quiet: bool) -> BakedMotion:
    from supple.playback.baking import bake
    from supple.scenes.characters.character_scene import scene

    with _bar("simulating", quiet) as tell:
        return bake(
            scene(name).character,
            model=model,
            rate=RATE,
            progress=lambda part, what: tell(part),
        )


def _step_ms(model: PoseSpaceModel, baked: BakedMotion) -> float:
    """Return the median time of whole steps, skin included, in ms."""
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
    name: str, model: PoseSpaceModel, megabytes: float, step_ms: float
) -> dict[str, Any]:
    """Return our figures, each with the paper's after it (xu2016 Tables 1 to 3)."""
    from supple.scenes.characters.character_scene import scene

    paper = scene(name).paper
    return {
        "tets": len(model.mesh.tets),
        "paper_tets": paper.tets,
        "tet_vertices": len(model.mesh.vertices),
        "paper_tet_vertices": paper.tet_vertices,
        "surface_vertices": len(model.surface.vertices),
        "paper_surface_vertices": paper.surface_vertices,
        "modes": model.n_modes,
        "paper_modes": paper.modes,
        "regions": len(model.regions),
        "paper_regions": paper.regions,
        "poses": model.n_poses,
        "paper_poses": paper.poses,
        "cubature_tets": len(model.elastic_tets),
        "paper_cubature_tets": paper.elastic_cubature,
        "cubature_vertices": len(model.inertial_vertices),
        "paper_cubature_vertices": paper.inertial_cubature,
        "model_mb": round(megabytes, 2),
        "paper_model_mb": paper.megabytes,
        "step_ms": round(step_ms, 3),
        "paper_step_ms": paper.milliseconds,
    }


@dataclass
class _Files:
    """Files that are written."""

    folder: Path
    scene: str

    @property
    def strip(self) -> Path:
        return self.folder / "filmstrip.png"

    @property
    def character(self) -> Path:
        return self.folder / f"{self.scene}_soft.glb"

    @property
    def page(self) -> Path:
        return self.folder / "report.html"

    @property
    def names(self) -> list[str]:
        return [str(path) for path in (self.page, self.strip, self.character)]

    def written(
        self, baked: BakedMotion, figures: dict[str, Any], clock: DemoClock, quiet: bool
    ) -> dict[str, Any]:
        """Write all, each whole or not at all; figures of each."""
        from supple.app.pictures.filmstrip import filmstrip
        from supple.app.pictures.scene_sheet import AZIMUTHS
        from supple.app.report.report_page import write_page
        from supple.formats.save import save

        azimuth = AZIMUTHS.get(self.scene, 35)
        with clock("filmstrip"), _bar("drawing the filmstrip", quiet) as tell:
            strip = filmstrip(self.strip, baked, azimuth=azimuth, tell=tell)
        with clock("character"), working(f"writing {self.character.name}", quiet):
            character = save(self.character, baked)
        with clock("page"), _bar("writing the report", quiet) as tell:
            page = write_page(
                self.page,
                baked,
                figures,
                {"The rig alone above, with flesh below": self.strip},
                azimuth=PAGE_AZIMUTHS.get(self.scene, azimuth),
                tell=tell,
            )
        character.pop("path", None)
        return {"filmstrip": strip, "character": character, "page": page}


@contextmanager
def _bar(what: str, quiet: bool) -> Iterator[Callable[[float], None]]:
    with task_bar(quiet) as tell:
        tell(0.0, what)
        yield lambda part: tell(part, what)


def _tell(
    figures: dict[str, Any], files: _Files, written: dict[str, Any], clock: DemoClock
) -> None:
    """Print a table beside the paper's row, on standard output; files made, on standard error."""
    from rich.console import Console
    from rich.table import Table

    from supple.app.report.figure_tables import grids

    for _, headings, rows in grids(figures):
        table = Table(title=f"the {files.scene}, beside the paper's", title_justify="left")
        for at, heading in enumerate(headings):
            table.add_column(heading, justify="left" if at == 0 else "right")
        for row in rows:
            table.add_row(*row)
        Console(highlight=False).print(table)
    sizes = {path: f"{os.path.getsize(path) / 1e6:.1f} MB" for path in files.names}
    far = 100 * written["filmstrip"]["farthest_m"]
    total = sum(clock.seconds.values())
    console.print(f"flesh swings up to {far:.1f} cm beside the rig; {total:.0f} s in all")
    for path, size in sizes.items():
        console.print(f"wrote {path} ({size})", markup=False, soft_wrap=True)
    address = files.page.resolve().as_uri()
    console.print(f"open the report in a browser: {address}", markup=False, soft_wrap=True)
