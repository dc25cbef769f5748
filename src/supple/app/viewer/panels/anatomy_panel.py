"""Panel of the anatomy: maps in colours, and regions to be made harder or softer."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import viser

from supple.anatomy.region_entries import ENTRIES_SUFFIX, FEELS
from supple.anatomy.roles import HARD
from supple.app.pictures.anatomy_colours import ANATOMY_MAPS, AnatomyMap, anatomy_map
from supple.app.viewer.panels.pose_panel import MOST_JOINTS, labels
from supple.app.viewer.panels.show_panel import ShowPanel
from supple.app.viewer.scene.stage import Stage
from supple.app.viewer.session.character_subject import CharacterSubject
from supple.app.viewer.session.session import Session
from supple.errors import SuppleError
from supple.reduction.build_log import BuildLog

#: Stages of a build, for its bar: their usual number.
STAGES = 11
#: Seconds that a page which ends waits for a build.
PATIENCE = 5.0
#: Regions that a line names.
MOST_NAMED = 4
HINT = "Choose a region, or click it; then say how it feels."


class AnatomyPanel:
    """Maps, the chosen region, what it is made of, and a button that builds anew.

    Parameters
    ----------
    server, session, stage, show
        Of the page; `show` says what the skin is coloured by.
    folder
        For files that are saved, which go nowhere else.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        session: Session[CharacterSubject],
        stage: Stage,
        show: ShowPanel,
        folder: Path,
    ) -> None:
        self._session, self._subject = session, session.subject
        self._stage, self._show, self._folder = stage, show, folder
        assert self._subject.anatomy is not None
        self._editing = self._subject.anatomy
        names = self._editing.joints[:MOST_JOINTS]
        self._joints = dict(zip(labels(names), names, strict=True))
        self._labels = {joint: shown for shown, joint in self._joints.items()}
        self._build: threading.Thread | None = None
        self._building = False
        self._ended = threading.Event()
        gui, plain = server.gui, stage.colouring
        self._map: Any = gui.add_dropdown("Map", [plain, *ANATOMY_MAPS])
        self._legend = gui.add_html("")
        self._region: Any = gui.add_dropdown("Region", list(self._joints), hint=HINT)
        self._both = gui.add_checkbox("Both sides", True, hint="Left and right are changed alike")
        self._feel = gui.add_button_group("Feels", FEELS)
        self._about = gui.add_markdown(HINT)
        self._rebuild = gui.add_button("Rebuild", disabled=True)
        self._bar: Any = gui.add_progress_bar(0.0, visible=False)
        self._state = gui.add_markdown("")
        name = f"{self._editing.anatomy.name[:60]}{ENTRIES_SUFFIX}"
        self._name = gui.add_text(
            "Anatomy file", name, hint=f"In {folder}; bake --anatomy takes it"
        )
        self._save = gui.add_button("Save anatomy")
        self._listen()
        self._tell()

    def _listen(self) -> None:
        self._stage.clicked.append(self._clicked)
        self._feel.on_click(self._change)
        self._rebuild.on_click(self._start)
        self._save.on_click(self._write)

        @self._map.on_update
        async def colour(event: Any) -> None:
            self._show.colour.value = self._map.value
            self._tell()

        @self._region.on_update
        async def choose(event: Any) -> None:
            self._session.ask(self._stage.choose, self._editing.both(self.joint, self._both.value))
            self._tell()

        @self._both.on_update
        async def pair(event: Any) -> None:
            self._session.ask(self._stage.choose, self._editing.both(self.joint, self._both.value))

    @property
    def joint(self) -> str:
        """Joint of the chosen region."""
        return self._joints[self._region.value]

    def _clicked(self, event: Any) -> None:
        offset = self._stage.soft.offset
        origin = [a - b for a, b in zip(event.ray_origin, offset, strict=True)]
        self._session.ask(self._choose_under, origin, event.ray_direction)

    def _choose_under(self, origin: Any, direction: Any) -> None:
        joint = self._editing.region_under(self._session.skin, origin, direction)
        if joint in self._labels:
            self._region.value = self._labels[joint]
            self._stage.choose(self._editing.both(joint, self._both.value))
            self._tell()

    def _change(self, event: Any) -> None:  # in a thread of the server's: it takes a moment
        try:
            self._editing.choose(self.joint, self._feel.value, self._both.value)
        except SuppleError as error:
            _notify(event.client, "Not changed", str(error))
            return
        self._session.ask(self._subject.heed_anatomy)
        self._session.ask(self._stage.forget)
        self._tell()

    def _start(self, event: Any) -> None:
        if not self._building:
            self._building = self._rebuild.disabled = True
            self._build = threading.Thread(
                target=self._work, args=(event.client,), name="supple rebuild", daemon=True
            )
            self._build.start()

    def _work(self, client: Any) -> None:
        """Build another model while the old one moves on, and go on with it."""
        entries = dict(self._editing.anatomy.entries)
        log = _BarLog(self._bar, self._state, self._ended)
        self._bar.value, self._bar.visible = 0.0, True
        try:
            assert self._editing.rebuild is not None
            model = self._editing.rebuild(entries, log)
            with log.stage("trying it"):
                calm = self._subject.calmed(model)
            self._session.ask(self._subject.adopt, model, entries, calm)
            self._session.ask(self._stage.adopt)
        except Exception as error:  # the page lives on with the model that it has
            kind = "" if isinstance(error, SuppleError) else f"{type(error).__name__}: "
            if not self._ended.is_set():
                _notify(client, "Not rebuilt", f"{kind}{error}".splitlines()[0][:200])
        finally:
            self._building = False
            if not self._ended.is_set():
                self._bar.visible = False
                self._session.ask(self._tell)

    def close(self) -> None:
        """End a build that is under way."""
        self._ended.set()
        if self._build is not None:
            self._build.join(PATIENCE)

    def _write(self, event: Any) -> None:  # in a thread of the server's
        try:
            target = self._editing.save(self._folder, self._name.value)
            _notify(event.client, "Saved", target.name)
        except SuppleError as error:
            _notify(event.client, "Not saved", str(error))
        except OSError as error:
            _notify(event.client, "Not saved", error.strerror or "it cannot be written")

    def _tell(self) -> None:
        """Say what the region is, what waits, and what colours mean."""
        editing = self._editing
        entry = editing.anatomy.entries[self.joint]
        reasons = "; ".join(entry.reasons)
        self._about.content = "  \n".join(
            (
                f"**{entry.role}**, feels **{entry.feel}**: {_flesh(entry.acting_share)}",
                _harmless(reasons),
            )
        )
        waiting = editing.waiting
        self._rebuild.disabled = not waiting or editing.rebuild is None or self._building
        if not self._building:
            self._state.content = self._said(waiting)
        if self._map.value in ANATOMY_MAPS:
            self._legend.content = _legend(anatomy_map(editing.anatomy, self._map.value))
        else:
            self._legend.content = ""

    def _said(self, waiting: tuple[str, ...]) -> str:
        editing = self._editing
        if not waiting:
            return "The flesh is as its regions say."
        how = "" if editing.rebuild is not None else "; save it, and build with --anatomy"
        if len(waiting) == len(editing.joints):
            return f"The model was built without these regions{how}."
        named = [_harmless(self._labels.get(each, each)) for each in waiting[:MOST_NAMED]]
        more = f" and {len(waiting) - MOST_NAMED} more" if len(waiting) > MOST_NAMED else ""
        return f"Needs a rebuild: {', '.join(named)}{more}{how}."


