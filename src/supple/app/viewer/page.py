"""Page of a session: scene and panels, their server, and the clock that steps the session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

from supple.app.viewer.meter import Costs
from supple.app.viewer.panels.anatomy_panel import AnatomyPanel
from supple.app.viewer.panels.curves_panel import CurvesPanel, SpringPanel
from supple.app.viewer.panels.play_panel import PlayPanel, RecordPanel, add_material_controls
from supple.app.viewer.panels.pose_panel import HandlePanel, PosePanel
from supple.app.viewer.panels.show_panel import CostPanel, EnergyPanel, ShowPanel
from supple.app.viewer.panels.sketch_panel import SketchPanel
from supple.app.viewer.panels.touch_panel import ObjectPanel, TouchPanel
from supple.app.viewer.scene.contact_nodes import FixedObstacles
from supple.app.viewer.scene.scene_view import SceneView
from supple.app.viewer.server import address, start_server, stop_server
from supple.app.viewer.session.feel_dials import FeelDials
from supple.app.viewer.session.session import Session

#: Seconds between two updates of sliders, and of figures.
SLIDER, FIGURES = 0.12, 0.5
#: Most updates of pages per second.
UPDATES = 45.0
#: Most delayed steps made at once; a longer delay is dropped.
MOST_BEHIND = 4
#: Idle time per working time of a simulation slower than the clock, left for the server.
BREATH = 0.2
#: Seconds between polls without a page, and while paused.
IDLE, PAUSED = 0.25, 0.02


class Clock:
    """Thread that steps a session in real time while `watched` returns True: while a page is open.

    The thread calls `show` after steps, with an error message of one line or None.
    """

    def __init__(
        self, session: Session[Any], show: Callable[[str | None], None], watched: Callable[[], bool]
    ) -> None:
        self._session, self._show, self._watched = session, show, watched
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supple view", daemon=True)
        self.failure: BaseException | None = None  # that ended the thread

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._ended.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=10.0)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` seconds; return whether the thread has ended."""
        return self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            self._tick()
        except BaseException as error:  # reported by the thread that waits
            self.failure = error
        finally:
            self._ended.set()

    def _tick(self) -> None:
        due, last, shown = 0.0, time.perf_counter(), 0.0
        while not self._ended.is_set():
            if not self._watched():
                self._session.run_requests()
                self._ended.wait(IDLE)
                due, last = 0.0, time.perf_counter()
                continue
            now = time.perf_counter()
            due += (now - last) * self._session.speed / self._session.dt
            last = now
            steps = min(int(due), MOST_BEHIND)
            behind = due >= MOST_BEHIND + 1
            due = 0.0 if behind else due - steps
            message = self._session.run_requests()
            self._session.advance(steps)
            if message or (self._session.changed and now - shown >= 0.9 / UPDATES):
                self._show(message)
                shown = now
            self._ended.wait(self._rest(due, time.perf_counter() - now, behind))

    def _rest(self, due: float, worked: float, behind: bool) -> float:
        if behind:
            return BREATH * worked
        if self._session.state == "paused":
            return PAUSED
        idle = (1 - due) * self._session.dt / max(self._session.speed, 1e-3) - worked
        return min(max(idle, 0.0005), PAUSED)


class Page:
    """Web page of a session, with panels for the parts of its actor.

    All browsers show the same simulation. A port in use is replaced by the next free one; `folder`
    is for recordings and anatomy files; with `clay`, the colours of the file are off at first.
    """

    def __init__(
        self,
        session: Session[Any],
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        folder: Path | None = None,
        clay: bool = False,
    ) -> None:
        self.session = session
        self.folder = (folder or Path()).resolve()
        self.server = start_server(host, port, "Supple")
        self.costs: Costs | None = None
        self.anatomy: AnatomyPanel | None = None
        self._slider = self._figures = 0.0
        self._state = ""
        self.clock = Clock(session, self._update, self._watched)

        @self.server.on_client_disconnect
        async def closed(client: Any) -> None:
            session.release(client.client_id)

        self.scene = SceneView(self.server, session, clay=clay)
        self._nodes: list[Any] = [self.scene]  # updated with every frame
        if "obstacles" in session.actor.parts:
            self._nodes.append(FixedObstacles(self.server, session))
        self._panels: list[Any] = []  # updated every `SLIDER` seconds
        self._add_panels()
        self._show_scene()
        self.clock.start()

    def _add_panels(self) -> None:
        server, session, parts = self.server, self.session, self.session.actor.parts
        dials = FeelDials(session.actor) if "motions" in parts else None
        # A body has few controls and needs no tabs.
        tabs = server.gui.add_tab_group() if "poses" in parts else None

        def tab(name: str) -> AbstractContextManager[Any]:
            return nullcontext() if tabs is None else tabs.add_tab(name)

        with tab("Play"):
            self.play = PlayPanel(server, session)
            self._panels.append(self.play)
            add_material_controls(server, session, self.scene.obstacles, dials)
        if "touch" in parts:
            with tab("Touch"):
                self.touch = TouchPanel(server, session, self.scene)
                self._nodes.append(self.touch)
                self._panels.append(self.touch.forces)
        elif "objects" in parts:
            with tab("Objects"):
                objects = ObjectPanel(server, session)
                self._nodes.append(objects)
                self._panels.append(objects.forces)
        with tab("Show"):
            self.show = ShowPanel(server, session, self.scene)
        if "poses" in parts:
            with tab("Pose"):
                self._nodes.append(HandlePanel(server, session, lambda: self.pose.show_target()))
                self.pose = PosePanel(server, session)
        if "curves" in parts:
            self.curves = CurvesPanel(server, session)
            self._panels.append(self.curves)
            with tab("Springs"):
                SpringPanel(server, session, self.curves)
        if "anatomy" in parts and dials is not None:
            with tab("Anatomy"):
                shown = self.scene, self.show, self.folder
                self.anatomy = AnatomyPanel(server, session, *shown, dials)
        if "recording" in parts:
            with tab("Record"):
                self._panels.append(RecordPanel(server, session, self.folder))
        if "sketch" in parts:
            self._panels.append(SketchPanel(server, session, self.folder))
        if "energies" in parts:
            self._panels.append(EnergyPanel(server, session))
        with server.gui.add_folder("Cost"):
            # A step of a motion has to fit its frame; that of a body takes microseconds.
            longest = 1e3 * session.dt if "motions" in parts else None
            self.cost = CostPanel(server, session, longest)

    @property
    def address(self) -> str:
        """Address to open in a browser."""
        return address(self.server)

    def close(self) -> None:
        """End the simulation and the server."""
        if self.anatomy is not None:
            self.anatomy.close()
        self.clock.stop()
        stop_server(self.server)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _watched(self) -> bool:
        return bool(self.server.get_clients())

    def _update(self, message: str | None) -> None:
        """Update the page after steps, in the session's thread."""
        session = self.session
        if message:
            for client in self.server.get_clients().values():
                client.add_notification("Cannot do that", message, auto_close_seconds=8.0)
        session.refresh()
        self._show_scene()
        now = time.perf_counter()
        # While paused there may be no later update.
        if now - self._slider >= SLIDER or session.state == "paused":
            self._slider = now
            for panel in self._panels:
                panel.update()
        if now - self._figures >= FIGURES or session.state != self._state:
            self._figures, self._state = now, session.state
            self.costs = session.meter.costs()
            self.cost.update(self.costs)

    def _show_scene(self) -> None:
        for node in self._nodes:
            node.update()
