"""Pages that come, go, drag and break off: ``python tests/prove/soak_page.py --minutes 120``.

Guests that are no browsers open the viewer's page again and again, several at once. They turn its
controls to anything, drag what can be dragged, and leave: some say so, some break off in the middle
of a message. Memory, threads and guests that are left are kept in ``.prove/soak_page.json``.
"""

from __future__ import annotations

import argparse
import gc
import json
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.build_samples import stepped_model  # noqa: E402
from helpers.viewer_guest import Guest  # noqa: E402
from prove.limits import resident  # noqa: E402
from prove.mutations import hostile_value  # noqa: E402
from supple.app.viewer.page import Page  # noqa: E402
from supple.app.viewer.session.character_subject import CharacterSubject  # noqa: E402
from supple.app.viewer.session.session import Session  # noqa: E402

#: Megabytes by which memory may grow in the second half.
FLAT = 20.0
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
            else:
                drag = {"name": "/ball", "wxyz": (1.0, 0.0, 0.0, 0.0)}
                place = tuple(rng.uniform(-1, 1) for _ in range(3))
                guest.say("TransformControlsUpdateMessage", **drag, position=place)
        if breaks:
            guest.socket.socket.sendall(b"\x82\xfe\xff")  # the head of a message, and no more
            guest.socket.socket.shutdown(socket.SHUT_RDWR)
    finally:
        if not breaks:
            guest.socket.close()
    return breaks


def visit(visits: int, folder: Path, seed: int = 0, minutes: float | None = None) -> dict[str, Any]:
    """Visit a page so often, or for so long; say what is left of it."""
    rng, broken, count, refused = Random(seed), 0, 0, 0
    session = Session(CharacterSubject(stepped_model("bar")))
    memory: list[float] = []
    end = time.monotonic() + 60 * minutes if minutes is not None else None
    with Page(session, port=0, folder=folder) as page:
        _one_visit(page, Random(1))
        threads = threading.active_count()
        while time.monotonic() < end if end is not None else count + refused < visits:
            try:
                broken += _one_visit(page, rng)
            except OSError:
                refused += 1
                continue
            count += 1
            if count % 20 == 0:
                gc.collect()
                memory.append(resident())
                if end is not None:
                    print(f"{count} visits, {memory[-1]:.1f} MB", flush=True)
        guests = page.server._websock_server._client_state_from_id
        until = time.monotonic() + 20
        while guests and time.monotonic() < until:
            time.sleep(0.05)
        return {
            "visits": count,
            "refused": refused,
            "broken": broken,
            "left": len(guests),
            "threads": threading.active_count() - threads,
            "failure": page.clock.failure,
            "memory": memory,
        }


def wrong(found: dict[str, Any], grown: float) -> bool:
    """Return whether anything is left of guests, or more than one in a hundred was refused."""
    kept = found["left"] or found["threads"] > MOST_THREADS or grown > FLAT
    shy = not found["visits"] or found["refused"] > 0.01 * found["visits"]
    return bool(kept or shy or found["failure"] is not None)


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
    print({name: value for name, value in found.items() if name != "memory"})
    return int(wrong(found, found["grown_mb"]))


if __name__ == "__main__":
    sys.exit(main())
