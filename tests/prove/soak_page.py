"""Pages that come, go, drag and break off: ``python tests/prove/soak_page.py --minutes 120``.

Guests that are no browsers open the viewer's page again and again, several at once. They turn its
controls to anything, drag the ball and the skin, and leave: some say so, some break off in the
middle of a message, with the skin in their hand. Memory, and threads, guests and hands that are
left, are kept in ``.prove/soak_page.json``, and memory is drawn in ``.prove/soak_page.png``.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import socket
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from websockets.exceptions import ConnectionClosed  # noqa: E402

from helpers.build_samples import stepped_model  # noqa: E402
from helpers.viewer_guest import Guest  # noqa: E402
from prove.limits import resident  # noqa: E402
from prove.mutations import hostile_value  # noqa: E402
from prove.soak import draw  # noqa: E402
from supple.app.viewer.page import Page  # noqa: E402
from supple.app.viewer.session.character_actor import CharacterActor  # noqa: E402
from supple.app.viewer.session.session import Session  # noqa: E402

#: Megabytes by which memory may grow in the second half.
FLAT = 20.0
#: Numbers that are no places.
FAR = (float("nan"), float("inf"), -1e300)
#: Guests at once.
GUESTS = 3
#: Threads more than after the first guest: the page's pool may have one that waits.
MOST_THREADS = 1


def _one_visit(page: Any, rng: Random) -> bool:
    """Be a guest for a moment; whether it broke off."""
    breaks = rng.random() < 0.4
    guest = Guest(page.address)
    try:
        guest.look()
        with suppress(TimeoutError):
            guest.count(0.05 + 0.2 * rng.random())
        controls = list(page.server.gui._gui_input_handle_from_uuid)
        for _ in range(rng.randrange(6)):
            if rng.random() < 0.6 and controls:
                value = rng.choice((hostile_value(rng), rng.uniform(-2, 2), True))
                if isinstance(value, str) and value.startswith("@raw:"):
                    value = 0.5
                if isinstance(value, int) and abs(value) >= 2**63:
                    value = -1
                uuid = rng.choice(controls)
                guest.say("GuiUpdateMessage", uuid=uuid, updates={"value": value})
            elif rng.random() < 0.4:
                drag = {"name": "/ball", "wxyz": (1.0, 0.0, 0.0, 0.0)}
                guest.say("TransformControlsUpdateMessage", **drag, position=_place(rng))
            else:
                _drag_skin(guest, rng, lets_go=not breaks)
        if breaks:
            guest.socket.socket.sendall(b"\x82\xfe\xff")  # the head of a message, and no more
            guest.socket.socket.shutdown(socket.SHUT_RDWR)
    finally:
        if not breaks:
            guest.socket.close()
    return breaks


def _place(rng: Random) -> tuple[float, ...]:
    return tuple(rng.uniform(-1, 1) if rng.random() < 0.97 else rng.choice(FAR) for _ in range(3))


def _drag_skin(guest: Guest, rng: Random, lets_go: bool) -> None:
    """Take hold of the soft skin, pull, and let go or not."""
    for phase in ("start", "update", "update", "end")[: 4 if lets_go else 3]:
        guest.say(
            "SceneNodeDragMessage",
            phase=phase,
            name="/soft/0",
            instance_index=None,
            start_position=_place(rng),
            start_screen_pos=(0.5, 0.5),
            end_position=_place(rng),
            end_screen_pos=(0.4, 0.5),
            button="left",
            modifier=None,
        )


def visit(visits: int, folder: Path, seed: int = 0, minutes: float | None = None) -> dict[str, Any]:
    """Visit a page so often, or for so long, `GUESTS` at once; say what is left of it."""
    session = Session(CharacterActor(stepped_model("bar")))
    found: dict[str, Any] = {"visits": 0, "refused": 0, "broken": 0, "taken": 0, "memory": []}
    lock, take = threading.Lock(), session.grip

    def count_hand(*given: Any) -> None:
        found["taken"] += 1
        take(*given)

    session.grip = count_hand  # type: ignore[method-assign, assignment]
    errors = Errors()
    logging.getLogger("asyncio").addHandler(errors)  # viser's tasks end there with what they raise
    end = time.monotonic() + 60 * minutes if minutes is not None else None

    def left() -> bool:
        return time.monotonic() < end if end is not None else _asked(found) < visits

    def come_and_go(number: int) -> None:
        rng = Random(1000 * seed + number)
        while left():
            try:
                broken = _one_visit(page, rng)
            except (OSError, ConnectionClosed):
                with lock:
                    found["refused"] += 1
                continue
            with lock:
                found["visits"] += 1
                found["broken"] += broken
                if found["visits"] % 50 == 0:
                    _look(found, told=end is not None)

    with Page(session, port=0, folder=folder) as page:
        _one_visit(page, Random(1))
        threads = threading.active_count()
        with ThreadPoolExecutor(GUESTS) as pool:
            for done in [pool.submit(come_and_go, number) for number in range(GUESTS)]:
                done.result()
        guests = page.server._websock_server._client_state_from_id
        until = time.monotonic() + 20
        while (guests or session.hands) and time.monotonic() < until:
            time.sleep(0.05)
        return found | {
            "left": len(guests),
            "hands": len(session.hands),
            "threads": threading.active_count() - threads,
            "failure": page.clock.failure,
            "errors": errors.of_ours,
        }


class Errors(logging.Handler):
    """Keeps errors that came through code of ours: a guest is answered, or not heard."""

    def __init__(self) -> None:
        super().__init__()
        self.of_ours: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and len(self.of_ours) < 20 and "src/supple" in self._trace(error):
            self.of_ours.append(f"{type(error).__name__}: {error}"[:200])

    @staticmethod
    def _trace(error: BaseException) -> str:
        return "".join(traceback.format_tb(error.__traceback__))


def _asked(found: dict[str, Any]) -> int:
    return int(found["visits"] + found["refused"])


def _look(found: dict[str, Any], told: bool) -> None:
    """Keep what memory there is now."""
    gc.collect()
    found["memory"].append(resident())
    if told:
        print(f"{found['visits']} visits, {found['memory'][-1]:.1f} MB", flush=True)


def wrong(found: dict[str, Any], grown: float) -> bool:
    """Return whether anything is left of guests, or more than one in a hundred was refused."""
    kept = found["left"] or found["hands"] or found["threads"] > MOST_THREADS or grown > FLAT
    shy = not found["visits"] or found["refused"] > 0.01 * found["visits"]
    return bool(kept or shy or found["errors"] or found["failure"] is not None)


def main() -> int:
    """Read the words of the command line."""
    words = argparse.ArgumentParser(description="Visit the viewer's page again and again.")
    words.add_argument("--minutes", type=float, default=120.0)
    told = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = visit(0, Path(folder), minutes=told.minutes)
    memory = found["memory"]
    half = memory[len(memory) // 2 :] or [0.0]
    found["grown_mb"] = half[-1] - half[0]
    place = ROOT / ".prove"
    place.mkdir(exist_ok=True)
    (place / "soak_page.json").write_text(json.dumps(found, default=str))
    draw(memory, told.minutes / 60, place / "soak_page.png", "hours")
    print({name: value for name, value in found.items() if name != "memory"})
    return int(wrong(found, found["grown_mb"]))


if __name__ == "__main__":
    sys.exit(main())
