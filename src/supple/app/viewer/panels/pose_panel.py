"""Panels that pose the rig: sliders of one joint at a time, or a handle in the scene."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import viser

from supple.app.pictures.drawing import label
from supple.app.viewer.panels.rows import MOST_LISTED, Row, add_row, labels
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.session import Session

#: Most sliders at once.
MOST_SLIDERS = 12
NO_POSE, NO_HANDLE = "…", "none"
#: Size of the handle, relative to the body's.
HANDLE_SIZE = 0.14


def parameter_groups(names: list[str]) -> dict[str, list[int]]:
    """Group the parameters of a joint: their names agree up to the last dot.

    Examples
    --------
    >>> parameter_groups(["hip.rx", "hip.ry", "smile", "jaw.rx"])
    {'hip': [0, 1], 'smile': [2], 'jaw': [3]}
    """
    groups: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        group = name.rpartition(".")[0] or name
        groups.setdefault(group, []).append(number)
    return {
        f"{name} ({start // MOST_SLIDERS + 1})" if start else name: numbers[start:][:MOST_SLIDERS]
        for name, numbers in groups.items()
        for start in range(0, len(numbers), MOST_SLIDERS)
    }


class PosePanel:
    """Poses of the model, a filter of joints, and sliders of the chosen joint."""

    def __init__(self, server: viser.ViserServer, session: Session[CharacterActor]) -> None:
        self._gui, self._session, self._actor = server.gui, session, session.actor
        self._parameters = self._actor.model.rig.parameters
        groups = parameter_groups([parameter.name for parameter in self._parameters])
        self._groups = dict(zip(labels(groups), groups.values(), strict=True))
        self._target = self._actor.pose.copy()
        names = labels(getattr(self._actor.model, "pose_names", ()))
        self._poses = {name: k for k, name in enumerate(names)}
        gui, hint = server.gui, "The rig stops and the flesh keeps moving"
        options = (NO_POSE, *self._poses)
        poses = Row("Go to pose", lambda: NO_POSE, self._go, options=options, from_pages=True)
        add_row(gui, session, poses)
        add_row(gui, session, Row("Hold this pose", None, self._hold, hint))
        self._filter = gui.add_text("Find joint", "")
        shown = list(self._groups)[:MOST_LISTED]
        self._joint = gui.add_dropdown("Joint", shown, initial_value=shown[0])
        self._folder = gui.add_folder(None)
        self._sliders: list[Any] = []
        self._show_sliders()

        @self._filter.on_update
        async def find(event: Any) -> None:
            text = self._filter.value.casefold()
            matches = [name for name in self._groups if text in name.casefold()][:MOST_LISTED]
            if matches:
                self._joint.options = tuple(matches)
                self._show_sliders()

        @self._joint.on_update
        async def joint(event: Any) -> None:
            self._show_sliders()

    def _go(self, name: str) -> None:
        if name in self._poses:
            self._target = self._actor.model.poses[self._poses[name]].copy()
            self._pose_to_target()

    def _hold(self) -> None:
        self._actor.hold()
        self.show_target()

    def show_target(self) -> None:
        """Set the sliders to the target pose."""
        self._target = self._actor.target
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
        span = {"rad": np.pi, "m": 0.5 * self._actor.model.surface.size, "1": 1.0}[parameter.unit]
        low, high = parameter.rest - span, parameter.rest + span
        unit = "" if parameter.unit == "1" else f" ({parameter.unit})"
        name = label(parameter.name.rpartition(".")[2], 24)

        def put(value: float) -> None:
            if self._session.state != "posing":  # other parameters keep the motion's values
                self._target = self._actor.pose.copy()
            self._target[number] = value
            self._pose_to_target()

        row = Row(
            f"{name}{unit}",
            lambda: float(np.clip(self._target[number], low, high)),
            put,
            limits=(low, high, span / 500),
            from_pages=True,
        )
        return add_row(self._gui, self._session, row)

    def _pose_to_target(self) -> None:
        self._actor.pose_to(self._target.copy())
        self._set_sliders()

    def _set_sliders(self) -> None:
        for number, slider in self._sliders:
            slider.value = float(np.clip(self._target[number], slider.min, slider.max))


class HandlePanel:
    """Choice of a joint, and a handle to drag it with; empty for rigs without limbs.

    `posed` is called in the session's thread after the handle has posed the rig.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        session: Session[CharacterActor],
        posed: Callable[[], None],
    ) -> None:
        self._session, self._actor, self._posed = session, session.actor, posed
        self._joint: str | None = None
        self._target: Any = None
        joints = session.actor.handles.joints[:MOST_LISTED]
        if not joints:
            return
        self._joints = dict(zip(labels(joints), joints, strict=True))
        options = (NO_HANDLE, *self._joints)
        hint = "Drag this joint; the joints above it follow"
        row = Row("Handle", lambda: NO_HANDLE, self._show, hint, options=options)
        add_row(server.gui, session, row)
        self._handle = server.scene.add_transform_controls(
            "/handle",
            scale=HANDLE_SIZE * session.actor.model.surface.size,
            line_width=4.0,
            disable_rotations=True,
            depth_test=False,
            visible=False,
        )

        @self._handle.on_update
        async def drag(event: Any) -> None:
            if self._joint is None:
                return
            waiting, self._target = self._target is not None, np.array(event.target.position)
            if not waiting:  # several targets within a step: the last one counts
                session.submit(self._reach)

    def _show(self, name: str) -> None:
        self._joint = self._joints.get(name)
        self._handle.visible = self._joint is not None
        if self._joint is not None:
            self._handle.position = self._actor.joint_position(self._joint)

    def _reach(self) -> None:
        target, self._target = self._target, None
        if self._joint is not None and target is not None:
            self._session.submit(self._actor.reach, self._joint, target)
            self._session.submit(self._posed)

    def update(self) -> None:
        """Move the handle with the joint, except while it poses the rig."""
        if self._joint is not None and self._session.state != "posing":
            self._handle.position = self._actor.joint_position(self._joint)
