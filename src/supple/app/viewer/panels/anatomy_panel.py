"""Panel of the anatomy: maps in colours, and regions that can be made harder or softer."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import viser

from supple.anatomy.region_entries import ENTRIES_SUFFIX, FEELS
from supple.anatomy.roles import HARD
from supple.app.pictures.anatomy_sheet import ANATOMY_MAPS, AnatomyMap, anatomy_map
from supple.app.viewer.panels.rows import (
    MOST_LISTED,
    Row,
    add_row,
    labels,
    notify,
    save_and_notify,
)
from supple.app.viewer.panels.show_panel import ShowPanel
from supple.app.viewer.scene.scene_view import SceneView
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.feel_dials import FeelDials
from supple.app.viewer.session.session import Session
from supple.errors import SuppleError
from supple.reduction.build_log import BuildLog

#: Usual number of stages of a build, for the progress bar.
STAGES = 11
#: Seconds that a closing page waits for a build.
PATIENCE = 5.0
#: Most regions named in a line.
MOST_NAMED = 4
HINT = "Choose a region, or click it; then choose how it feels."


class AnatomyPanel:
    """Maps, the chosen region, its properties, and a button that rebuilds the model.

    `show` is the panel that selects colours, `dials` are the damping and swing to save, and files
    are saved in `folder`.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        session: Session[CharacterActor],
        scene: SceneView,
        show: ShowPanel,
        folder: Path,
        dials: FeelDials,
    ) -> None:
        self._dials = dials
        self._session, self._actor = session, session.actor
        self._scene, self._show, self._folder = scene, show, folder
        assert self._actor.anatomy is not None
        self._editing = self._actor.anatomy
        names = self._editing.joints[:MOST_LISTED]
        self._joints = dict(zip(labels(names), names, strict=True))
        self._labels = {joint: shown for shown, joint in self._joints.items()}
        self._build: threading.Thread | None = None
        self._building = False
        self._ended = threading.Event()
        gui, plain = server.gui, scene.colouring
        maps = (plain, *ANATOMY_MAPS)
        self._map = add_row(gui, session, Row("Map", lambda: plain, self._recolour, options=maps))
        self._legend = gui.add_html("")
        regions = tuple(self._joints)
        row = Row("Region", lambda: regions[0], self._choose, HINT, options=regions)
        self._region = add_row(gui, session, row)
        hint = "Change left and right together"
        self._both = add_row(gui, session, Row("Both sides", lambda: True, self._choose, hint))
        self._feel = gui.add_button_group("Feels", FEELS)
        self._about = gui.add_markdown(HINT)
        self._rebuild = gui.add_button("Rebuild", disabled=True)
        self._bar: Any = gui.add_progress_bar(0.0, visible=False)
        self._state = gui.add_markdown("")
        name = f"{self._editing.anatomy.name[:60]}{ENTRIES_SUFFIX}"
        hint = f"In {folder}; an input of bake --anatomy"
        self._name = gui.add_text("Anatomy file", name, hint=hint)
        self._save = gui.add_button("Save anatomy")
        self._scene.click_listeners.append(self._clicked)
        self._feel.on_click(self._change)
        self._rebuild.on_click(self._start)
        self._save.on_click(self._write)
        self._update()

    @property
    def joint(self) -> str:
        """Joint of the chosen region."""
        return self._joints[self._region.value]

    def _recolour(self, name: str) -> None:
        self._show.colour.value = name
        self._update()

    def _choose(self, value: object = None) -> None:
        self._scene.highlight(self._editing.both(self.joint, self._both.value))
        self._update()

    def _clicked(self, event: Any) -> None:
        offset = self._scene.soft.offset
        origin = [a - b for a, b in zip(event.ray_origin, offset, strict=True)]
        self._session.submit(self._choose_under, origin, event.ray_direction)

    def _choose_under(self, origin: Any, direction: Any) -> None:
        joint = self._editing.region_under(self._session.skin, origin, direction)
        if joint in self._labels:
            self._region.value = self._labels[joint]
            self._choose()

    def _change(self, event: Any) -> None:  # in a thread of the server: it takes a moment
        try:
            self._editing.choose(self.joint, self._feel.value, self._both.value)
        except SuppleError as error:
            notify(event.client, "Not changed", str(error))
            return
        self._session.submit(self._actor.apply_anatomy)
        self._session.submit(self._scene.refresh_anatomy)
        self._update()

    def _start(self, event: Any) -> None:
        if not self._building:
            self._building = self._rebuild.disabled = True
            self._build = threading.Thread(
                target=self._work, args=(event.client,), name="supple rebuild", daemon=True
            )
            self._build.start()

    def _work(self, client: Any) -> None:
        """Build another model while the current one keeps moving, then replace it."""
        entries = self._editing.anatomy.given
        log = _BarLog(self._bar, self._state, self._ended)
        self._bar.value, self._bar.visible = 0.0, True
        try:
            assert self._editing.rebuild is not None
            flesh = None
            while flesh != self._actor.flesh["flesh"]:  # it may change during a build
                flesh = self._actor.flesh["flesh"]
                ready = self._editing.rebuild(entries, log, flesh)
                with log.stage("trying it"):
                    stiffness = self._actor.stable_factors(ready.model, ready.feel)
            changed = ready.model, entries, stiffness, ready.feel
            self._session.submit(self._actor.replace_model, *changed)
            self._session.submit(self._scene.refresh_model)
        except Exception as error:  # the page keeps its current model
            kind = "" if isinstance(error, SuppleError) else f"{type(error).__name__}: "
            if not self._ended.is_set():
                notify(client, "Not rebuilt", f"{kind}{error}".splitlines()[0][:200])
        finally:
            self._building = False
            if not self._ended.is_set():
                self._bar.visible = False
                self._session.submit(self._update)

    def close(self) -> None:
        """Cancel a running build."""
        self._ended.set()
        if self._build is not None:
            self._build.join(PATIENCE)

    def _write(self, event: Any) -> None:  # in a thread of the server
        name, editing, feel = self._name.value, self._editing, self._dials.file_feel
        save_and_notify(event.client, lambda: editing.save(self._folder, name, feel()))

    def _update(self) -> None:
        """Show the chosen region, the state of the model, and the legend."""
        editing = self._editing
        entry = editing.anatomy.entries[self.joint]
        self._about.content = (
            f"**{entry.role}**, feels **{entry.feel}**: {_flesh(entry.acting_share)}  \n"
            + _without_markup("; ".join(entry.reasons))
        )
        waiting = editing.waiting
        self._rebuild.disabled = not waiting or editing.rebuild is None or self._building
        if not self._building:
            self._state.content = self._status(waiting)
        if self._map.value in ANATOMY_MAPS:
            self._legend.content = _legend(anatomy_map(editing.anatomy, self._map.value))
        else:
            self._legend.content = ""

    def _status(self, waiting: tuple[str, ...]) -> str:
        editing = self._editing
        if not waiting:
            return "The model has these regions."
        advice = "" if editing.rebuild is not None else "; save them, and build with --anatomy"
        if len(waiting) == len(editing.joints):
            return f"The model was built without these regions{advice}."
        named = [_without_markup(self._labels.get(each, each)) for each in waiting[:MOST_NAMED]]
        more = f" and {len(waiting) - MOST_NAMED} more" if len(waiting) > MOST_NAMED else ""
        return f"Needs a rebuild: {', '.join(named)}{more}{advice}."


