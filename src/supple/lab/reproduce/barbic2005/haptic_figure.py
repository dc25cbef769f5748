"""barbic2005 fig. 1: a ball in a hand presses on a bridge, with force feedback at a kilohertz."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Circle

from supple.app.pictures.drawing import INK, save_picture
from supple.arrays import Floats
from supple.engines.stvk.bases import derivative_basis
from supple.engines.stvk.haptics.haptic_ball import HapticBall
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.lab.bench.timing import processor_time
from supple.lab.reproduce.barbic2005.bodies import body_view, draw_body, pair, shown_scene
from supple.lab.reproduce.figures import label_chart, new_figure
from supple.progress import Progress

#: Steps a second that a haptic device needs, and steps a second of four modes, as printed.
_RATE, _FOUR_MODES = 1000, 200_000.0
#: Radius of the ball relative to the body's length, depth of the hand below the skin relative to
#: the radius, and seconds of the press.
_RADIUS, _DEPTH, _SECONDS = 0.03, 3.0, 3.0
#: Mass of the ball relative to the body, and contact stiffness relative to the steady limit.
_MASS, _HARD = 0.2, 0.4
_TRIES = 5


def fig1(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Press a ball on the bridge, and measure steps of body, contact and hand."""
    scene = shown_scene("bridge", quick)
    progress(0.0, "basis")
    body = scene.body()
    basis = derivative_basis(body, scene.modes, fixed=scene.fixed, linear=scene.linear_modes)
    model = StvkModel.from_basis(
        scene.mesh, scene.material, basis, fixed=scene.fixed, surface=scene.surface
    )
    where = scene.mesh.vertices[scene.pulled].copy()
    where[2] = 0.0  # between the arches
    ball, hands = _pressing(model, where)
    progress(0.7, "contact at 1000 Hz")
    ball.run(hands[:50])  # compiles
    touched = _Touched.of(model, where)
    progress(0.9, "four modes")
    simulator = StvkSimulator(model.truncate(min(4, model.modes)), 1 / _RATE)
    simulator.run(1000)
    count = 20_000
    alone = min(_spent(lambda: simulator.run(count)) for _ in range(_TRIES)) / count
    save_picture(touched.picture(scene.name, model), folder / "barbic2005-fig1.png")
    size = float(np.ptp(body.rest, axis=0).max())
    rates = pair(1 / touched.seconds_a_step, float(_RATE), quick)
    return {
        "title": "barbic2005 fig. 1: haptic rendering of a bridge",
        "message": f"Body, contact and hand take {1e6 * touched.seconds_a_step:.2g} µs a step with "
        f"r = {model.modes}, {1 / touched.seconds_a_step / _RATE:.0f} times faster than "
        f"{_RATE} Hz; four modes alone make {1 / alone:,.0f} steps a second (paper: over 200,000).",
        "triangles": pair(len(model.surface.triangles), 59630, quick),
        "r": pair(model.modes, 15, quick),
        "steps_a_second": rates,
        "slowest_step_s": touched.slowest,
        "four_modes_steps_a_second": pair(1 / alone, _FOUR_MODES, quick),
        "largest_force_N": float(np.linalg.norm(touched.forces, axis=1).max()),
        "largest_displacement": touched.displacement / size,
        "note": "The hand presses the ball on the top of the bridge, holds it and lets go. Seconds "
        "of the processor, one core, contact included; the slowest of blocks of ten steps. The "
        "paper's rates are lower bounds.",
    }


def _pressing(model: StvkModel, where: Floats) -> tuple[HapticBall, Floats]:
    """Return a ball above a place of the body, and positions of the hand that presses it in."""
    surface = model.surface
    low, high = surface.bounds
    radius = _RADIUS * float((high - low).max())
    column = surface.vertices[
        np.linalg.norm((surface.vertices - where)[:, [0, 2]], axis=1) < radius
    ]
    top = float(column[:, 1].max())
    above = np.array([where[0], top + 1.05 * radius, where[2]])
    mass = _MASS * float(model.groups.density @ model.inertia.volumes) if model.inertia else 1.0
    simulator = StvkSimulator(model, 1 / _RATE, alpha=6.0, beta=1e-4)
    moved = np.linalg.solve(model.mass, model.surface_basis.reshape(-1, model.modes).T)
    light = 1 / mass + float(
        np.einsum("vir,rvi->v", model.surface_basis, moved.reshape(model.modes, -1, 3)).max()
    )
    stiffness = _HARD * _RATE**2 / light
    ball = HapticBall(
        simulator,
        radius=radius,
        mass=mass,
        position=above,
        stiffness=stiffness,
        hand_stiffness=0.5 * stiffness,
        hand_damping=0.5 * np.sqrt(stiffness * mass),
        most_force=1e4,
        gravity=(0, 0, 0),
    )
    times = np.arange(round(_SECONDS * _RATE)) / _RATE / _SECONDS
    down = np.clip(np.minimum(times / 0.4, (1 - times) / 0.4), 0, 1)
    hands = np.tile(above, (len(times), 1))
    hands[:, 1] -= _DEPTH * radius * down
    return ball, hands


class _Touched:
    """Record of a press: forces on the hand, the deepest moment, and costs."""

    @classmethod
    def of(cls, model: StvkModel, where: Floats) -> _Touched:
        """Press the ball in blocks of ten steps, and time each."""
        touched = cls()
        seconds: list[Floats] = []
        for _ in range(_TRIES):
            ball, hands = _pressing(model, where)
            forces, spent, deepest = [], [], 0.0
            for first in range(0, len(hands), 10):
                block = hands[first : first + 10]
                began = processor_time()
                run = ball.run(block)
                spent.append((processor_time() - began) / len(block))
                forces.append(run.forces)
                skin = ball.simulator.surface()
                moved = float(np.linalg.norm(skin - model.surface.vertices, axis=1).max())
                if moved > deepest:
                    deepest, touched.skin, touched.place = moved, skin.astype(float), ball.position
            seconds.append(np.array(spent))
        best = np.min(seconds, axis=0)  # of the same block in several runs
        touched.forces, touched.displacement = np.concatenate(forces), deepest
        touched.seconds_a_step, touched.slowest = float(best.mean()), float(best.max())
        touched.radius = ball.radius
        return touched

    def __init__(self) -> None:
        self.skin: Floats = np.zeros((0, 3))
        self.place: Floats = np.zeros(3)
        self.forces: Floats = np.zeros((0, 3))
        self.displacement = self.seconds_a_step = self.slowest = self.radius = 0.0

    def picture(self, name: str, model: StvkModel) -> Any:
        """Draw the pressed body with the ball, and the force on the hand over time."""
        figure = new_figure((11, 4.2), f"A ball in a hand presses on a {name}", 12)
        axes, chart = figure.subplots(1, 2, width_ratios=(1.9, 1))
        caption = f"r = {model.modes}, {len(model.surface.triangles):,} triangles"
        draw_body(axes, name, model.surface, self.skin, caption, limits=[model.surface.vertices])
        at = body_view(name)[:2] @ self.place
        axes.add_patch(Circle((at[0], at[1]), self.radius, color="#c8453b", alpha=0.85))
        chart.plot(np.arange(len(self.forces)) / _RATE, self.forces[:, 1], color=INK)
        label_chart(chart, "time (s)", "force on the hand, upwards (N)")
        return figure


def _spent(run: Any) -> float:
    began = processor_time()
    run()
    return processor_time() - began
