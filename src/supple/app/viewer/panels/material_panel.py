"""Panel of the material and what acts on it: whatever of it the subject can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import viser

from supple.app.viewer.scene.scene_nodes import ObstacleNodes
from supple.app.viewer.session.body_subject import DAMPING, DOUBLINGS, GRAVITIES
from supple.app.viewer.session.moving_obstacles import THINGS
from supple.app.viewer.session.session import Session
from supple.dynamics.root_frame import GRAVITY_MODES

#: Largest doublings of a character's stiffness on its slider.
FLESH_DOUBLINGS = 3.0
#: Groups of elements that get a slider.
MOST_GROUPS = 12
#: Largest of the damping's slider.
MOST_RATIO = 0.5


def add_material_controls(
    server: viser.ViserServer, session: Session[Any], obstacles: ObstacleNodes
) -> None:
    """Add the controls of all parts that the subject has, in the order of `CONTROLS`."""
    for part, add in CONTROLS.items():
        if part in session.subject.parts:
            add(server.gui, session)
    if "obstacles" in session.subject.parts:
        _add_obstacles(server.gui, session, obstacles)


def _add_stiffness(gui: viser.GuiApi, session: Session[Any]) -> None:
    hint = "0 is as built, 1 twice as stiff; no rebuild"
    _stiffness_slider(
        *(gui, "Stiffness", FLESH_DOUBLINGS, hint),
        lambda doublings: session.ask(session.subject.stiffen, 2.0**doublings),
    )


def _add_materials(gui: viser.GuiApi, session: Session[Any]) -> None:
    groups = session.subject.built.groups
    for group in range(min(len(groups), MOST_GROUPS)):

        def stiffen(doublings: float, group: int = group) -> None:
            session.ask(session.subject.stiffen, group, doublings)

        name = "Stiffness" if len(groups) == 1 else f"Stiffness {group + 1}"
        young = float(groups.young[group])
        hint = f"0 is as built, {young:.3g} Pa; 1 twice as stiff; no rebuild"
        _stiffness_slider(gui, name, DOUBLINGS, hint, stiffen)


def _stiffness_slider(
    gui: viser.GuiApi, name: str, most: float, hint: str, stiffen: Callable[[float], None]
) -> None:
    slider = gui.add_slider(f"{name} (doublings)", -most, most, 0.1, 0.0, hint=hint)

    @slider.on_update
    async def moved(event: Any) -> None:
        stiffen(float(slider.value))


def _add_gravity_mode(gui: viser.GuiApi, session: Session[Any]) -> None:
    subject = session.subject
    choice = gui.add_dropdown(
        "Gravity",
        GRAVITY_MODES,
        initial_value=subject.simulator.gravity_mode,
        hint="relative: the sculpted shape sags already",
    )

    @choice.on_update
    async def fall(event: Any) -> None:
        mode = choice.value
        session.ask(lambda: setattr(subject.simulator, "gravity_mode", mode))


def _add_damping(gui: viser.GuiApi, session: Session[Any]) -> None:
    slider = gui.add_slider(
        "Damping", 0.0, MOST_RATIO, 0.005, DAMPING, hint="Of the critical, in the slowest swing"
    )

    @slider.on_update
    async def damp(event: Any) -> None:
        session.ask(session.subject.damp, float(slider.value))


def _add_gravity(gui: viser.GuiApi, session: Session[Any]) -> None:
    choice = gui.add_dropdown("Gravity", tuple(GRAVITIES), hint="It sags, and settles")

    @choice.on_update
    async def fall(event: Any) -> None:
        session.ask(session.subject.fall, choice.value)


def _add_modes(gui: viser.GuiApi, session: Session[Any]) -> None:
    r = session.subject.built.modes
    slider = gui.add_slider(
        "Modes", 1, max(r, 2), 1, r, disabled=r < 2, hint="Fewer cost less, and move less"
    )

    @slider.on_update
    async def truncate(event: Any) -> None:
        session.ask(session.subject.truncate, float(slider.value))


def _add_obstacles(gui: viser.GuiApi, session: Session[Any], nodes: ObstacleNodes) -> None:
    ground = gui.add_checkbox("Ground", False)
    ball = gui.add_checkbox("Ball", False, hint="Push the flesh with it")
    shape = gui.add_dropdown("Ball's shape", tuple(THINGS), hint="Another thing in its place")

    def place() -> None:
        around = session.subject.obstacles
        around.ground, around.ball, around.kind = ground.value, ball.value, shape.value
        nodes.show(ground.value, ball.value)

    async def switched(event: Any) -> None:
        session.ask(place)

    for box in (ground, ball, shape):
        box.on_update(switched)


def _add_friction(gui: viser.GuiApi, session: Session[Any]) -> None:
    subject = session.subject
    slider = gui.add_slider(
        "Friction",
        0.0,
        1.5,
        0.05,
        min(float(subject.simulator.friction), 1.5),
        hint="Coefficient of the skin on ground and ball; 0 glides",
    )

    @slider.on_update
    async def rub(event: Any) -> None:
        value = float(slider.value)
        session.ask(lambda: setattr(subject.simulator, "friction", value))


#: Controls by the part that they are for; see `Subject.parts`.
CONTROLS: dict[str, Callable[[viser.GuiApi, Session[Any]], None]] = {
    "stiffness": _add_stiffness,
    "materials": _add_materials,
    "damping": _add_damping,
    "gravity mode": _add_gravity_mode,
    "gravity": _add_gravity,
    "friction": _add_friction,
    "modes": _add_modes,
}
