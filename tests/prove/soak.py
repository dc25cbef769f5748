"""A day at 90 Hz: ``python tests/prove/soak.py --hours 24``.

A simulator and a crowd are stepped with poses, roots, forces, obstacles and settings that change at
random. Every so often both are saved as bytes, and what is read from these has gone on to the same
bits by the next time. Memory is kept in ``.prove/soak.json`` and drawn in ``.prove/soak.png``; a
run goes on from the last saved state, so that it can be stopped.
"""

from __future__ import annotations

import argparse
import gc
import json
import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402

from helpers.build_samples import stepped_model  # noqa: E402
from prove.limits import resident  # noqa: E402
from supple.engines.pose_space.crowd import Crowd  # noqa: E402
from supple.engines.pose_space.simulator import PoseSpaceSimulator  # noqa: E402
from supple.mesh.obstacles import Box, Capsule, Plane, Sphere  # noqa: E402

PLACE = ROOT / ".prove"
#: Steps a second, members of the crowd, and steps between two looks.
RATE, MEMBERS, PIECE = 90, 6, 9000
#: Hertz of the two waves of a pose, at most.
WAVES = np.array([0.9, 2.3])[:, None, None]
#: Megabytes by which memory may grow after the first tenth.
FLAT = 1.0
#: Times its median that a step may take; beyond, and slow when it is taken again, it is ours.
SLOWEST = 20.0


@dataclass
class Soak:
    """What is stepped, what it is told, and what has been seen of it.

    Attributes
    ----------
    steps : int
        Taken so far.
    seed : int
        Of all that is random: an input depends on it and the number of the step alone.
    """

    seed: int = 0
    steps: int = 0
    simulator: PoseSpaceSimulator = field(default_factory=lambda: _simulator())
    crowd: Crowd = field(default_factory=lambda: crowd_of(1))

    def __post_init__(self) -> None:
        self.model = self.simulator.model
        self.size = self.model.surface.size
        self.low, self.high = self._range()
        self._cut, self._phases = -1, np.empty(0)
        # Nothing is allocated between two looks at the memory but what steps themselves take.
        self.skin = np.empty(self.model.surface.vertices.shape, np.float32)

    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        poses = np.concatenate([motion.poses for motion in self.model.motions.values()])
        return poses.min(axis=0), poses.max(axis=0)

    def poses(self) -> np.ndarray:
        """Return poses of all members, (MEMBERS, p), that wander, and now and then jump."""
        # Of slow waves that never repeat together; jumps are cuts.
        cut = self.steps // 4111
        if cut != self._cut:
            rngs = [np.random.default_rng((self.seed, k, cut)) for k in range(MEMBERS)]
            phases = np.stack([rng.random((3, len(self.low))) for rng in rngs], axis=1)
            self._cut, self._phases = cut, phases
        speed, start = self._phases[:2] * WAVES, self._phases[2]
        waves = np.sin(2 * np.pi * (speed * (self.steps / RATE) + start)).mean(axis=0)
        return 0.5 * (self.low + self.high) + 0.5 * (self.high - self.low) * waves

    def roots(self) -> np.ndarray:
        """Return roots of all members, (MEMBERS, 4, 4), that walk in circles, turn and hop."""
        time, out = self.steps / RATE, np.zeros((MEMBERS, 4, 4))
        turns = np.zeros((MEMBERS, 3))
        turns[:, 1], turns[:, 2] = 0.7 * time + np.arange(MEMBERS), 0.2 * np.sin(time)
        out[:, :3, :3] = Rotation.from_rotvec(turns).as_matrix()
        out[:, :3, 3] = [
            3 * np.cos(0.3 * time),
            0.2 * abs(np.sin(4 * time)),
            3 * np.sin(0.3 * time),
        ]
        out[:, 3, 3] = 1.0
        return out

    def change(self, rng: np.random.Generator) -> None:
        """Change settings and obstacles of the simulator."""
        kind = int(rng.integers(7))
        place = self.roots()[0, :3, 3] + self.size * rng.uniform(-0.5, 0.5, 3)
        if kind == 0:
            self.simulator.stiffness = float(10 ** rng.uniform(-2, 2))
        elif kind == 1:
            self.simulator.friction = float(rng.uniform(0, 1.5))
        elif kind == 2:
            modes = ("relative", "absolute", "none")
            self.simulator.gravity_mode = modes[int(rng.integers(3))]
        elif kind == 3:
            self.simulator.obstacles = ()
        elif kind == 4:
            floor = Plane(place - [0, self.size, 0], (0, 1, 0))
            self.simulator.obstacles = (Sphere(place, 0.2 * self.size), floor)
        elif kind == 5:
            ends = (place, place + self.size * rng.uniform(-0.5, 0.5, 3))
            self.simulator.obstacles = [Capsule(*ends, 0.1 * self.size)]
        else:
            self.simulator.obstacles = [Box(place, np.full(3, 0.2 * self.size))]

    def step(self) -> float:
        """Step all; seconds of the processor that the simulator's step took."""
        rng = np.random.default_rng((self.seed, self.steps))
        if rng.random() < 0.01:
            self.change(rng)
        forces = None
        if rng.random() < 0.05:
            forces = {int(rng.integers(len(self.skin))): rng.normal(0, 20, 3)}
        poses, roots = self.poses(), self.roots()
        start = time.thread_time()  # of the processor: others who have it are no concern of ours
        self.simulator.step(poses[0], roots[0], forces)
        seconds = time.thread_time() - start
        self.crowd.step(poses, roots)
        self.steps += 1
        return seconds

    def check(self) -> None:
        """Look at what there is: it is finite, and near the rig."""
        self.simulator.surface(self.skin)
        assert np.isfinite(self.skin).all(), f"step {self.steps}: the skin is not finite"
        assert np.isfinite(self.crowd.q).all(), f"step {self.steps}: the crowd is not finite"
        centre = self.roots()[0, :3, 3]
        far = float(np.linalg.norm(self.skin - centre, axis=1).max())
        assert far < 20 * self.size, f"step {self.steps}: the skin is {far:.2g} m from its root"

    def state(self) -> bytes:
        """Return what restores it."""
        return pickle.dumps((self.seed, self.steps, self.simulator, self.crowd))

    def bits(self) -> bytes:
        """Return the numbers that twins must share."""
        return self.simulator.q.tobytes() + self.crowd.q.tobytes() + self.skin.tobytes()


