"""Panel of a body's sketch: record pulls, make a basis of them, save the body."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import viser

from supple.app.viewer.panels.rows import Row, add_row, notify, save_and_notify
from supple.app.viewer.session.session import Session
from supple.errors import SuppleError

HINT = "Drag the linear model; its forces are recorded, and it distorts under strong pulls"
MADE = "The full body is solved under the recorded forces; the simulation continues meanwhile"


class SketchPanel:
    """Controls of `BodyActor.sketch`; the body is saved in `folder`."""

    def __init__(self, server: viser.ViserServer, session: Session[Any], folder: Path) -> None:
        self._session, self._folder = session, folder
        gui, actor = server.gui, session.actor
        self._actor: Any = actor
        with gui.add_folder("Sketch"):
            get = lambda: actor.sketching  # noqa: E731
            self._on = add_row(gui, session, Row("Sketch", get, actor.start_sketch, HINT))
            self._state = gui.add_markdown("…")
            self._make = gui.add_button("Make the basis", hint=MADE)
            self._make.on_click(self._start)
            add_row(gui, session, Row("Clear the sketch", None, actor.sketch.clear))
            saved = gui.add_button("Save body")
            saved.on_click(self._save)
        self._words = ""
        self.update()

    def update(self) -> None:
        """Show the number of recorded loads, or the progress."""
        count = len(self._actor.sketch.loads)
        self._state.content = self._words or f"{count:,} loads recorded"

    def _start(self, event: Any) -> None:
        if not self._make.disabled:
            self._make.disabled = True
            threading.Thread(
                target=self._work, args=(event.client,), name="supple sketch", daemon=True
            ).start()

    def _work(self, client: Any) -> None:
        def progress(part: float, text: str) -> None:
            self._words = f"{part:.0%}: {text}"

        try:
            self._session.submit(self._actor.replace_body, self._actor.sketch.refined(progress))
            self._on.value = False
        except Exception as error:  # the page keeps its body
            kind = "" if isinstance(error, SuppleError) else f"{type(error).__name__}: "
            notify(client, "No basis made", f"{kind}{error}".splitlines()[0][:200])
        finally:
            self._words, self._make.disabled = "", False

    def _save(self, event: Any) -> None:  # in a thread of the server
        def save() -> Path:
            target = self._folder / f"{self._actor.sketch.name}_sketch.stvk"
            self._actor.built.save(target)
            return target

        save_and_notify(event.client, save)
