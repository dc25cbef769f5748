"""Touch a bridge: a golf ball in a hand, pressed onto a soft bridge and moved along it.

A haptic device needs a force a thousand times a second. Each step tests the ball against 59,000
triangles of the moving bridge and computes contact forces on both. This script follows a path of
the hand, prints the number of steps per second, and draws the force on the hand:

    python examples/haptic_bridge.py --picture felt.png
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.interpolate import PchipInterpolator

from supple import StvkModel, StvkSimulator
from supple.engines.stvk.haptics.haptic_ball import HapticBall, HapticRun
from supple.scenes.bodies.elastic_scene import stvk_scene

RATE = 1000  # Hz, for realistic haptic feedback
RADIUS, MASS = 0.02135, 0.0459  # a golf ball, in m and kg
DECK = 0.0211  # m, height of the bridge under the ball
MOTOR = 3.3  # N, largest force of a desktop device
CONTACT = 8000.0  # N/m, for an indentation of half a millimetre
SPRING, DAMPER = 300.0, 3.0  # between hand and ball, in N/m and Ns/m


def bridge(modes: int) -> StvkModel:
    """Return the model of the bridge with 5,668 voxels and its surface."""
    scene = stvk_scene("bridge")
    basis = "derivatives" if modes > 8 else "modes"  # too few modes for derivatives
    return StvkModel.build(
        scene.mesh, scene.material, modes, fixed=scene.fixed, surface=scene.surface, basis=basis
    )


def hand_path(deck: float, seconds: float) -> np.ndarray:
    """Return positions of the hand (t, 3): down onto the deck, along it, and up again."""
    above, below = deck + RADIUS + 0.02, deck + RADIUS - 0.012
    moments = seconds * np.array([0.0, 0.2, 0.35, 0.75, 0.9, 1.0])
    along = [-0.10, -0.10, -0.10, 0.15, 0.15, 0.15]
    height = [above, above, below, below, above, above]
    t = np.arange(int(seconds * RATE)) / RATE
    x, y = (PchipInterpolator(moments, corners)(t) for corners in (along, height))
    return np.stack([x, y, np.zeros_like(t)], axis=1)


def ball_in_hand(simulator: StvkSimulator, position: np.ndarray) -> HapticBall:
    """Return the ball, held to the hand by a spring."""
    return HapticBall(
        simulator,
        radius=RADIUS,
        mass=MASS,
        position=position,
        stiffness=CONTACT,
        hand_stiffness=SPRING,
        hand_damping=DAMPER,
        most_force=MOTOR,
    )


def restart(ball: HapticBall, position: np.ndarray) -> None:
    """Reset bridge and ball."""
    ball.simulator.reset()
    ball.reset(position)


def in_one_call(ball: HapticBall, hand: np.ndarray) -> tuple[HapticRun, float]:
    """Return forces along the path, and the number of steps per second."""
    began = time.perf_counter()
    felt = ball.run(hand)
    return felt, len(hand) / (time.perf_counter() - began)


def one_by_one(ball: HapticBall, hand: np.ndarray) -> np.ndarray:
    """Take single steps as a device does; return the seconds of each."""
    took = np.empty(len(hand))
    for i, position in enumerate(hand):
        began = time.perf_counter()
        step = ball.step(position)
        took[i] = time.perf_counter() - began
        assert np.abs(step.force).max() <= MOTOR * (
            1 + 1e-12
        )  # a device would send it to the motors
    return took


def draw(felt: HapticRun, hand: np.ndarray, path: Path) -> None:
    """Draw the force on the hand over time, and the heights of ball and hand."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    t = np.arange(len(hand)) / RATE
    for name, column in zip(("along the bridge", "up", "across"), felt.forces.T, strict=True):
        above.plot(t, column, label=name, linewidth=1)
    above.set_ylabel("force on the hand (N)")
    above.axhline(-MASS * 9.81, color="0.7", linewidth=0.8, label="weight of the ball")
    below.plot(t, 1000 * hand[:, 1], "--", color="0.5", label="hand")
    below.plot(t, 1000 * felt.positions[:, 1], label="ball", linewidth=1)
    below.set(xlabel="time (s)", ylabel="height (mm)")
    above.legend(loc="upper right", frameon=False)
    below.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the example; return the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, help="draw the force over time to this PNG")
    parser.add_argument("--quick", action="store_true", help="fewer modes, a shorter path")
    options = parser.parse_args(arguments)

    print("building the bridge …")
    simulator = StvkSimulator(bridge(6 if options.quick else 15), 1 / RATE, alpha=0.5, beta=1e-4)
    hand = hand_path(DECK, seconds=1.0 if options.quick else 4.0)
    ball = ball_in_hand(simulator, hand[0])
    print(f"{simulator.model}, {ball.tree}")
    ball.run(hand[:2])  # compiles, the first time

    restart(ball, hand[0])
    felt, rate = in_one_call(ball, hand)
    spheres, triangles = (count / (len(hand) + 2) for count in ball.tree.visited)
    restart(ball, hand[0])
    took = one_by_one(ball, hand)

    strongest = float(np.linalg.norm(felt.forces, axis=1).max())
    print(f"largest force {strongest:.2f} N, largest indentation {1e3 * felt.depths.max():.2f} mm")
    print(f"{spheres:.0f} of {len(ball.tree)} spheres and {triangles:.0f} triangles tested a step")
    print(f"{rate:,.0f} steps a second in one call; {RATE} are needed")
    print(
        f"{1 / took.mean():,.0f} one by one; half took up to {1e6 * np.median(took):.0f} µs, "
        f"99 % up to {1e6 * np.quantile(took, 0.99):.0f} µs"
    )
    if options.picture is not None:
        draw(felt, hand, options.picture)
        print(f"drawn to {options.picture}")
    return {"rate": rate, "strongest": strongest, "depth": float(felt.depths.max())}


if __name__ == "__main__":
    main()