class _BarLog(BuildLog):
    """Show a build's progress as a bar and a line of text.

    Raise SuppleError, which stops the build, once the page has been closed.
    """

    def __init__(self, bar: Any, line: Any, ended: threading.Event) -> None:
        super().__init__()
        self._bar, self._line, self._ended = bar, line, ended

    def began(self, name: str) -> None:
        self._advance(0.0)
        self._line.content = f"Building: {name} …"

    def report(self, part: float, what: str) -> None:
        self._advance(part)

    def _advance(self, part: float) -> None:
        if self._ended.is_set():
            raise SuppleError("the page was closed")
        self._bar.value = min(100.0 * (len(self.stages) - 1 + part) / STAGES, 99.0)


def _flesh(share: float) -> str:
    return "nothing moves" if share < HARD else f"flesh is {100 * share:.0f} % of its thickness"


def _legend(shown: AnatomyMap) -> str:
    """Return the legend as HTML; colours and labels are constants and need no escaping."""
    boxes = "".join(
        f'<span style="white-space:nowrap;margin-right:0.8em"><span style="display:inline-block;'
        f'width:0.8em;height:0.8em;background:rgb{colour}"></span> {text}</span> '
        for colour, text in zip(shown.colours, shown.labels, strict=True)
    )
    return f'<div style="font-size:0.8em;padding:0 0.75em">{boxes}</div>'


def _without_markup(text: str) -> str:
    """Return text from a file without characters that Markdown interprets."""
    return "".join(c if c.isalnum() or c in " .,;:-+%\"'" else " " for c in text)[:300]
