"""The part of the panel that says what all this costs."""

from __future__ import annotations

from typing import Any, Protocol

import viser

from supple.app.viewer.meter import Costs, Meter

__all__ = ["CostPanel"]


class Metered(Protocol):
    """A session whose steps are measured."""

    meter: Meter
    limits: tuple[str, ...]

    @property
    def state(self) -> str:
        """In a word."""


class CostPanel:
    """A strip chart of the step's time, and a line of figures.

    Parameters
    ----------
    server, session
        Whose.
    longest
        Milliseconds that the chart shows; None for as many as there are.
    """

    def __init__(
        self, server: viser.ViserServer, session: Metered, longest: float | None = None
    ) -> None:
        self._server, self._session = server, session
        self._line = server.gui.add_markdown("…")
        steps, milliseconds = session.meter.chart()
        height: dict[str, Any] = {} if longest is None else {"y": {"range": [0, longest]}}
        self._chart = server.gui.add_uplot(
            (steps, milliseconds),
            series=(
                {"label": "step"},
                {"label": "ms", "stroke": "#c8443c", "width": 1},
            ),
            scales={"x": {"time": False}, **height},
            height=150,
        )

    def update(self, costs: Costs) -> None:
        """Every now and then."""
        pages = len(self._server.get_clients())
        limits = ", ".join(self._session.limits)
        lines = [
            costs.line(),
            f"{pages} page{'' if pages == 1 else 's'}, {self._session.state}"
            + (f", limits: {limits}" if limits else ""),
        ]
        self._line.content = "  \n".join(lines)
        self._chart.data = self._session.meter.chart()
