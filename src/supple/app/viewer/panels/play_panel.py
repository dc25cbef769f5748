"""Panels that play and record: motion, time, speed, material, obstacles, recording."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import viser

from supple.anatomy.flesh_presets import FLESH_PRESETS
from supple.app.viewer.panels.rows import Row, add_row, add_rows, attribute, labels, save_and_notify
from supple.app.viewer.scene.scene_nodes import ObstacleNodes
from supple.app.viewer.session.body_actor import DOUBLINGS, GRAVITIES
from supple.app.viewer.session.character_actor import ENDINGS, CharacterActor
from supple.app.viewer.session.feel_dials import FeelDials
from supple.app.viewer.session.obstacles import SHAPES
from supple.app.viewer.session.session import Session, clamped
from supple.dynamics.root_frame import GRAVITY_MODES
from supple.formats.registry import BAKED_MOTIONS

#: Seconds that the time slider is not updated after a page has moved it.
SCRUBBING = 0.6
#: Largest doublings of a character's stiffness.
FLESH_DOUBLINGS = 3.0
#: Most groups of elements with a slider, and limits of the sliders of damping and friction.
MOST_GROUPS = 12
DAMPING_LIMITS, FRICTION_LIMITS = (0.0, 0.5, 0.005), (0.0, 1.5, 0.05)
SPEED_HINT = "Speed of the clock; frames and time steps stay the same"


class PlayPanel:
    """Play and pause, speed; motion and time of a character, reset of a body."""

    def __init__(self, server: viser.ViserServer, session: Session[Any]) -> None:
        self._session, self._actor = session, session.actor
        gui, slowest = server.gui, session.actor.slowest
        self._touched = 0.0
        self._time: Any = None
        motions = "motions" in self._actor.parts
        if motions:
            add_row(gui, session, self._motion_row())
        else:
            gui.add_markdown(self._actor.hint)
        self.play = add_row(gui, session, Row("Pause", None, self._toggle))
        if motions:
            self._add_time(gui)
        else:
            add_row(gui, session, Row("Reset", None, session.reset))
        get, put = attribute(lambda: session, "speed")
        limits = (slowest, 2.0, slowest)
        self.speed = add_row(gui, session, Row("Speed", get, put, SPEED_HINT, limits))
        if motions:
            get, put = (lambda: self._actor.ending), self._actor.end_with
            ending = Row("At the end", get, put, options=ENDINGS, from_pages=True)
            self._ending = add_row(gui, session, ending)
            gui.add_markdown(self._actor.hint)

    def _toggle(self) -> None:
        if self._session.state == "playing":
            self._session.pause()
        else:
            self._session.play()

    def _motion_row(self) -> Row:
        actor = self._actor
        names = dict(zip(labels(actor.motions), actor.motions, strict=True))
        current = next(k for k, v in names.items() if actor.motions[v] is actor.motion)

        def choose(shown: str) -> None:
            actor.choose(names[shown])
            self._fit_time()

        return Row("Motion", lambda: current, choose, options=tuple(names))

    def _add_time(self, gui: viser.GuiApi) -> None:
        self._time = gui.add_slider("Time (s)", 0.0, 1.0, 0.001, 0.0)
        self._fit_time()

        @self._time.on_update
        async def scrub(event: Any) -> None:
            if event.client is not None:
                self._touched = time.monotonic()
                self._session.submit(self._actor.seek, float(self._time.value))

    def _fit_time(self) -> None:
        """Set the limits of the time slider to the motion's first and last key."""
        first, last = (float(t) for t in self._actor.motion.times[[0, -1]])
        self._time.min, self._time.max = first, max(last, first + 1e-3)
        self._time.value = first

    def update(self) -> None:
        """Show the state, and the time and ending of the motion."""
        self.play.label = "Pause" if self._session.state == "playing" else "Play"
        if self._time is not None:
            self._ending.value = self._actor.ending
            if time.monotonic() - self._touched > SCRUBBING:
                self._time.value = round(self._actor.time, 3)


def add_material_controls(
    server: viser.ViserServer,
    session: Session[Any],
    nodes: ObstacleNodes,
    dials: FeelDials | None = None,
) -> None:
    """Add the controls of stiffness, damping, swing, gravity, friction, modes and obstacles."""
    add_rows(server.gui, session, _material_rows(session, dials))
    if "obstacles" in session.actor.parts:
        add_rows(server.gui, session, _obstacle_rows(session, nodes))


def _doublings(label: str, largest: float, hint: str, stiffen: Any) -> Row:
    return Row(f"{label} (doublings)", lambda: 0.0, stiffen, hint, (-largest, largest, 0.1))


