"""The part of the panel that moves a joint by a handle in the scene."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import viser

from supple.app.viewer.panels.pose_panel import labels
from supple.app.viewer.sessions.session import Session

__all__ = ["HandlePanel"]

NO_HANDLE = "none"
#: Joints in the list.
MOST_JOINTS = 200
#: Size of the handle, as a part of the body's.
SIZE = 0.14


class HandlePanel:
    """Choose a joint, and drag it; there is nothing of it for rigs without limbs.

    Parameters
    ----------
    server, session
        Whose.
    posed
        Called after a handle has posed the rig, in the session's thread.
    """

    def __init__(
        self, server: viser.ViserServer, session: Session, posed: Callable[[], None]
    ) -> None:
        self._session, self._posed = session, posed
        self._joint: str | None = None
        self._wanted: Any = None
        self._choice: Any = None
        joints = session.limbs.joints[:MOST_JOINTS]
        if not joints:
            return
        self._joints = dict(zip(labels(joints), joints, strict=True))
        self._choice = server.gui.add_dropdown(
            "Handle", [NO_HANDLE, *self._joints], hint="Drag this joint; those above it follow"
        )
        self._handle = server.scene.add_transform_controls(
            "/handle",
            scale=SIZE * session.model.surface.size,
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
            session.ask(lambda: self._show(joint))

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
            self._handle.position = self._session.joint_place(joint)

    def _reach(self) -> None:
        where, self._wanted = self._wanted, None
        if self._joint is not None and where is not None:
            self._session.reach(self._joint, where)
            self._session.ask(self._posed)

    def update(self) -> None:
        """Let the handle go with the motion, until somebody drags it."""
        if self._joint is not None and self._session.state != "posing":
            self._handle.position = self._session.joint_place(self._joint)
