"""Grasp: a hand closes on a tennis ball, lifts it, and feels it.

Fingers are pulled towards a pose by springs, and the pose goes through the ball: that is the grip.
The script says over time how high the ball is, how hard the skin presses on it, and the force that
is left on the hand: none but the ball's weight once it is in the air.

    python examples/grasp.py --picture grasp.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import supple
from supple.scenes.contact.contact_scene import ContactScene, contact_scene


class Felt(NamedTuple):
    """What was measured at every step."""

    times: np.ndarray  # s
    heights: np.ndarray  # m, of the ball above where it lay
    grips: np.ndarray  # N, all that presses on the ball
    forces: np.ndarray  # (t, 3) N, on the hand
    fingers: dict[str, float]  # N, the hardest each part of the hand pressed


def grasp(scene: ContactScene, model: supple.engines.soft_skeleton.model.SoftSkeletonModel) -> Felt:
    """Close, squeeze and lift."""
    ball = scene.object("ball")
    lay = ball.centre[1]
    simulator = scene.simulator(model)
    times, heights, grips, forces = [], [], [], []
    fingers: dict[str, float] = {}
    for state in scene.play(simulator):
        touched = simulator.contacts()
        on_ball = touched.colliders == len(scene.obstacles)  # obstacles come first, then objects
        times.append(state.time)
        heights.append(ball.centre[1] - lay)
        grips.append(np.linalg.norm(touched.forces[on_ball], axis=1).sum())
        forces.append(state.readings["contact_force"].copy())
        for part, force in state.readings["parts"].items():
            fingers[part] = max(fingers.get(part, 0.0), float(np.linalg.norm(force)))
    return Felt(np.array(times), np.array(heights), np.array(grips), np.array(forces), fingers)


def draw(felt: Felt, path: Path) -> None:
    """Draw grip, force on the hand and height of the ball over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(felt.times, felt.grips, label="grip")
    above.plot(felt.times, felt.forces[:, 1], label="upward on the hand")
    above.set_ylabel("force (N)")
    above.legend(frameon=False)
    below.plot(felt.times, 1e3 * felt.heights, color="tab:green")
    below.set(xlabel="time (s)", ylabel="height of the ball (mm)")
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the example; what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, help="draw forces over time to this PNG")
    parser.add_argument("--tets", type=int, default=5000, help="size of the model")
    parser.add_argument("--handles", type=int, default=60, help="places that move the flesh")
    options = parser.parse_args(arguments)

    scene = contact_scene("hand-ball")
    print("building the hand …")
    model = supple.build(
        scene.scene.character, engine="soft-skeleton", tets=options.tets, handles=options.handles
    )
    felt = grasp(scene, model)
    print("  time    ball     grip    on the hand")
    for k in range(17, len(felt.times), 18):
        row = felt.times[k], 1e3 * felt.heights[k], felt.grips[k], felt.forces[k, 1]
        print("{:5.1f} s {:4.0f} mm {:6.1f} N {:8.2f} N".format(*row))
    hardest = sorted(felt.fingers, key=lambda part: -felt.fingers[part])[:3]
    print("pressed hardest:", ", ".join(f"{part} {felt.fingers[part]:.1f} N" for part in hardest))
    weight = 9.81 * scene.object("ball").mass
    felt_weight = -felt.forces[-1, 1]
    print(f"the ball weighs {weight:.2f} N; held in the air, the hand feels {felt_weight:.2f} N")
    if options.picture is not None:
        draw(felt, options.picture)
        print(f"drawn to {options.picture}")
    return {
        "lifted": float(felt.heights[-1]),
        "grip": float(felt.grips[-1]),
        "strongest": float(felt.grips.max()),
        "carried": -float(felt.forces[-1, 1]),
        "weight": weight,
    }


if __name__ == "__main__":
    main()
