"""Record what Supple computes, and compare two records bit by bit.

``python tools/same_results.py record out.npz --assets FOLDER`` in one checkout and in another,
then ``python tools/same_results.py compare before.npz after.npz``. The cases are five baked
characters, four scenes' models with 100 steps each, the curves of a husky, a StVK body and a soft
hand. ``--only TEXT`` selects cases by name.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import supple
from supple.scenes import SCENES, scene, stvk_scene

# Models are built, not read from the cache.
os.environ["SUPPLE_KEEP_MODELS"] = "0"
#: Characters that are baked with defaults.
BAKED = ("q_Rat.glb", "q_Cow.glb", "q_Husky.glb", "CesiumMan.glb", "Fox.glb")
SCENE_OPTIONS = {"tets": 2500, "modes": 20}


def steps(simulator: Any, poses: Any, count: int = 100) -> dict[str, np.ndarray]:
    """Return every tenth surface of a simulator that repeats poses."""
    surfaces = []
    simulator.reset(poses[0])
    for step in range(count):
        simulator.step(poses[step % len(poses)])
        if step % 10 == 9:
            surfaces.append(simulator.surface().copy())
    return {"surfaces": np.array(surfaces)}


def saved(write: Callable[[Path], Any], ending: str) -> np.ndarray:
    """Return the SHA-256 of the file that a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"result{ending}"
        write(path)
        return np.frombuffer(hashlib.sha256(path.read_bytes()).digest(), dtype=np.uint8)


def baked(path: Path) -> dict[str, np.ndarray]:
    """Return frames and the file of a bake with defaults."""
    result = supple.bake(supple.load(path))
    return {
        "frames": np.asarray(result.frames),
        "file": saved(lambda out: supple.save(out, result), ".glb"),
    }


def scene_model(name: str) -> dict[str, np.ndarray]:
    """Return a scene's model file and 100 steps."""
    parts = scene(name)
    model = supple.build(parts.character, **(parts.recipe() | SCENE_OPTIONS))
    motion = next(iter(parts.character.motions.values()))
    poses = np.array([motion.at(step / 90)[0] for step in range(100)])
    return {"model": saved(model.save, ".supple")} | steps(supple.Simulator(model), poses)


def husky_curves(path: Path) -> dict[str, np.ndarray]:
    """Return the curves of a husky."""
    result = supple.curves(supple.load(path), free=["*Tail*"])
    return {"poses": np.asarray(result.motion.poses)}


def stvk_body() -> dict[str, np.ndarray]:
    """Return a StVK body's model file and 200 loaded steps."""
    body = stvk_scene("spoon")
    model = supple.build(
        body.mesh, engine="stvk", modes=12, material=body.material, fixed=body.fixed
    )
    simulator = supple.Simulator(model, dt=1 / 500)
    simulator.reset()
    for step in range(200):
        simulator.step({10: [0.0, 0.0, 0.1 * np.sin(step / 20)]})
    return {
        "model": saved(model.save, ".stvk"),
        "surface": simulator.surface().copy(),
    }


def soft_hand(path: Path) -> dict[str, np.ndarray]:
    """Return a soft hand's model file and 100 steps."""
    character = supple.load(path)
    model = supple.build(character, engine="soft-skeleton", tets=3000)
    rest = character.rig.rest_pose
    poses = np.array([rest + 0.2 * np.sin(step / 15) for step in range(100)])
    return {"model": saved(model.save, ".supple")} | steps(supple.Simulator(model), poses)


def cases(assets: Path) -> Iterator[tuple[str, Callable[[], dict[str, np.ndarray]]]]:
    """Yield names and functions of the cases."""
    characters = assets / "gltf_characters"
    for name in SCENES:
        yield f"scene {name}", lambda name=name: scene_model(name)
    yield "stvk", stvk_body
    yield "hand", lambda: soft_hand(assets / "parametric" / "openhand_right.npz")
    yield "curves", lambda: husky_curves(characters / "q_Husky.glb")
    for name in BAKED:
        yield f"bake {name}", lambda name=name: baked(characters / name)


def record(out: Path, assets: Path, only: str) -> None:
    """Write the results of all cases."""
    results = {}
    for name, run in cases(assets):
        if only in name:
            print(name, flush=True)
            results |= {f"{name}/{part}": array for part, array in run().items()}
    np.savez_compressed(out, **results)


def compare(before: Path, after: Path) -> int:
    """Print the largest relative difference of each result; return 1 if any differs."""
    old, new = np.load(before), np.load(after)
    differing = 0
    for name in sorted(set(old) | set(new)):
        if name not in old or name not in new:
            words = "missing"
        elif old[name].shape != new[name].shape:
            words = f"{old[name].shape} before, {new[name].shape} after"
        elif np.array_equal(old[name], new[name], equal_nan=True):
            continue
        elif old[name].dtype == np.uint8:
            words = "other bytes"
        else:
            change = np.abs(new[name] - old[name]).max() / np.ptp(old[name])
            words = f"differs by {change:.1e} of its range"
        differing += 1
        print(f"{name}: {words}")
    print(f"{len(old)} results, {differing} differ")
    return int(differing > 0)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    recording = modes.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--assets", type=Path, required=True)
    recording.add_argument("--only", default="")
    comparing = modes.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.mode == "compare":
        return compare(given.before, given.after)
    record(given.out, given.assets, given.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
