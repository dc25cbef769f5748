"""Stand in for the command `supple`: adds two known shapes to a sampled character, at once.

`STAND_IN` says how it behaves: "" as it should, "error", "crash", "hang"; "still" for flesh
that does not move.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    way = os.environ.get("STAND_IN", "")
    if "--version" in sys.argv:
        print("0.1.0")
        return
    print(json.dumps({"part": 0.5, "what": "simulating"}), file=sys.stderr, flush=True)
    if way == "error":
        print("supple: sample.glb: is of no use; make another", file=sys.stderr)
        sys.exit(1)
    if way == "crash":
        os.abort()
    if way == "hang":
        with open(os.environ["STAND_IN_PID"], "w") as file:
            file.write(str(os.getpid()))
        time.sleep(60)
    words = sys.argv[2:]
    if sys.argv[1] == "view":
        view(words)
        return
    source, target = words[0], words[words.index("-o") + 1]
    write(sys.argv[1], source, target)
    if kept := os.environ.get("STAND_IN_KEEP"):
        shutil.copy(target, kept)
        shutil.copy(source, kept + ".sample")
        with open(kept + ".json", "w") as file:
            json.dump(words, file)
    print(json.dumps({"error": 0.001, "frames": 8}))


def view(words: list[str]) -> None:
    """Save an anatomy of twice the stiffness, and end as if the damping had been set to 3."""
    folder = Path(words[words.index("--folder") + 1])
    if os.environ.get("STAND_IN") == "saves":
        feel = {"stiffness": 4, "damping": 3}
        text = json.dumps({"supple_anatomy": 1, "feel": feel, "regions": {}})
        (folder / f"{Path(words[0]).stem}.anatomy.json").write_text(text)
    Path(os.environ["STAND_IN_KEEP"] + ".json").write_text(json.dumps(words))
    print("http://127.0.0.1:8080")
    print(json.dumps({"stiffness": 2.0, "damping": 3.0}))


def write(command: str, source: str, target: str) -> None:
    data = Path(source).read_bytes()
    size = struct.unpack_from("<I", data, 12)[0]
    document, body = json.loads(data[20 : 20 + size]), bytearray(data[28 + size :])

    def array(index: int) -> np.ndarray:
        entry = document["accessors"][index]
        width = {"SCALAR": 1, "VEC3": 3}[entry["type"]]
        start = document["bufferViews"][entry["bufferView"]]["byteOffset"]
        return np.frombuffer(bytes(body), "<f4", width * entry["count"], start).reshape(-1, width)

    def add(values: np.ndarray) -> int:
        values = np.ascontiguousarray(values, "<f4")
        view = {"buffer": 0, "byteOffset": len(body), "byteLength": values.nbytes}
        document["bufferViews"].append(view)
        body.extend(values.tobytes())
        entry: dict[str, Any] = {
            "bufferView": len(document["bufferViews"]) - 1,
            "componentType": 5126,
        }
        kind = "SCALAR" if values.ndim == 1 else f"VEC{values.shape[1]}"
        entry |= {"count": len(values), "type": kind}
        document["accessors"].append(entry)
        return len(document["accessors"]) - 1

    if os.environ.get("STAND_IN") != "still":
        change = add_curves if command == "curves" else add_flesh
        change(document, array, add)
    document["buffers"] = [{"byteLength": len(body)}]
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    with open(target, "wb") as file:
        file.write(struct.pack("<III", 0x46546C67, 2, 28 + len(text) + len(body)))
        file.write(struct.pack("<II", len(text), 0x4E4F534A) + text)
        file.write(struct.pack("<II", len(body), 0x004E4942) + bytes(body))


def add_flesh(document: Any, array: Any, add: Any) -> None:
    for mesh in document["meshes"]:
        for primitive in mesh["primitives"]:
            x = array(primitive["attributes"]["POSITION"])
            lift = np.ptp(x, axis=0).max()
            shapes = [
                0.03 * lift * np.sin(5 * x / lift),
                0.02 * lift * np.cos(7 * x[:, ::-1] / lift),
            ]
            targets = primitive.setdefault("targets", [])
            targets.extend({"POSITION": add(shape)} for shape in shapes)
    for animation in document["animations"]:
        for node, described in enumerate(document["nodes"]):
            if "mesh" not in described:
                continue
            before = len(document["meshes"][described["mesh"]]["primitives"][0]["targets"]) - 2
            times = animation["samplers"][0]["input"]
            t = array(times)[:, 0]
            part = t / t[-1]
            new = np.stack([np.sin(2 * np.pi * part), part - part**2], axis=1)
            old = [
                c for c in animation["channels"] if c["target"] == {"node": node, "path": "weights"}
            ]
            if old:
                sampler = animation["samplers"][old[0]["sampler"]]
                own = array(sampler["output"]).reshape(len(t), before)
                sampler["output"] = add(np.hstack([own, new]).ravel())
            else:
                own = np.zeros((len(t), before))
                animation["samplers"].append(
                    {"input": times, "output": add(np.hstack([own, new]).ravel())}
                )
                at = len(animation["samplers"]) - 1
                animation["channels"].append(
                    {"sampler": at, "target": {"node": node, "path": "weights"}}
                )


def add_curves(document: Any, array: Any, add: Any) -> None:
    """Add a clip that turns the bones Mid and Tip about x, and moves the first shape."""
    clip = document["animations"][0]
    times = clip["samplers"][0]["input"]
    t = array(times)[:, 0]
    angle = 0.4 * np.sin(2 * np.pi * t / t[-1])
    x, y, z, w = np.sin(angle / 2), 0 * t, 0 * t, np.cos(angle / 2)
    samplers, channels = [], []
    for node, described in enumerate(document["nodes"]):
        if described.get("name") in ("Mid", "Tip"):
            a, b, c, d = described["rotation"]  # times what is added
            turned = np.stack([d * x + a * w, b * w + c * x, c * w - b * x, d * w - a * x], axis=1)
            samplers.append({"input": times, "output": add(turned + 0 * (y + z)[:, None])})
            target = {"node": node, "path": "rotation"}
            channels.append({"sampler": len(samplers) - 1, "target": target})
        elif "mesh" in described and "weights" in document["meshes"][described["mesh"]]:
            first = np.array(document["meshes"][described["mesh"]]["weights"])
            values = np.tile(first, (len(t), 1))
            values[:, 0] += angle
            samplers.append({"input": times, "output": add(values.ravel())})
            target = {"node": node, "path": "weights"}
            channels.append({"sampler": len(samplers) - 1, "target": target})
    name = f"{clip['name']}_additive"
    document["animations"].append({"name": name, "samplers": samplers, "channels": channels})


if __name__ == "__main__":
    main()
