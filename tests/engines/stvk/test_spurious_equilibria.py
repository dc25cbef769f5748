"""Spurious equilibria of small bases are detected and reported (barbic2005 §8)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from supple import SuppleError
from supple.app.viewer.session.body_actor import BodyActor
from supple.elastic.material import Material
from supple.engines.stvk import CubicModel, StvkModel, StvkSimulator
from supple.errors import SuppleWarning
from supple.scenes.bodies.beam import beam


def double_well(dt: float = 0.01) -> StvkSimulator:
    """Return f(q) = q (1 − q) (1 − 2q), with a second equilibrium at q = 1."""
    return StvkSimulator(CubicModel([[1.0, -6.0, 6.0]]), dt, alpha=3.0)


def test_body_that_rests_in_a_spurious_equilibrium_is_reported_in_words() -> None:
    simulator = double_well()
    simulator.reset([1.2])
    with pytest.warns(SuppleWarning, match="spurious equilibrium.*use more modes"):
        simulator.run(2000)
    assert simulator.q[0] == pytest.approx(1.0, abs=1e-3)
    assert simulator.spurious_distance() == pytest.approx(1.0 / simulator._unit, rel=1e-3)
    limits = [simulator.step().limits for _ in range(30)]
    assert limits[-1] == ("equilibrium",)
    simulator.reset()
    assert simulator.step().limits == ()


def test_body_at_its_true_equilibrium_in_motion_or_under_a_load_is_not_reported() -> None:
    simulator = double_well()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulator.reset([0.3])
        simulator.run(3000)  # back to rest
        simulator.reset([1.2])
        simulator.run(40)  # still moving
        simulator.run(np.full((3000, 1), 0.05))  # pushed away from q = 1
    assert simulator.spurious_distance() == 0.0


def test_body_that_swings_without_damping_is_not_reported() -> None:
    """At a turning point velocities are zero, and stiff coordinates have large balanced forces."""
    mesh = beam(cells=(8, 2, 2))
    model = StvkModel.build(
        mesh, Material("stvk", young=4e4), modes=10, fixed=mesh.vertices[:, 0] == 0
    )
    simulator = StvkSimulator(model, 1e-3)
    speed = np.zeros(10)
    speed[0] = 0.3 / np.linalg.norm(model.basis[:, :, 0], axis=1).max()
    simulator.reset(velocity=speed * np.sqrt(model.stiffness(np.zeros(10))[0, 0]))
    farthest = 0.0
    for _ in range(2000):
        simulator.run(1)
        farthest = max(farthest, np.abs(simulator.q[0] / speed[0]))
        assert simulator.spurious_distance() == 0.0
    assert farthest > 0.3


def test_body_that_sags_under_its_weight_is_not_reported() -> None:
    mesh = beam(cells=(8, 2, 2))
    model = StvkModel.build(
        mesh, Material("stvk", young=4e4), modes=6, fixed=mesh.vertices[:, 0] == 0
    )
    simulator = StvkSimulator(model, 2e-3, alpha=8.0, gravity=(0, -9.81, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulator.run(4000)
    sag = np.linalg.norm(simulator.surface() - model.surface.vertices, axis=1).max()
    assert sag > 0.1 * model.surface.size
    assert simulator.spurious_distance() == 0.0


def test_viewer_restarts_a_body_from_a_spurious_equilibrium(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mesh = beam(cells=(4, 1, 1))
    model = StvkModel.build(mesh, Material("stvk"), modes=2, fixed=mesh.vertices[:, 0] == 0)
    actor = BodyActor(model)
    actor.step(100)
    monkeypatch.setattr(actor.simulator, "run", lambda steps: None)
    monkeypatch.setattr(StvkSimulator, "spurious_distance", lambda self: 1.23)
    with pytest.raises(SuppleError, match=r"1\.2 of its size.*restarts"):
        actor.step(1000)
