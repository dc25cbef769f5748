"""Panels that pose the rig: sliders of one joint at a time, or a handle in the scene."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import viser

from supple.app.pictures.drawing import label
from supple.app.viewer.session.character_subject import CharacterSubject
from supple.app.viewer.session.session import Session

#: Letters of a name in a list of the page.
LONGEST = 56
#: Sliders at once, and joints in a list.
MOST_SLIDERS, MOST_JOINTS = 12, 200
NO_POSE, NO_HANDLE = "…", "none"
#: Size of the handle, as a part of the body's.
HANDLE_SIZE = 0.14


def labels(names: Iterable[str]) -> list[str]:
    r"""Return names from files as a list can show them: on one line, not too long, no two alike.

    Examples
    --------
    >>> labels(["run", "run", "line\nbreak", ""])
    ['run', 'run (2)', 'line?break', '(no name)']
    """
    shown: list[str] = []
    taken: set[str] = set()
    for name in names:
        plain = label(name, LONGEST).strip() or "(no name)"
        own, number = plain, 1
        while own in taken:
            number += 1
            own = f"{plain} ({number})"
        taken.add(own)
        shown.append(own)
    return shown


def parameter_groups(names: list[str]) -> dict[str, list[int]]:
    """Put parameters of a joint together: their names agree up to the last dot.

    Examples
    --------
    >>> parameter_groups(["hip.rx", "hip.ry", "smile", "jaw.rx"])
    {'hip': [0, 1], 'smile': [2], 'jaw': [3]}
    """
    groups: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        group = name.rpartition(".")[0] or name
        groups.setdefault(group, []).append(number)
    split: dict[str, list[int]] = {}
    for name, numbers in groups.items():
        for part, start in enumerate(range(0, len(numbers), MOST_SLIDERS)):
            split[name if not part else f"{name} ({part + 1})"] = numbers[
                start : start + MOST_SLIDERS
            ]
    return split


class PosePanel:
    """Filter, joint, its sliders; poses of the model, if it has any."""

    def __init__(self, server: viser.ViserServer, session: Session[CharacterSubject]) -> None:
        self._gui, self._session, self._subject = server.gui, session, session.subject
        self._parameters = self._subject.model.rig.parameters
        groups = parameter_groups([parameter.name for parameter in self._parameters])
        self._groups = dict(zip(labels(groups), groups.values(), strict=True))
        self._target = self._subject.pose.copy()
        gui = server.gui
        names = labels(getattr(self._subject.model, "pose_names", ()))
        self._poses = {name: k for k, name in enumerate(names)}
        self._pose = gui.add_dropdown("Go to pose", [NO_POSE, *self._poses])
        self._hold = gui.add_button("Hold this pose", hint="The flesh lives on while the rig rests")
        self._filter = gui.add_text("Find joint", "")
        shown = list(self._groups)[:MOST_JOINTS]
        self._joint = gui.add_dropdown("Joint", shown, initial_value=shown[0])
        self._folder = gui.add_folder(None)
        self._sliders: list[Any] = []
        self._show_sliders()
        self._listen()

    def _listen(self) -> None:
        session, subject = self._session, self._subject

        @self._pose.on_update
        async def go(event: Any) -> None:
            if event.client is not None and self._pose.value in self._poses:
                self._target = subject.model.poses[self._poses[self._pose.value]].copy()
                self._pose_to_target()

        @self._hold.on_click
        async def hold(event: Any) -> None:
            session.ask(subject.hold)
            session.ask(self.take_over)

        @self._filter.on_update
        async def find(event: Any) -> None:
            wanted = self._filter.value.casefold()
            found = [name for name in self._groups if wanted in name.casefold()][:MOST_JOINTS]
            if found:
                self._joint.options = tuple(found)
                self._show_sliders()

        @self._joint.on_update
        async def joint(event: Any) -> None:
            self._show_sliders()

    def take_over(self) -> None:
        """Let the sliders stand where the pose goes."""
        self._target = self._subject.target
        self._set_sliders()

    def _show_sliders(self) -> None:
        for _, slider in self._sliders:
            slider.remove()
        self._sliders = []
        with self._folder:
            for number in self._groups[self._joint.value]:
                self._sliders.append((number, self._slider(number)))

    def _slider(self, number: int) -> Any:
        parameter = self._parameters[number]
        span = {"rad": np.pi, "m": 0.5 * self._subject.model.surface.size, "1": 1.0}[parameter.unit]
        low, high = parameter.rest - span, parameter.rest + span
        value = float(np.clip(self._target[number], low, high))
        unit = "" if parameter.unit == "1" else f" ({parameter.unit})"
        own = label(parameter.name.rpartition(".")[2], 24)
        slider = self._gui.add_slider(f"{own}{unit}", low, high, span / 500, value)

        @slider.on_update
        async def turn(event: Any) -> None:
            if event.client is not None:
                wanted = float(slider.value)
                if self._session.state != "posing":  # the others stay where the motion had them
                    self._target = self._subject.pose.copy()
                self._target[number] = wanted
                self._pose_to_target()

        return slider

    def _pose_to_target(self) -> None:
        self._session.ask(self._subject.pose_to, self._target.copy())
        self._set_sliders()

    def _set_sliders(self) -> None:
        for number, slider in self._sliders:
            slider.value = float(np.clip(self._target[number], slider.min, slider.max))


class HandlePanel:
    """Choice of a joint, and a handle to drag it with; nothing for rigs without limbs.

    Parameters
    ----------
    server, session
        Of the page.
    posed
        Called after a handle has posed the rig, in the session's thread.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        session: Session[CharacterSubject],
        posed: Callable[[], None],
    ) -> None:
        self._session, self._subject, self._posed = session, session.subject, posed
        self._joint: str | None = None
        self._wanted: Any = None
        self._choice: Any = None
        joints = session.subject.handles.joints[:MOST_JOINTS]
        if not joints:
            return
        self._joints = dict(zip(labels(joints), joints, strict=True))
        self._choice = server.gui.add_dropdown(
            "Handle", [NO_HANDLE, *self._joints], hint="Drag this joint; those above it follow"
        )
        self._handle = server.scene.add_transform_controls(
            "/handle",
            scale=HANDLE_SIZE * session.subject.model.surface.size,
            line_width=4.0,
            disable_rotations=True,
            depth_test=False,
            visible=False,
        )
        self._listen()

    def _listen(self) -> None:
        session = self._session

        @self._choice.on_update
        async def choose(event: Any) -> None:
            joint = self._joints.get(self._choice.value)
            session.ask(self._show, joint)

        @self._handle.on_update
        async def drag(event: Any) -> None:
            if self._joint is None:
                return
            waiting, self._wanted = self._wanted is not None, np.array(event.target.position)
            if not waiting:  # of many places in a step the last counts
                session.ask(self._reach)

    def _show(self, joint: str | None) -> None:
        self._joint = joint
        self._handle.visible = joint is not None
        if joint is not None:
            self._handle.position = self._subject.joint_position(joint)

    def _reach(self) -> None:
        where, self._wanted = self._wanted, None
        if self._joint is not None and where is not None:
            self._session.ask(self._subject.reach, self._joint, where)
            self._session.ask(self._posed)

    def update(self) -> None:
        """Let the handle go with the motion, until somebody drags it."""
        if self._joint is not None and self._session.state != "posing":
            self._handle.position = self._subject.joint_position(self._joint)