def _material_rows(session: Session[Any], dials: FeelDials | None) -> Iterator[Row]:
    actor, parts = session.actor, session.actor.parts

    def simulator() -> Any:
        return actor.simulator

    if dials is not None and "swing" in parts:
        hint = "Preset of stiffness and damping; no rebuild"
        yield Row("Flesh", *attribute(lambda: dials, "preset"), hint, options=(*FLESH_PRESETS,))
    if "stiffness" in parts:
        hint = "0: as built, 1: twice as stiff; no rebuild"
        yield _doublings("Stiffness", FLESH_DOUBLINGS, hint, lambda n: actor.stiffen(2.0**n))
    if dials is not None and "swing" in parts:
        hint = "Factor on the damping: 2 comes to rest sooner, 0.5 later"
        yield Row("Damping (factor)", lambda: dials.damping, actor.damp, hint, (0.0, 5.0, 0.1))
        hint = "Peak of the flesh in this motion, for the button below"
        get, put = attribute(lambda: dials, "percent")
        yield Row("Swing (% of size)", get, put, hint, (0.1, 20.0, 0.1))
        hint = "Find the stiffness for that swing; takes a moment"
        yield Row("Swing that far", None, dials.swing, hint)
    if "materials" in parts:
        groups = actor.built.groups
        for group in range(min(len(groups), MOST_GROUPS)):
            name = "Stiffness" if len(groups) == 1 else f"Stiffness {group + 1}"
            young = float(groups.young[group])
            hint = f"0: as built ({young:.3g} Pa), 1: twice as stiff; no rebuild"
            yield _doublings(name, DOUBLINGS, hint, lambda n, group=group: actor.stiffen(group, n))
    if "damping" in parts:
        hint = "Damping ratio of the lowest mode; 1 is critical"
        yield Row("Damping", lambda: actor.damping, actor.damp, hint, DAMPING_LIMITS)
    if "gravity mode" in parts:
        hint = "relative: the modelled shape already sags under gravity"
        get, put = attribute(simulator, "gravity_mode")
        yield Row("Gravity", get, put, hint, options=GRAVITY_MODES)
    if "gravity" in parts:
        hint = "Direction of gravity; the body sags and comes to rest"
        yield Row("Gravity", lambda: actor.gravity, actor.set_gravity, hint, None, tuple(GRAVITIES))
    if "friction" in parts:
        hint = "Friction coefficient of the skin on ground and ball; 0: no friction"
        low, high, _ = FRICTION_LIMITS
        get, put = attribute(simulator, "friction")
        yield Row("Friction", lambda: clamped(get(), low, high), put, hint, FRICTION_LIMITS)
    if "self contact" in parts:
        hint = "The skin goes no deeper into itself than the rig's own pose does"
        yield Row("Self-contact", *attribute(simulator, "self_contact"), hint)
    if "modes" in parts:
        r = actor.built.modes
        hint = "Number of modes; fewer are faster and move less"
        limits = (1, max(r, 2), 1)
        yield Row("Modes", lambda: r, actor.truncate, hint, limits, disabled=r < 2)


def _obstacle_rows(session: Session[Any], nodes: ObstacleNodes) -> Iterator[Row]:
    obstacles = session.actor.obstacles
    for label, name, hint, options in (
        ("Ground", "ground", None, ()),
        ("Ball", "ball", "Drag it to push the flesh", ()),
        ("Ball's shape", "kind", "Shape of the obstacle that is dragged", tuple(SHAPES)),
    ):

        def put(value: Any, name: str = name) -> None:
            setattr(obstacles, name, value)
            nodes.show(obstacles.ground, obstacles.ball)

        get, _ = attribute(lambda: obstacles, name)
        yield Row(label, get, put, hint, options=options)


class RecordPanel:
    """Record, stop, and save to a file in one folder."""

    def __init__(
        self, server: viser.ViserServer, session: Session[CharacterActor], folder: Path
    ) -> None:
        gui = server.gui
        self._actor, self._folder = session.actor, folder
        self._recorder = session.actor.recorder
        self._record = add_row(gui, session, Row("Record", None, self._toggle))
        suffixes = " ".join(row.suffixes[0] for row in BAKED_MOTIONS.rows)
        self._name = gui.add_text("File", "take1.npz", hint=f"In {folder}; formats: {suffixes}")
        self._save = gui.add_button("Save")
        self._status = gui.add_markdown("Nothing recorded.")
        self._shown = (False, 0)
        self._save.on_click(self._write)

    def _toggle(self) -> None:
        if self._recorder.on:
            self._recorder.stop()
        else:
            self._recorder.start()

    def _write(self, event: Any) -> None:  # in a thread of the server: fitting takes seconds
        self._save.disabled = True
        actor, recorder = self._actor, self._recorder
        recorder.stop()
        try:
            save_and_notify(
                event.client,
                lambda: recorder.save(
                    self._folder, self._name.value, actor.character, actor.motion.name
                ),
            )
        finally:
            self._save.disabled = False

    def update(self) -> None:
        """Show the length of the recording."""
        recorder = self._recorder
        state = (recorder.on, len(recorder))
        if state == self._shown:
            return
        self._shown = state
        self._record.label = "Stop recording" if recorder.on else "Record"
        self._status.content = f"{len(recorder)} frames, {recorder.seconds:.1f} s"
