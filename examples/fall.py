"""Fall: a body loses balance and hits the ground; measure the contact forces.

    python examples/fall.py
    python examples/fall.py --limp --picture fall.png

The body leans forward beyond its balance and falls by gravity alone. Its joints hold a pose with
stretched arms, or with --limp none.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import supple
from supple.scenes.contact.contact_scene import ContactScene, contact_scene


class Impact(NamedTuple):
    """Forces of the ground on the body."""

    times: np.ndarray  # s
    forces: np.ndarray  # (t, 3) N
    parts: dict[str, np.ndarray]  # (t,) N on each part of the body


def fall(
    scene: ContactScene,
    model: supple.engines.soft_skeleton.model.SoftSkeletonModel,
    limp: bool,
    seconds: float,
) -> Impact:
    """Simulate the fall; return the forces of the ground."""
    simulator = scene.simulator(model, **({"tracking": 0.0} if limp else {}))
    times, forces, parts = [], [], []
    for state in scene.play(simulator, seconds):
        times.append(state.time)
        forces.append(state.readings["contact_force"].copy())
        on_parts = state.readings["parts"].items()
        parts.append({part: float(np.linalg.norm(force)) for part, force in on_parts})
    names = sorted({name for row in parts for name in row})
    by_part = {name: np.array([row.get(name, 0.0) for row in parts]) for name in names}
    return Impact(np.array(times), np.array(forces), by_part)


def draw(impact: Impact, path: Path) -> None:
    """Draw the total force over time, and those on the five parts with the largest forces."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(impact.times, np.linalg.norm(impact.forces, axis=1), color="0.2", label="total")
    for name in sorted(impact.parts, key=lambda name: -impact.parts[name].max())[:5]:
        axes.plot(impact.times, impact.parts[name], linewidth=1, label=name.replace("_", " "))
    axes.set(xlabel="time (s)", ylabel="force of the ground (N)")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float | str]:
    """Run the example; return the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, help="draw forces over time to this PNG")
    parser.add_argument("--limp", action="store_true", help="joints without springs")
    parser.add_argument("--seconds", type=float, default=1.5, help="duration")
    parser.add_argument("--tets", type=int, default=6000, help="size of the model")
    parser.add_argument("--handles", type=int, default=60, help="number of handles of the flesh")
    options = parser.parse_args(arguments)

    scene = contact_scene("body-fall")
    print("building the body …")
    model = supple.build(
        scene.scene.character, engine="soft-skeleton", tets=options.tets, handles=options.handles
    )
    impact = fall(scene, model, options.limp, options.seconds)
    strength = np.linalg.norm(impact.forces, axis=1)
    peak = int(strength.argmax())
    print(f"largest force of the ground at {impact.times[peak]:.2f} s: {strength[peak]:,.0f} N")
    hardest = max(impact.parts, key=lambda part: float(impact.parts[part].max()))
    for part in sorted(impact.parts, key=lambda part: -impact.parts[part].max())[:5]:
        force, when = impact.parts[part].max(), impact.times[impact.parts[part].argmax()]
        print(f"  {part.replace('_', ' '):16} {force:7,.0f} N at {when:.2f} s")
    if options.picture is not None:
        draw(impact, options.picture)
        print(f"wrote {options.picture}")
    return {
        "peak": float(strength[peak]),
        "at": float(impact.times[peak]),
        "hardest": hardest,
        "last": float(strength[-1]),
    }


if __name__ == "__main__":
    main()
