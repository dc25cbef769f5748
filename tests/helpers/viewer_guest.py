"""Client of the viewer without a browser, which counts messages."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import msgspec
import viser
import zstandard
from websockets.sync.client import ClientConnection, connect


class Guest:
    """Client that connects like a page and reads messages.

    Parameters
    ----------
    address
        Of the page.
    origin
        Whose page it claims to be.
    """

    def __init__(self, address: str, origin: str | None = None) -> None:
        headers = {} if origin is None else {"Origin": origin}
        self.socket: ClientConnection = connect(
            address.replace("http", "ws"),
            subprotocols=[f"viser-v{viser.__version__}"],  # type: ignore[list-item]
            additional_headers=headers,
            max_size=None,
        )
        self.buffers: list[memoryview] = []

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *error: Any) -> None:
        self.socket.close()

    def say(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        self.socket.send(msgspec.msgpack.encode({"type": kind, **fields}))

    def look(self) -> None:
        """Send a camera, which makes the client count as an open page."""
        self.say(
            "ViewerCameraMessage",
            wxyz=(1.0, 0.0, 0.0, 0.0),
            position=(0.0, 0.0, 3.0),
            fov=0.8,
            near=0.01,
            far=100.0,
            image_height=300,
            image_width=400,
            look_at=(0.0, 0.0, 0.0),
            up_direction=(0.0, 1.0, 0.0),
        )

    def read(self, timeout: float = 5.0) -> list[dict[str, Any]]:
        """Return the messages of one window, with arrays replaced by their sizes."""
        raw = self.socket.recv(timeout=timeout)
        assert isinstance(raw, bytes)
        length = int.from_bytes(raw[8:16], "little")
        inner = zstandard.ZstdDecompressor().decompress(raw[16 : 16 + length])
        window = msgspec.msgpack.decode(inner)
        self.sizes = window["binaryBufferLengths"]
        return list(window["messages"])

    def count(self, seconds: float) -> Counter[str]:
        """Return the number of updates of each node's vertices, and the total bytes of arrays."""
        found: Counter[str] = Counter()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for message in self.read():
                if message["type"] == "SceneNodeUpdateMessage" and "vertices" in message["updates"]:
                    found[message["name"]] += 1
            found["bytes"] += sum(self.sizes)
        return found
