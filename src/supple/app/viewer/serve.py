"""`supple view`: serve the viewer of a file, a scene, a model or a body until Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.region_entries import RegionEntry
from supple.app.bodies.make_body import prepared_body_and_mesh
from supple.app.contact_options import ContactOptions
from supple.app.model_request import command_model, flesh_values, with_kept_feel
from supple.app.options import ViewOptions
from supple.app.viewer.session.anatomy_editing import AnatomyEditing
from supple.app.viewer.session.body_actor import BodyActor
from supple.app.viewer.session.body_sketch import BodySketch
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.session import Actor, Session
from supple.engines.engine import Engine, engine_named
from supple.engines.options import without_none
from supple.errors import SuppleError
from supple.playback.bake_plan import bake_plan
from supple.playback.character_models import PreparedModel, prepared_model, stepped_by
from supple.playback.character_sources import CharacterSource, is_body, read_character
from supple.playback.feel.feel import file_feel
from supple.playback.obstacles.words import placed_options
from supple.playback.progress_bar import console, first_use_message, working
from supple.reduction.build_log import BuildLog
from supple.rig.motion.pose_stream import PoseStream

#: Seconds between polls of the clock's thread.
PATIENCE = 0.5


def run_view(
    given: str,
    options: ViewOptions | None = None,
    touch: ContactOptions | None = None,
    *,
    folder: Path | None = None,
    clay: bool = False,
    host: str = "127.0.0.1",
    port: int = 8080,
    stats: bool = False,
    seconds: float | None = None,
    stream: int | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Serve the page of a file, a scene, a model or a body until it is closed; return its costs.

    `options` and `touch` are for characters only. `folder`, for recordings and anatomy files, is by
    default the current one. `stats` prints costs every few seconds, `seconds` ends the page after
    this time, and `quiet` prints only the address. `stream` is a port at which the character's
    poses arrive.
    """
    from supple.app.viewer.server import check_viser, free_port

    body = is_body(given)
    options, touch = options or ViewOptions(), touch or ContactOptions()
    target = Path.cwd() if folder is None else folder
    if body:
        _check_body_options(given, options, touch, folder)
    else:
        row = engine_named(options.engine, "character")
        for name in ("free", "bounds"):
            if getattr(options, name) is not None and name not in row.build_options:
                what = f"--{name}: {row.name} has no free controls"
                raise SuppleError(f"{what}; use --engine rig-space")
        if not (target.is_dir() and os.access(target, os.W_OK)):
            raise SuppleError(
                f"{target}: cannot save recordings there; use --folder with a writable one"
            )
    if stream is not None and body:
        raise SuppleError(f"{given}: is an elastic body; --stream is for characters")
    check_viser()
    free_port(host, port)  # raises before the build rather than after it
    first_use_message(quiet)
    from supple.app.viewer.page import Page

    if body:
        model, mesh = prepared_body_and_mesh(given, quiet=quiet)
        with working("starting", quiet):
            sketch = None if mesh is None else BodySketch(model, mesh, Path(given).stem)
            actor: Actor = BodyActor(model, sketch)
    else:
        actor = _character(given, options, touch, quiet)
    with working("starting", quiet), ExitStack() as opened:
        session = Session(actor)
        if stream is not None:
            poses = opened.enter_context(PoseStream(actor.model.rig, stream))
            session.feeds.append(partial(follow, actor, poses))
            print(f"poses at udp://127.0.0.1:{poses.port}", flush=True)
        page = Page(session, host=host, port=port, folder=target, clay=clay)
        resources = opened.pop_all()
    with resources, page:
        print(page.address, flush=True)
        if not quiet:
            console.print(f"open {page.address} in a browser; Ctrl-C ends it")
        _serve(page, stats, seconds)
    return _figures(page)


def follow(actor: Any, poses: PoseStream) -> bool:
    """Pose a character as the stream says; return whether a pose came."""
    pose = poses.latest()
    if pose is not None:
        actor.pose_to(pose)
    return pose is not None


def _check_body_options(
    given: str, options: ViewOptions, touch: ContactOptions, folder: Path | None
) -> None:
    changed = [each.name for each in fields(options) if getattr(options, each.name) != each.default]
    names = [f"--{name.replace('_', '-')}" for name in changed]
    names += ["--folder"] * (folder is not None) + ["contact"] * (touch != ContactOptions())
    if names:
        raise SuppleError(f"{given}: is an elastic body; {names[0]} is for characters")


def _stepping(options: ViewOptions, touch: ContactOptions, row: Engine) -> dict[str, Any]:
    """Return the given options for the simulator of an engine; refuse those that it lacks."""
    solver_options = without_none({name: getattr(options, name) for name in ("solver", "deferral")})
    for name in solver_options:
        if name not in row.step_options:
            raise SuppleError(f"--{name}: {row.name} has no such option; use --engine rig-space")
    return solver_options | touch.stepping(row)


def _character(
    given: str, options: ViewOptions, touch: ContactOptions, quiet: bool
) -> CharacterActor:
    options = with_kept_feel(options)
    with working("reading", quiet):
        source = read_character(given, options.unit, **options.reading())
        motion = options.motion_name()
        plan = bake_plan(source.character, motion)
        touch.check_obstacles(plan.place_of(source.character))
        values = flesh_values(source, options, options.model)
        row = engine_named(options.engine, "character")
        built = options.model is None and source.model is None
        simulation = _stepping(options, touch, row) if built else {}
    ready = command_model(given, source, options, row.name, quiet=quiet, values=values)
    if not built:  # a model file determines the engine
        row = stepped_by(row, ready.model)
        simulation = _stepping(options, touch, row)
    simulation = placed_options(simulation, plan.place_of(source.character))
    with working("starting", quiet):
        flesh: dict[str, Any] = {"engine": row.name, "flesh": options.flesh}
        feel = file_feel(options.anatomy)
        return CharacterActor(
            ready.model,
            motion,
            character=source.character,
            scaled_loads=ready.scaled_loads,
            anatomy=_editing(source, built, values | flesh, feel),
            simulation=simulation,
            may_stiffen=options.young is None,  # a given stiffness is never changed
            feel=ready.feel,
            damping=options.damping,
            **flesh,
        )


def _editing(
    source: CharacterSource, built: bool, values: dict[str, Any], feel: dict[str, Any]
) -> AnatomyEditing:
    """Return the character's anatomy, with a function that rebuilds the model.

    A model file has no such function, as its options are unknown.
    """
    anatomy = values.pop("anatomy")

    def rebuild(entries: Mapping[str, RegionEntry], log: BuildLog, flesh: str) -> PreparedModel:
        return prepared_model(source, anatomy=entries, log=log, **(values | {"flesh": flesh}))

    return AnatomyEditing(
        source.character,
        anatomy_of(source.character, entries=anatomy if isinstance(anatomy, Mapping) else None),
        built=anatomy is not None,
        rebuild=rebuild if built else None,
        feel=feel,
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
        figures["flesh"] = page.session.actor.flesh["flesh"]
        figures["damping"] = round(page.session.actor.flesh["damping"], 4)
    if costs is None:  # no page was opened
        return figures
    return figures | {
        "step_ms": round(costs.step_ms, 3),
        "skin_ms": round(costs.skin_ms, 3),
        "update_ms": round(costs.update_ms, 3),
        "updates_per_second": round(costs.updates, 1),
        "processor": round(costs.processor, 3),
    }
