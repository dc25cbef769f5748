"""Our solver of a stage: what it keeps, what it skips, and what a step must not cost."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import supple
from helpers.build_samples import bar_mesh
from helpers.rig_space_samples import belly, belly_options, trunk, trunk_options
from supple.engines.rig_space.build import build
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.engines.rig_space.solvers.column_spans import column_spans
from supple.engines.rig_space.solvers.condensed import CondensedSolver
from supple.engines.rig_space.solvers.stage_problem import BoundedSystem
from supple.rig.character import Character
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.wire import Wire

BELLY = (6, 4, 4)


@cache
def local_belly(rig: Any = None) -> RigSpaceModel:
    character = belly(BELLY, 20, 0.08)
    if rig is not None:
        character = Character("belly", character.surface, rig)
    return supple.build(character, engine="rig-space", **belly_options(BELLY, cubature=60))


def shaken(i: int) -> np.ndarray:
    root = np.eye(4)
    root[1, 3] = 0.05 * np.sin(2 * np.pi * i / 90) ** 3
    return root


def curves(model: RigSpaceModel, steps: int = 20, **options: Any) -> np.ndarray:
    simulator = RigSpaceSimulator(model, **options)
    found = []
    for i in range(1, steps + 1):
        assert simulator.step(None, shaken(i)).limits == ()
        found.append(simulator.parameters)
    return np.array(found)


def test_spans_of_columns_begin_and_end_at_eights_and_hold_all_that_is_reached():
    reached = np.random.default_rng(0).random((30, 45)) < 0.05
    reached[3], reached[4] = False, True
    starts, spans = column_spans(reached)
    assert starts[3] == starts[4]
    assert spans[starts[4] : starts[5]].tolist() == [[0, 48]]
    for v in range(30):
        held = np.zeros(48, bool)
        for begin, end in spans[starts[v] : starts[v + 1]]:
            assert begin % 8 == end % 8 == 0
            assert reached[v, begin : begin + 8].any()
            held[begin:end] = True
        assert held[:45][reached[v]].all()


@pytest.mark.parametrize("name", ["trunk", "local"])
def test_columns_in_spans_are_those_of_the_flesh(name):
    if name == "local":
        model = local_belly()
    else:
        options = trunk_options((8, 3, 3), cubature=60)
        model = supple.build(trunk((8, 3, 3)), engine="rig-space", **options)
    solver, flesh = CondensedSolver(model), model.flesh(model.active)
    rng = np.random.default_rng(0)
    pose = np.array(model.rig.rest_pose)
    pose[0] += 0.2
    c = np.array(0.01 * rng.standard_normal(solver.size))
    solver.place(pose, c)
    flesh.set_key(pose)
    flesh.rotations.follow(flesh.key)
    flesh.move(c)
    np.testing.assert_allclose(solver.x, flesh.x, atol=1e-7)
    solver._move(c, columns=True)
    columns = solver._arrays.flesh.columns.reshape(*flesh.x.shape, -1)
    np.testing.assert_allclose(columns[:, :, : solver.size], flesh.Y, atol=1e-6)
    assert not columns[:, :, solver.size :].any()


def test_a_change_between_bounds_is_the_minimum_and_its_factor_is_used_again():
    rng, size = np.random.default_rng(1), 21
    root = rng.standard_normal((size, size))
    hessian = root @ root.T + np.eye(size)
    c, lower, upper = np.zeros(size), np.full(size, -0.05), np.full(size, 0.1)
    upper[3], c[5], c[6] = 0.0, 0.1, 0.3
    kept = BoundedSystem(size)
    for _ in range(4):
        gradient = rng.standard_normal(size)
        fresh = BoundedSystem(size)
        for system in (kept, fresh):
            assert system.solve(gradient, hessian, c, lower, upper)
        np.testing.assert_allclose(kept.change, fresh.change, atol=1e-12)
        there, slope = c + kept.change, gradient + hessian @ kept.change
        assert there.min() >= -0.05 - 1e-12
        assert (there <= upper + 1e-12).all()
        free = (there > lower + 1e-9) & (there < upper - 1e-9)
        assert np.abs(slope[free]).max(initial=0.0) < 1e-9
        assert (slope[there <= lower + 1e-9] >= -1e-9).all()
        assert (slope[there >= upper - 1e-9] <= 1e-9).all()
    kept.renew()
    assert not kept.solve(gradient, -hessian, c, lower, upper)


def test_the_hessian_of_shapes_is_that_of_rest_and_finds_what_the_exact_one_does(monkeypatch):
    model, asked = local_belly(), []
    plain = CondensedSolver.value

    def counted(self, stage, c, wanted=2):
        asked.append(wanted)
        return plain(self, stage, c, wanted)

    monkeypatch.setattr(CondensedSolver, "value", counted)
    found = curves(model, 40)
    assert max(asked) == 1
    begun = CondensedSolver._initial_value

    def anew(self, stage):
        self._left, self._slow = 0, True
        return begun(self, stage)

    monkeypatch.setattr(CondensedSolver, "_initial_value", anew)
    true = curves(model, 40)
    assert max(asked) == 2
    assert np.abs(true).max() > 0.05
    assert np.abs(found - true).max() < 0.02 * np.abs(true).max()


def test_a_wire_behind_shapes_that_stays_at_rest_changes_nothing():
    plain: Any = belly(BELLY, 20, 0.08)
    points = plain.surface.vertices
    control = np.column_stack([np.linspace(0, 1, 4), np.zeros(4), np.zeros(4)])
    chain = RigChain(plain.rig, Wire(points, control))
    model = local_belly(chain)
    solver = CondensedSolver(model)
    assert solver._shapes  # affine, though a wire is behind
    alone = local_belly(plain.rig)
    entries = model.entries
    np.testing.assert_array_equal(entries, alone.entries)
    both = [curves(each)[:, entries] for each in (model, alone)]
    assert np.abs(both[1]).max() > 0.02
    np.testing.assert_allclose(both[0], both[1], atol=1e-3)


@pytest.mark.parametrize("name", ["trunk", "belly"])
def test_a_body_of_few_tets_and_no_modes_is_built(name):
    character, free = (trunk(), "wire.[2-9].t?") if name == "trunk" else (belly(), "bump*")
    model = supple.build(character, engine="rig-space", free=free, tets=600, modes=0)
    assert model.condensed.n_modes == 0
    assert len(model.cubature.tets) < len(model.mesh.tets)
    assert np.isfinite(curves(model, 5)).all()


def test_a_step_makes_no_array_of_all_vertices():
    cells = (16, 5, 5)
    options = trunk_options(cells, modes=4, cubature=40)
    model = supple.build(trunk(cells), engine="rig-space", **options)
    simulator = RigSpaceSimulator(model)
    out = np.empty((len(model.surface.vertices), 3), np.float32)
    for i in range(1, 6):
        simulator.step(None, shaken(i))
        simulator.surface(out)
    root = shaken(6)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    simulator.step(None, root)
    simulator.surface(out)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert len(bar_mesh(cells).vertices) * 24 > 14_000
    assert peak < 12_000


def test_threads_of_a_library_change_no_bit():
    model = local_belly()
    found = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            found.append(curves(model))
    np.testing.assert_array_equal(found[0], found[1])


def test_flesh_that_free_parameters_hardly_reach_has_no_modes_and_no_cubature():
    """A trunk's that had a whole elephant in them was off by 8 % of the height, and slow."""
    size = (24, 2, 2)
    model = build(trunk(size), **trunk_options(size, free=["wire.5.t*"], cubature=60))
    moving = model.moving_tets
    assert 0.1 < moving.mean() < 0.7
    assert moving[model.cubature.tets].all()
    far = ~np.isin(model.interior, model.active)
    assert not model.condensed.corrections[far].any()


def test_cubature_of_a_file_that_is_not_of_the_moving_flesh_is_left_out():
    size = (24, 2, 2)
    model = build(trunk(size), **trunk_options(size, free=["wire.5.t*"], cubature=60))
    outside = np.flatnonzero(~model.moving_tets)[:5]
    tets = np.union1d(model.cubature.tets[5:], outside)
    forged = replace(model, cubature=replace(model.cubature, tets=tets, weights=np.ones(len(tets))))
    simulator = RigSpaceSimulator(forged)
    for _ in range(3):
        simulator.step()
    assert np.isfinite(simulator.parameters).all()
