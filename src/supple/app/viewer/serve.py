"""`supple view`: a file, a scene, a model or a body in, a page out, until Ctrl-C."""

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
from supple.app.viewer.session.body_subject import BodySubject
from supple.app.viewer.session.character_subject import CharacterSubject
from supple.app.viewer.session.session import Session
from supple.app.viewer.session.subject import Subject
from supple.engines.engine import FIRST_ENGINE, Engine, engine_named
from supple.errors import SuppleError
from supple.playback.bake_model import GivenAnatomy
from supple.playback.motion_choice import chosen_motion
from supple.reduction.build_log import BuildLog

#: Seconds between looks at whether it is to end.
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
    """Serve the page of a character or an elastic body until it is ended.

    Parameters
    ----------
    given
        A file, a scene or a model; what has no model yet gets one, which is kept.
    engine
        Of the character, as for `supple.bake`; bodies and models have the one that suits them.
    free
        Controls that physics moves, of engines that have any.
    anatomy
        ``"auto"``, ``"none"`` or a file of regions.
    unit
        Unit of the character's file, such as "cm"; by default what it says.
    motion, flesh, betas, armature, touch
        As for `supple bake`; elastic bodies have none.
    model
        A model file to use instead of building one, of a character.
    folder
        For recordings and anatomy files; by default the current one.
    clay
        Show a character in clay at first, though it has colours of its own.
    host, port
        Address to serve at; the next free port if that one is taken.
    stats, quiet, seconds
        Print what it costs every few seconds; say nothing but the address; end after so long.

    Returns
    -------
    dict
        Steps, updates and what they cost; of a character how many times as stiff it was made.
    """
    from supple.app.viewer.server import check_viser, free_port

    body = is_body(given)
    own: dict[str, Any] = {"engine": engine, "anatomy": anatomy, "unit": unit, "motion": motion}
    own |= {"flesh": flesh, "model": model, "free": free, "betas": betas}
    own |= {"touch": None if touch == ContactOptions() else touch, "armature": armature}
    target = Path.cwd() if folder is None else folder
    if body:
        _check_body_options(given, **own, folder=folder)
    else:
        _check_free(engine_named(engine, "character"), free)
        _check_folder(target)
    check_viser()
    free_port(host, port)  # better now than after the build
    first_use_message(quiet)
    from supple.app.viewer.page import Page  # which needs viser

    subject: Subject = _body(given, quiet) if body else _character(given, quiet, **own)
    with working("starting", quiet):
        page = Page(Session(subject), host=host, port=port, folder=target, clay=clay)
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
            word = "what it touches" if name == "touch" else f"--{name}"
            raise SuppleError(f"{given}: is an elastic body; {word} is for characters")


def _check_folder(folder: Path) -> None:
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise SuppleError(
            f"{folder}: recordings cannot be saved there; give a folder with --folder"
        )


def _check_free(row: Engine, free: Sequence[str] | None) -> None:
    if free is not None and "free" not in row.build_options:
        raise SuppleError(f"--free: {row.name} moves no controls; use --engine rig-space")


def _body(given: str, quiet: bool) -> BodySubject:
    body = prepared_body(given, quiet=quiet)
    with working("starting", quiet):
        return BodySubject(body)


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
) -> CharacterSubject:
    with working("reading", quiet):
        source = read_character(given, unit, **body_options(motion, betas, armature))
        motion = motion_name(motion)
        chosen_motion(source.character, motion)
        chosen = chosen_anatomy(anatomy, source, model)
        row, touch = engine_named(engine, "character"), touch or ContactOptions()
        built = model is None and source.model is None
        around = touch.stepping(row) if built else {}
    from supple.app.curve_making import free_names

    names = free_names(free)
    ready = prepared_model(
        source, model=model, flesh=flesh, engine=engine, free=names, anatomy=chosen, quiet=quiet
    )
    if not built:  # a file's engine is what it is
        row = stepped_by(row, ready.model)
        engine, around = row.name, touch.stepping(row)
    with working("starting", quiet):
        editing = _editing(source, model, chosen, engine=engine, free=names, flesh=flesh)
        return CharacterSubject(
            ready.model,
            motion,
            character=source.character,
            engine=engine,
            flesh=flesh,
            scaled_loads=ready.scaled_loads,
            anatomy=editing,
            simulation=around,
        )


def _editing(
    source: CharacterSource, model: Path | None, anatomy: GivenAnatomy, **options: Any
) -> AnatomyEditing:
    """Return the character's anatomy, and how to build with another."""

    def rebuild(entries: Mapping[str, RegionEntry], log: BuildLog) -> Any:
        return prepared_model(source, anatomy=entries, log=log, **options).model

    told = anatomy if isinstance(anatomy, Mapping) else None
    known = model is not None or source.model is not None  # nobody knows how it was built
    return AnatomyEditing(
        source.character,
        anatomy_of(source.character, entries=told),
        built=anatomy is not None,
        rebuild=None if known else rebuild,
    )


def _serve(page: Any, stats: bool, seconds: float | None) -> None:
    waited, told = 0.0, 0.0
    try:
        while not page.clock.wait(PATIENCE):
            waited += PATIENCE
            if stats and page.costs is not None and waited - told >= 5.0:
                told = waited
                console.print(page.costs.line())
            if seconds is not None and waited >= seconds:
                return
    except KeyboardInterrupt:
        return  # that is how it ends
    raise SuppleError(f"the simulation ended ({page.clock.failure})")


def _figures(page: Any) -> dict[str, Any]:
    meter, costs = page.session.meter, page.costs
    figures = {"address": page.address, "steps": meter.total_steps, "updates": meter.total_updates}
    if isinstance(page.session.subject, CharacterSubject):
        figures["stiffness"] = round(page.session.subject.factor, 4)
    if costs is None:  # nobody came
        return figures
    return figures | {
        "step_ms": round(costs.step_ms, 3),
        "skin_ms": round(costs.skin_ms, 3),
        "update_ms": round(costs.update_ms, 3),
        "updates_per_second": round(costs.updates, 1),
        "processor": round(costs.processor, 3),
    }
