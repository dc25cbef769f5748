"""What a pointer on the skin does: it takes hold, pulls and lets go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from supple.app.viewer.requests import BodyRequests

__all__ = ["dragging"]


def dragging(session: BodyRequests, offset: Callable[[], Any]) -> Callable[[Any], Any]:
    """What to call with viser's drag events of a skin that stands at `offset`."""

    async def dragged(event: Any) -> None:  # asynchronous, so that events stay in order
        hand = event.client_id
        if event.phase == "end":
            session.release(hand)
            return
        if event.phase == "start":
            session.take(hand, np.asarray(event.start_position) - offset())
        session.pull(hand, np.asarray(event.end_position) - offset())

    return dragged
