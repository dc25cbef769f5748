"""`supple demo` of a hand or a body that touches things: a page, pictures and forces."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.demo_files import DemoClock, demo_folder
from supple.playback.progress_bar import console, first_use_message, working

#: Contact scene that is shown of a character.
CONTACT_DEMOS = {"hand": "hand-ball", "human": "body-fall"}
RATE = 30.0


def run_contact_demo(
    output: Path, name: str, *, tets: int | None = None, quiet: bool = False, **recipe: Any
) -> dict[str, Any]:
    """Play a contact scene, write its files into `output`, and return figures.

    Parameters
    ----------
    output
        A folder, made if need be: contact.png, CHARACTER_soft.glb and report.html go there.
    name
        One of `CONTACT_SCENES`, or "hand" or "human".
    tets
        How many to build with; by default the scene's.
    quiet
        Show nothing.
    **recipe
        More options of the builder.
    """
    from supple.playback.character_models import scene_model_file
    from supple.playback.character_sources import load_character_model
    from supple.scenes.contact.contact_scene import contact_scene

    with demo_folder(output):
        first_use_message(quiet)
        clock = DemoClock()
        with clock("building"):
            with working("sculpting", quiet):
                shown = contact_scene(CONTACT_DEMOS.get(name, name))
            changes = recipe | ({} if tets is None else {"tets": int(tets)})
            who = shown.scene.name
            with scene_model_file(who, engine="soft-skeleton", quiet=quiet, **changes) as path:
                model, megabytes = load_character_model(path), path.stat().st_size / 1e6
        with clock("simulating"), working("simulating", quiet):
            began = perf_counter()
            record = shown.record(shown.simulator(model), RATE)
            step_ms = 1e3 * (perf_counter() - began) / (len(record.step_times) - 1)
        strength = np.linalg.norm(record.forces, axis=1)
        figures = {
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
        files = _written(output, shown, record, figures, clock, quiet)
    if not quiet:
        _tell(figures, files)
    return figures | {"seconds": clock.seconds, "files": [str(path) for path in files]}


def _written(
    output: Path, shown: Any, record: Any, figures: dict[str, Any], clock: DemoClock, quiet: bool
) -> list[Path]:
    """Write picture, character and page, each whole or not at all."""
    from supple.app.pictures.scene_sheet import contact_strip
    from supple.app.report.report_page import write_page
    from supple.formats.save import save
    from supple.rig.baked_motion import BakedMotion
    from supple.rig.motion.motion import Motion

    character = shown.scene.character
    poses, roots = shown.motion.at(np.minimum(shown.start + record.times, shown.motion.duration))
    motion = Motion(record.times, poses, roots, shown.motion.name)
    baked = BakedMotion(character, motion, record.skins, RATE)
    picture = output / "contact.png"
    glb, page = output / f"{character.name}_soft.glb", output / "report.html"
    with clock("picture"), working("drawing", quiet):
        contact_strip(picture, shown, record)
    with clock("character"), working(f"writing {glb.name}", quiet):
        save(glb, baked)
    with clock("page"), working("writing the report", quiet):
        pictures: dict[str, Path | bytes] = {shown.description: picture}
        write_page(page, baked, figures, pictures, azimuth=shown.azimuth)
    return [page, picture, glb]


def _tell(figures: dict[str, Any], files: list[Path]) -> None:
    """Print figures on standard output, files made on standard error."""
    for key, value in figures.items():
        print(f"{key.replace('_', ' ')}: {value}")
    for path in files:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        console.print(f"wrote {path} ({size})", markup=False, soft_wrap=True)
