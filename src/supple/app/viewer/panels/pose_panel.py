"""The part of the panel that poses the rig: one joint at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import viser

from supple.app.pictures.drawing import label
from supple.app.viewer.sessions.session import Session

__all__ = ["PosePanel", "labels", "parameter_groups"]


# ----------------------------------------------------------------------------
# Names from files, as a list on the page can show them.


LONGEST = 56


def labels(names: Iterable[str]) -> list[str]:
    r"""Each on one line, none too long, and no two alike.

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


#: Sliders at once, and joints in the list.
MOST_SLIDERS, MOST_GROUPS = 12, 200


NO_POSE = "…"


def parameter_groups(names: list[str]) -> dict[str, list[int]]:
    """Parameters of a joint together: those whose names agree up to the last dot.

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
    """Filter, joint, its sliders; the model's own poses."""

    def __init__(self, server: viser.ViserServer, session: Session) -> None:
        self._gui, self._session = server.gui, session
        self._parameters = session.model.rig.parameters
        groups = parameter_groups([parameter.name for parameter in self._parameters])
        self._groups = dict(zip(labels(groups), groups.values(), strict=True))
        self._target = session.pose.copy()
        gui = server.gui
        self._poses = {name: k for k, name in enumerate(labels(session.model.pose_names))}
        self._pose = gui.add_dropdown("Go to pose", [NO_POSE, *self._poses])
        self._hold = gui.add_button("Hold this pose", hint="The flesh lives on while the rig rests")
        self._filter = gui.add_text("Find joint", "")
        shown = list(self._groups)[:MOST_GROUPS]
        self._joint = gui.add_dropdown("Joint", shown, initial_value=shown[0])
        self._folder = gui.add_folder(None)
        self._sliders: list[Any] = []
        self._show_sliders()
        self._listen()

    def _listen(self) -> None:
        session = self._session

        @self._pose.on_update
        async def go(event: Any) -> None:
            if event.client is not None and self._pose.value in self._poses:
                self._target = session.model.poses[self._poses[self._pose.value]].copy()
                session.pose_to(self._target)
                self._set_sliders()

        @self._hold.on_click
        async def hold(event: Any) -> None:
            session.hold()
            session.ask(self.take_over)

        @self._filter.on_update
        async def find(event: Any) -> None:
            wanted = self._filter.value.casefold()
            found = [name for name in self._groups if wanted in name.casefold()][:MOST_GROUPS]
            if found:
                self._joint.options = tuple(found)
                self._show_sliders()

        @self._joint.on_update
        async def joint(event: Any) -> None:
            self._show_sliders()

    def take_over(self) -> None:
        """Let the sliders stand where the pose goes."""
        self._target = self._session.target
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
        span = {"rad": np.pi, "m": 0.5 * self._session.model.surface.size, "1": 1.0}[parameter.unit]
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
                    self._target = self._session.pose.copy()
                self._target[number] = wanted
                self._session.pose_to(self._target)
                self._set_sliders()

        return slider

    def _set_sliders(self) -> None:
        for number, slider in self._sliders:
            slider.value = float(np.clip(self._target[number], slider.min, slider.max))
