"""`supple view`: serve the viewer of a file, a scene, a model or a body until Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.region_entries import RegionEntry
from supple.app.bodies.make_body import prepared_body
from supple.app.body_options import body_options, motion_name
from supple.app.character_models import (
    CharacterSource,
    chosen_anatomy,
    prepared_model,
    read_character,
    stepped_by,
)
from supple.app.command_files import is_body
from supple.app.contact_options import ContactOptions
from supple.app.progress_bar import console, first_use_message, working
from supple.app.viewer.session.anatomy_editing import AnatomyEditing
from supple.app.viewer.session.body_actor import BodyActor
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.session import Actor, Session
from supple.engines.engine import FIRST_ENGINE, Engine, engine_named
from supple.errors import SuppleError
from supple.playback.bake_model import GivenAnatomy
from supple.playback.motion_choice import chosen_motion
from supple.reduction.build_log import BuildLog

#: Seconds between polls of the clock's thread.
PATIENCE = 0.5


def run_view(
    given: str,
    *,
    engine: str = FIRST_ENGINE,
    free: Sequence[str] | None = None,
    anatomy: str | None = None,
    unit: str | None = None,
    motion: str | None = None,
    betas: str | None = None,
    armature: str | None = None,
    flesh: str = "normal",
    model: Path | None = None,
    touch: ContactOptions | None = None,
    folder: Path | None = None,
    clay: bool = False,
    host: str = "127.0.0.1",
    port: int = 8080,
    stats: bool = False,
    seconds: float | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Serve the page of a character or an elastic body until it is closed.

    Parameters
    ----------
    given
        A file, a scene or a model; a model is built and cached if there is none.
    engine
        Of the character, as for `supple.bake`; a body or a model determines its engine.
    free
        Controls that physics moves, for engines with free controls.
    anatomy
        ``"auto"``, ``"none"`` or a file of regions.
    unit
        Unit of the character's file, such as "cm"; by default the one in the file.
    motion, flesh, betas, armature, touch
        As for `supple bake`; for characters only.
    model
        Model file of the character, used instead of a new build.
    folder
        For recordings and anatomy files; by default the current folder.
    clay
        Start with the colouring "clay" instead of the file's own colours.
    host, port
        Address to serve at; a port in use is replaced by the next free one.
    stats, quiet, seconds
        Print costs every few seconds; print only the address; end after this time.

    Returns
    -------
    dict
        Steps, updates and their costs; for a character its stiffness factor.
    """
    from supple.app.viewer.server import check_viser, free_port

    body = is_body(given)
    options: dict[str, Any] = {"engine": engine, "anatomy": anatomy, "unit": unit, "motion": motion}
    options |= {"flesh": flesh, "model": model, "free": free, "betas": betas}
    options |= {"touch": None if touch == ContactOptions() else touch, "armature": armature}
    target = Path.cwd() if folder is None else folder
    if body:
        _check_body_options(given, **options, folder=folder)
    else:
        _check_free(engine_named(engine, "character"), free)
        _check_folder(target)
    check_viser()
    free_port(host, port)  # raises before the build rather than after it
    first_use_message(quiet)
    from supple.app.viewer.page import Page

    actor: Actor = _body(given, quiet) if body else _character(given, quiet, **options)
    with working("starting", quiet):
        page = Page(Session(actor), host=host, port=port, folder=target, clay=clay)
    with page:
        print(page.address, flush=True)
        if not quiet:
            console.print(f"open {page.address} in a browser; Ctrl-C ends it")
        _serve(page, stats, seconds)
    return _figures(page)


def _check_body_options(given: str, **others: Any) -> None:
    usual = {"engine": FIRST_ENGINE, "flesh": "normal"}
    for name, value in others.items():
        if value != usual.get(name):
            option = "contact" if name == "touch" else f"--{name}"
            raise SuppleError(f"{given}: is an elastic body; {option} is for characters")


def _check_folder(folder: Path) -> None:
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise SuppleError(
            f"{folder}: cannot save recordings there; use --folder with a writable one"
        )


def _check_free(row: Engine, free: Sequence[str] | None) -> None:
    if free is not None and "free" not in row.build_options:
        raise SuppleError(f"--free: {row.name} has no free controls; use --engine rig-space")


def _body(given: str, quiet: bool) -> BodyActor:
    body = prepared_body(given, quiet=quiet)
    with working("starting", quiet):
        return BodyActor(body)


def _character(
    given: str,
    quiet: bool,
    *,
    engine: str = FIRST_ENGINE,
    free: Sequence[str] | None = None,
    anatomy: str | None = None,
    unit: str | None = None,
    motion: str | None = None,
    betas: str | None = None,
    armature: str | None = None,
    flesh: str = "normal",
    model: Path | None = None,
    touch: ContactOptions | None = None,
) -> CharacterActor:
    with working("reading", quiet):
        source = read_character(given, unit, **body_options(motion, betas, armature))
        motion = motion_name(motion)
        chosen_motion(source.character, motion)
        chosen = chosen_anatomy(anatomy, source, model)
        row, touch = engine_named(engine, "character"), touch or ContactOptions()
        built = model is None and source.model is None
        simulation = touch.stepping(row) if built else {}
    from supple.app.curve_making import free_names

    names = free_names(free)
    ready = prepared_model(
        source, model=model, flesh=flesh, engine=engine, free=names, anatomy=chosen, quiet=quiet
    )
    if not built:  # a model file determines the engine
        row = stepped_by(row, ready.model)
        engine, simulation = row.name, touch.stepping(row)
    with working("starting", quiet):
        editing = _editing(source, model, chosen, engine=engine, free=names, flesh=flesh)
        return CharacterActor(
            ready.model,
            motion,
            character=source.character,
            engine=engine,
            flesh=flesh,
            scaled_loads=ready.scaled_loads,
            anatomy=editing,
            simulation=simulation,
        )


def _editing(
    source: CharacterSource, model: Path | None, anatomy: GivenAnatomy, **options: Any
) -> AnatomyEditing:
    """Return the character's anatomy, with a function that rebuilds the model."""

    def rebuild(entries: Mapping[str, RegionEntry], log: BuildLog) -> Any:
        return prepared_model(source, anatomy=entries, log=log, **options).model

    entries = anatomy if isinstance(anatomy, Mapping) else None
    from_file = model is not None or source.model is not None  # its options are unknown
    return AnatomyEditing(
        source.character,
        anatomy_of(source.character, entries=entries),
        built=anatomy is not None,
        rebuild=None if from_file else rebuild,
    )


def _serve(page: Any, stats: bool, seconds: float | None) -> None:
    waited, printed = 0.0, 0.0
    try:
        while not page.clock.wait(PATIENCE):
            waited += PATIENCE
            if stats and page.costs is not None and waited - printed >= 5.0:
                printed = waited
                console.print(page.costs.text())
            if seconds is not None and waited >= seconds:
                return
    except KeyboardInterrupt:
        return
    raise SuppleError(f"the simulation ended ({page.clock.failure})")


def _figures(page: Any) -> dict[str, Any]:
    meter, costs = page.session.meter, page.costs
    figures = {"address": page.address, "steps": meter.total_steps, "updates": meter.total_updates}
    if isinstance(page.session.actor, CharacterActor):
        figures["stiffness"] = round(page.session.actor.factor, 4)
    if costs is None:  # no page was opened
        return figures
    return figures | {
        "step_ms": round(costs.step_ms, 3),
        "skin_ms": round(costs.skin_ms, 3),
        "update_ms": round(costs.update_ms, 3),
        "updates_per_second": round(costs.updates, 1),
        "processor": round(costs.processor, 3),
    }
