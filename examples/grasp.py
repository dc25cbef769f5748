"""Grasp: a hand closes on a tennis ball and lifts it; measure the contact forces.

Springs pull the fingers towards a pose inside the ball, which produces the grip. The script prints
the height of the ball over time, the pressing force of the skin, and the total force on the hand,
which is the ball's weight once it is in the air.

    python examples/grasp.py --picture grasp.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import supple
from supple.scenes.contact.contact_scene import ContactScene, contact_scene


class Measurements(NamedTuple):
    """Measurements at every step."""

    times: np.ndarray  # s
    heights: np.ndarray  # m, of the ball above its start
    grips: np.ndarray  # N, total pressing force on the ball
    forces: np.ndarray  # (t, 3) N, on the hand
    fingers: dict[str, float]  # N, largest force of each part of the hand


def grasp(
    scene: ContactScene, model: supple.engines.soft_skeleton.model.SoftSkeletonModel
) -> Measurements:
    """Simulate the grasp; return measurements."""
    ball = scene.object("ball")
    start = ball.centre[1]
    simulator = scene.simulator(model)
    times, heights, grips, forces = [], [], [], []
    fingers: dict[str, float] = {}
    for state in scene.play(simulator):
        contacts = simulator.contacts()
        on_ball = contacts.colliders == len(scene.obstacles)  # obstacles come first, then objects
        times.append(state.time)
        heights.append(ball.centre[1] - start)
        grips.append(np.linalg.norm(contacts.forces[on_ball], axis=1).sum())
        forces.append(state.readings["contact_force"].copy())
        for part, force in state.readings["parts"].items():
            fingers[part] = max(fingers.get(part, 0.0), float(np.linalg.norm(force)))
    return Measurements(
        np.array(times), np.array(heights), np.array(grips), np.array(forces), fingers
    )


def draw(measured: Measurements, path: Path) -> None:
    """Draw grip, force on the hand and height of the ball over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(measured.times, measured.grips, label="grip")
    above.plot(measured.times, measured.forces[:, 1], label="upward on the hand")
    above.set_ylabel("force (N)")
    above.legend(frameon=False)
    below.plot(measured.times, 1e3 * measured.heights, color="tab:green")
    below.set(xlabel="time (s)", ylabel="height of the ball (mm)")
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the example; return the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, help="draw forces over time to this PNG")
    parser.add_argument("--tets", type=int, default=5000, help="size of the model")
    parser.add_argument("--handles", type=int, default=60, help="number of handles of the flesh")
    options = parser.parse_args(arguments)

    scene = contact_scene("hand-ball")
    print("building the hand …")
    model = supple.build(
        scene.scene.character, engine="soft-skeleton", tets=options.tets, handles=options.handles
    )
    measured = grasp(scene, model)
    print("  time    ball     grip    on the hand")
    for k in range(17, len(measured.times), 18):
        row = measured.times[k], 1e3 * measured.heights[k], measured.grips[k], measured.forces[k, 1]
        print("{:5.1f} s {:4.0f} mm {:6.1f} N {:8.2f} N".format(*row))
    hardest = sorted(measured.fingers, key=lambda part: -measured.fingers[part])[:3]
    print(
        "largest forces:", ", ".join(f"{part} {measured.fingers[part]:.1f} N" for part in hardest)
    )
    weight = 9.81 * scene.object("ball").mass
    carried = -measured.forces[-1, 1]
    print(f"weight of the ball {weight:.2f} N; force on the hand in the air {carried:.2f} N")
    if options.picture is not None:
        draw(measured, options.picture)
        print(f"wrote {options.picture}")
    return {
        "lifted": float(measured.heights[-1]),
        "grip": float(measured.grips[-1]),
        "strongest": float(measured.grips.max()),
        "carried": -float(measured.forces[-1, 1]),
        "weight": weight,
    }


if __name__ == "__main__":
    main()