class _BarLog(BuildLog):
    """Log of a build, shown as a bar and a line of the page; it ends the build with the page."""

    def __init__(self, bar: Any, line: Any, ended: threading.Event) -> None:
        super().__init__()
        self._bar, self._line, self._ended = bar, line, ended

    def began(self, name: str) -> None:
        self._go_on()
        self._bar.value = min(100.0 * (len(self.stages) - 1) / STAGES, 99.0)
        self._line.content = f"Building: {name} …"

    def tell(self, part: float, what: str) -> None:
        self._go_on()
        self._bar.value = min(100.0 * (len(self.stages) - 1 + part) / STAGES, 99.0)

    def _go_on(self) -> None:
        if self._ended.is_set():
            raise SuppleError("the page has ended")


def _flesh(share: float) -> str:
    return "nothing moves" if share < HARD else f"flesh is {100 * share:.0f} % of its thickness"


def _legend(shown: AnatomyMap) -> str:
    """Return names of colours as HTML; both are our own, and need no escaping."""
    boxes = "".join(
        f'<span style="white-space:nowrap;margin-right:0.8em"><span style="display:inline-block;'
        f'width:0.8em;height:0.8em;background:rgb{colour}"></span> {text}</span> '
        for colour, text in zip(shown.colours, shown.labels, strict=True)
    )
    return f'<div style="font-size:0.8em;padding:0 0.75em">{boxes}</div>'


def _harmless(text: str) -> str:
    """Return text from a file without what Markdown would take for markup."""
    return "".join(c if c.isalnum() or c in " .,;:-+%\"'" else " " for c in text)[:300]


def _notify(client: Any, title: str, text: str) -> None:
    if client is not None:
        client.add_notification(title, text, auto_close_seconds=8.0)
