"""`supple view`: a file, a scene or a model in, a page out, until Ctrl-C."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from supple.app.bake_models import prepared_model
from supple.app.bake_source import read_bake_source
from supple.app.progress import console, first_use_message, working
from supple.dynamics.baking import chosen_motion
from supple.errors import SuppleError

__all__ = ["run_view"]

#: Seconds between looks at whether it is to end.
PATIENCE = 0.5


def run_view(
    given: str,
    *,
    motion: str | None = None,
    flesh: str = "normal",
    model: Path | None = None,
    folder: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    stats: bool = False,
    seconds: float | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Serve the page of a character until it is ended.

    Parameters
    ----------
    given
        A file, a scene or a model; what has no model yet gets one, which is kept.
    motion, flesh
        As for `supple.bake`.
    model
        A model file to use instead of building one.
    folder
        Where recordings may be saved; by default the current one.
    host, port
        Where to serve; the next free port if that one is taken.
    stats
        Print what it costs every few seconds.
    seconds
        End by itself after so long.
    quiet
        Say nothing but the address.

    Returns
    -------
    dict
        Steps, updates and what they cost.
    """
    target = Path.cwd() if folder is None else folder
    if not target.is_dir() or not os.access(target, os.W_OK):
        raise SuppleError(
            f"{target}: recordings cannot be saved there; give a folder with --folder"
        )
    from supple.app.viewer.server import check_viser, free_port

    check_viser()
    free_port(host, port)  # better now than after the build
    first_use_message(quiet)
    with working("reading", quiet):
        source = read_bake_source(given)
        chosen_motion(source.character, motion)
    ready = prepared_model(source, model=model, flesh=flesh, quiet=quiet)
    from supple.app.viewer.page import Page
    from supple.app.viewer.session import Session

    with working("starting", quiet):
        session = Session(ready.model, motion, character=source.character, flesh=flesh)
        page = Page(session, host=host, port=port, folder=target)
    with page:
        print(page.address, flush=True)
        if not quiet:
            console.print(f"open {page.address} in a browser; Ctrl-C ends it")
        _serve(page, stats, seconds)
    return _figures(page)


def _serve(page: Any, stats: bool, seconds: float | None) -> None:
    waited, told = 0.0, 0.0
    try:
        while not page.clockwork.wait(PATIENCE):
            waited += PATIENCE
            if stats and page.costs is not None and waited - told >= 5.0:
                told = waited
                console.print(page.costs.line())
            if seconds is not None and waited >= seconds:
                return
    except KeyboardInterrupt:
        return  # that is how it ends
    raise SuppleError(f"the simulation ended ({page.clockwork.failure})")


def _figures(page: Any) -> dict[str, Any]:
    meter, costs = page.session.meter, page.costs
    figures = {"address": page.address, "steps": meter.total_steps, "updates": meter.total_updates}
    if costs is None:  # nobody came
        return figures
    return figures | {
        "step_ms": round(costs.step_ms, 3),
        "skin_ms": round(costs.skin_ms, 3),
        "update_ms": round(costs.update_ms, 3),
        "updates_per_second": round(costs.updates, 1),
        "processor": round(costs.processor, 3),
    }