def crowd_of(threads: int) -> Crowd:
    """Return a crowd. So small a one takes longer on two threads, which wait for each other."""
    return Crowd(stepped_model("bar"), MEMBERS, 1 / RATE, threads=threads)


def _simulator() -> PoseSpaceSimulator:
    return PoseSpaceSimulator(stepped_model("bar"), 1 / RATE)


def restored(data: bytes) -> Soak:
    """Return what `Soak.state` saved."""
    return Soak(*pickle.loads(data))


def run(soak: Soak, steps: int, piece: int, told: Any = None) -> dict[str, Any]:
    """Step in pieces; after each, what was saved before it must have come to the same bits.

    Returns
    -------
    dict
        Memory in MB after each piece, the median and the longest step in seconds, and steps that
        took long twice.
    """
    found: dict[str, Any] = {"memory": [], "median_s": 0.0, "longest_s": 0.0, "slow": 0}
    last = soak.steps + steps
    while soak.steps < last:
        # The twin goes the last part of the piece only: it would double the time.
        tail = min(piece // 10 + 1, last - soak.steps)
        count = min(piece, last - soak.steps)
        seconds = np.empty(count)
        saved = b""
        for k in range(count):
            if k == count - tail:
                saved = soak.state()
            seconds[k] = soak.step()
        soak.check()
        twin = restored(saved)
        again = np.array([twin.step() for _ in range(tail)])
        twin.check()
        assert twin.bits() == soak.bits(), f"step {soak.steps}: what was restored has drifted"
        median = found["median_s"] = float(np.median(seconds))
        found["longest_s"] = max(found["longest_s"], float(seconds.max()))
        # A step is slow by itself if it is so for the twin as well: else the machine was.
        both = (seconds[-tail:] > SLOWEST * median) & (again > SLOWEST * median)
        found["slow"] += int(both.sum())
        del twin, saved
        gc.collect()
        found["memory"].append(resident())
        if told is not None:
            told(soak, found)
    return found


def growth(memory: list[float]) -> float:
    """Return megabytes from the median of the second tenth to that of the last."""
    tenth = max(len(memory) // 10, 1)
    return float(np.median(memory[-tenth:]) - np.median(memory[tenth : 2 * tenth] or memory[:1]))


def judged(parts: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    """Return figures of all parts of a run, each of which was a process with memory of its own."""
    return {
        "memory": [value for part in parts for value in part["memory"]],
        "median_s": float(np.median([part["median_s"] for part in parts])),
        "longest_s": max(part["longest_s"] for part in parts),
        "slow": sum(part["slow"] for part in parts),
        "parts": len(parts),
        "hours": steps / RATE / 3600,
        "grown_mb": sum(growth(part["memory"]) for part in parts),
    }


def draw(memory: list[float], hours: float, path: Path, label: str = "simulated hours") -> None:
    """Draw memory over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 3.2))
    axis.plot(np.linspace(0, hours, len(memory)), memory)
    axis.set_xlabel(label)
    axis.set_ylabel("memory (MB)")
    middle = float(np.median(memory))
    axis.set_ylim(middle - 10, middle + 10)
    axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(given: Sequence[str] | None = None) -> int:
    """Read the words of the command line; 1 if any part of the run has grown or been slow."""
    words = argparse.ArgumentParser(description="Step a simulator and a crowd for hours.")
    words.add_argument("--hours", type=float, default=24.0, help="of simulated time at 90 Hz")
    words.add_argument("--threads", type=int, default=1, help="of the crowd")
    words.add_argument("--anew", action="store_true", help="do not go on from the last state")
    told = words.parse_args(given)
    PLACE.mkdir(exist_ok=True)
    kept = PLACE / "soak.pkl"
    soak, before = Soak(crowd=crowd_of(told.threads)), []
    if kept.is_file() and not told.anew:
        state, before = pickle.loads(kept.read_bytes())
        soak = restored(state)
    begun, began = soak.steps, time.monotonic()

    def tell(soak: Soak, found: dict[str, Any]) -> None:
        beside = kept.with_suffix(".part")
        beside.write_bytes(pickle.dumps((soak.state(), [*before, found])))
        beside.replace(kept)
        hours = soak.steps / RATE / 3600
        rate = (soak.steps - begun) / RATE / (time.monotonic() - began)
        print(f"{hours:.2f} h, {rate:.1f}× as fast, {found['memory'][-1]:.1f} MB", flush=True)

    part = run(soak, max(round(told.hours * 3600 * RATE) - begun, 0), PIECE, tell)
    if not part["memory"]:
        print(f"{soak.steps / RATE / 3600:.2f} h are done already; --anew begins again")
    parts = [*before, part] if part["memory"] else before
    found = judged(parts, soak.steps)
    (PLACE / "soak.json").write_text(json.dumps(found))
    draw(found["memory"], found["hours"], PLACE / "soak.png")
    print({name: value for name, value in found.items() if name != "memory"})
    return int(found["grown_mb"] > FLAT or found["slow"] > 0)


if __name__ == "__main__":
    sys.exit(main())
