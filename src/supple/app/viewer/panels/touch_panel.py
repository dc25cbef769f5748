"""Panel of touch: how bones follow, what lies around, and what is felt of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from supple.app.pictures.drawing import label
from supple.app.viewer.scene.stage import Stage
from supple.app.viewer.scene.touch_nodes import ForceArrows, ObjectNodes, UnposedNode
from supple.app.viewer.session.character_subject import CharacterSubject
from supple.app.viewer.session.session import Session
from supple.app.viewer.session.subject import clamped
from supple.app.viewer.session.thrown_objects import OBJECT_KINDS

#: Slider of the tracking's frequency, in Hz.
TRACKING = (0.5, 30.0)
ROOTS = ("driven", "tracked", "free")
#: Directions of gravity on the page, y up.
DIRECTIONS = {
    "down": (0.0, -1.0, 0.0),
    "none": (0.0, 0.0, 0.0),
    "up": (0.0, 1.0, 0.0),
    "left": (-1.0, 0.0, 0.0),
    "right": (1.0, 0.0, 0.0),
    "forward": (0.0, 0.0, 1.0),
    "back": (0.0, 0.0, -1.0),
}
#: Gravity in m/s² where there was none before.
STANDARD = 9.81
#: Parts of the body that the line of forces lists.
MOST_PARTS = 4


class TouchPanel:
    """Tracking, root and gravity; objects to drag; bones to drag; what is shown."""

    def __init__(
        self, server: viser.ViserServer, session: Session[CharacterSubject], stage: Stage
    ) -> None:
        self._gui, self._session, self._subject = server.gui, session, session.subject
        self._arrows = ForceArrows(server, session)
        self._unposed = UnposedNode(server, session, stage)
        self._objects: ObjectNodes | None = None
        self._add_following()
        self._add_world()
        if "objects" in session.subject.parts:
            self._objects = ObjectNodes(server, session)
            self._add_objects()
        self._add_shown()
        self.felt = FeltPanel(server, session)

    def _set(self, name: str, value: Any) -> None:
        """Have the simulator that there is then have it."""
        self._session.ask(lambda: setattr(self._subject.simulator, name, value))

    def _add_following(self) -> None:
        gui, simulator = self._gui, self._subject.simulator
        on = simulator.tracking > 0
        follow = gui.add_checkbox("Follow the motion", on, hint="Off: a body that is limp")
        frequency = gui.add_slider(
            "Tracking (Hz)",
            *TRACKING,
            0.5,
            clamped(simulator.tracking if on else 8.0, *TRACKING),
            hint="Of the springs that pull joints to the motion: low gives way",
        )
        root = gui.add_dropdown(
            "Root",
            ROOTS,
            initial_value=simulator.root_mode,
            hint="driven: as the motion says; tracked: by springs; free: it may fall",
        )
        grabs = gui.add_dropdown(
            "Drag", ("flesh", "bone"), hint="What dragging the skin takes hold of"
        )

        async def tracked(event: Any) -> None:
            own = clamped(frequency.value, *TRACKING)
            self._set("tracking", own if follow.value else 0.0)

        for each in (follow, frequency):
            each.on_update(tracked)

        @root.on_update
        async def rooted(event: Any) -> None:
            self._set("root_mode", root.value)

        @grabs.on_update
        async def grabbed(event: Any) -> None:
            self._subject.grabs = "bone" if grabs.value == "bone" else "flesh"

    def _add_world(self) -> None:
        gui, simulator = self._gui, self._subject.simulator
        strength = float(np.linalg.norm(simulator.gravity))
        gravity = gui.add_dropdown(
            "Gravity",
            tuple(DIRECTIONS),
            initial_value="down" if strength > 0 else "none",
            hint="Of bones, flesh and objects",
        )

        @gravity.on_update
        async def fall(event: Any) -> None:
            if gravity.value in DIRECTIONS:
                way = np.array(DIRECTIONS[gravity.value])
                self._set("gravity", (strength or STANDARD) * way)

    def _add_objects(self) -> None:
        gui, session, subject = self._gui, self._session, self._subject
        for kind in OBJECT_KINDS:
            button = gui.add_button(f"Add a {kind}", hint="Drag it into the body, and let go")

            @button.on_click
            async def add(event: Any, kind: Any = kind) -> None:
                session.ask(lambda: subject.objects.add(kind, session.skin))

        gone = gui.add_button("Remove objects")

        @gone.on_click
        async def remove(event: Any) -> None:
            session.ask(subject.objects.clear)

    def _add_shown(self) -> None:
        arrows = self._gui.add_checkbox("Force arrows", False)
        unposed = self._gui.add_checkbox(
            "Unposed flesh", False, hint="What flesh does before bones move it, beside the body"
        )

        def show() -> None:
            self._arrows.seen, self._unposed.seen = arrows.value, unposed.value

        async def shown(event: Any) -> None:
            self._session.ask(show)

        for box in (arrows, unposed):
            box.on_update(shown)

    def update(self) -> None:
        """Bring objects, arrows and flesh up to date."""
        if self._objects is not None:
            self._objects.update()
        self._arrows.update()
        self._unposed.update()


class FeltPanel:
    """Line of what touches: contacts, their force, the strongest parts."""

    def __init__(self, server: viser.ViserServer, session: Session[CharacterSubject]) -> None:
        self._subject = session.subject
        self._line = server.gui.add_markdown("…")

    def update(self) -> None:
        """Show what is felt now."""
        simulator = self._subject.simulator
        found = simulator.contacts()
        if len(found.points) == 0:
            self._line.content = "touches nothing"
            return
        pushes = np.linalg.norm(found.forces, axis=1)
        owners = simulator.owners[found.points]
        sums = np.bincount(owners, pushes, len(simulator.model.bones))
        strongest = np.argsort(-sums)[:MOST_PARTS]
        names = simulator.model.bones
        parts = [f"{label(names[k], 24)} {sums[k]:.3g} N" for k in strongest if sums[k] > 0]
        self._line.content = (
            f"{len(found.points)} contacts, {pushes.sum():.3g} N,"
            f" up to {found.pressures.max() / 1e3:.3g} kPa  \n{', '.join(parts)}"
        )
