"""Flesh that is forced inside out is back within a tenth of a second, and rests where it sags.

It is forced by a corrupted state, by a hand that pulls it through the body, by huge forces, and by
a root that shakes with 50 g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import supple
from engines.pose_space.test_shaken_build import CELLS, limb_options
from helpers.build_samples import bending_bar
from helpers.rig_space_samples import belly, belly_options
from helpers.soft_skeleton_samples import soft_elbow
from supple.elastic.material import Material
from supple.engines.common.inversion import MOST_WATCHED, InversionWatch, WatchedTets
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.crowd import Crowd
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.engines.soft_skeleton.flesh.flesh_energy import write_orientation
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.engines.stvk.free.simulator import FreeStvkSimulator
from supple.engines.stvk.inversion_watch import RESTORING, sampled_gradients
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.mesh.obstacles import Sphere
from supple.scenes.bodies.beam import beam

BELLY = (6, 4, 4)
GRAVITY = 9.81
#: Seconds in which flesh is back, and the part of the size that is rest.
BACK, RESTS = 0.1, 1e-3
#: Part of the tets beyond which flesh is inside out: one tet may invert in a violent swing.
INSIDE_OUT = 0.005
#: Limits that hold and lead back flesh that is inside out.
ACTING = {"inversion", "displacement", "stiffness", "teleport"}


def volumes(points: np.ndarray, tets: np.ndarray) -> np.ndarray:
    a, b, c, d = (points[tets[:, i]] for i in range(4))
    return np.einsum("ij,ij->i", b - a, np.cross(c - a, d - a))


class Subject:
    """Simulator of an engine with small flesh; subclasses say how its coordinates are reached."""

    #: N of a huge force, N/m of a hand's spring, and displacements of a corrupted state over size.
    force, hand, thrown = 2e4, 2e4, 3.0
    #: Hz of the shaking root.
    shakes = 8.0
    simulator: Any

    def __init__(self) -> None:
        self.start()
        self.rest, self.dt = self.skin(), self.simulator.dt
        self.size = float(np.ptp(self.rest, axis=0).max())

    def start(self) -> None:
        raise NotImplementedError

    def inverted(self) -> float:
        """Return the part of the watched tets that is inverted."""
        raise NotImplementedError

    def corrupt(self, seed: int) -> None:
        """Resume from a state with random displacements, `thrown` times the size."""
        raise NotImplementedError

    def amounts(self, peaks: np.ndarray, seed: int) -> np.ndarray:
        """Return random coordinates whose columns displace vertices by `peaks` per unit."""
        random = np.random.default_rng(seed).standard_normal(len(peaks))
        return random * self.thrown * self.size / np.abs(random).sum() / peaks

    def skin(self) -> np.ndarray:
        return np.asarray(self.simulator.surface(), np.float64)

    def step(self, forces: Any = None) -> tuple[str, ...]:
        return tuple(self.simulator.step(forces=forces).limits)

    def shaken(self, time: float) -> tuple[str, ...]:
        """Step with the root at a time of shaking."""
        return tuple(self.simulator.step(root=self.root(time)).limits)

    def root(self, time: float) -> np.ndarray:
        """Return the root at a time of shaking with up to 50 g."""
        root, rate = np.eye(4), 2 * np.pi * self.shakes
        root[1:3, 3] = 50 * GRAVITY / rate**2 * np.sin([rate * time, 1.3 * rate * time])
        return root

    def stop(self) -> None:
        """Bring the root back with the flesh as it is."""
        self.simulator.teleport(root=np.eye(4))


class PoseSpace(Subject):
    basis, kind = "shaken", "yeoh"
    hand = 1e5

    def start(self) -> None:
        self.model = pose_space_model(self.basis, self.kind)
        options: dict[str, Any] = {"gravity_mode": "absolute", "alpha": 4.0, "beta": 0.01}
        self.simulator = PoseSpaceSimulator(self.model, 1 / 180, **options)
        self.columns = self.model.interpolated_basis(self.model.rig.rest_pose)

    @property
    def q(self) -> np.ndarray:
        return self.simulator.q

    def inverted(self) -> float:
        mesh = self.model.mesh
        now = mesh.vertices + (self.columns @ self.q).reshape(-1, 3)
        return float((volumes(now, mesh.tets) <= 0).mean())

    def corrupt(self, seed: int) -> None:
        q = self.amounts(np.abs(self.columns).max(axis=0), seed)
        self.simulator.resume(dict(self.simulator.state()) | {"q": q, "q_before": q})


class PoseSpaceModes(PoseSpace):
    basis = "modes"


class PoseSpaceStvk(PoseSpace):
    basis, kind = "modes", "stvk"


class PoseSpaceCrowd(PoseSpace):
    """The second of two characters."""

    def start(self) -> None:
        super().start()
        options: dict[str, Any] = {"gravity_mode": "absolute", "alpha": 4.0, "beta": 0.01}
        self.simulator = Crowd(self.model, 2, 1 / 180, **options, threads=1)

    @property
    def q(self) -> np.ndarray:
        return self.simulator.q[1]

    def corrupt(self, seed: int) -> None:
        state = self.simulator._states[1]
        state.set_coordinates(self.amounts(np.abs(self.columns).max(axis=0), seed), None)

    def skin(self) -> np.ndarray:
        return np.asarray(self.simulator.surface(1), np.float64)

    def step(self, forces: Any = None) -> tuple[str, ...]:
        return self.simulator.step(forces=None if forces is None else {1: forces})[1]

    def shaken(self, time: float) -> tuple[str, ...]:
        return self.simulator.step(roots=self.root(time))[1]

    def stop(self) -> None:
        self.simulator.step(roots=np.eye(4))  # a jump of the root, without inertia


class RigSpace(Subject):
    hand = 5e4

    def start(self) -> None:
        self.simulator = RigSpaceSimulator(rig_space_model(), gravity_mode="absolute", alpha=2.0)

    def inverted(self) -> float:
        solver, mesh = self.simulator._solver, self.simulator.model.mesh
        now, key = mesh.vertices.copy(), mesh.vertices.copy()
        now[solver.vertices], key[solver.vertices] = solver.x, solver.key
        return float((volumes(now, mesh.tets) / volumes(key, mesh.tets) <= 0).mean())

    def corrupt(self, seed: int) -> None:
        simulator, solver = self.simulator, self.simulator._solver
        peaks, pose = np.zeros(solver.size), simulator.pose
        for i in range(solver.size):
            solver.place(pose, 1e-3 * np.eye(solver.size)[i])
            peaks[i] = 1e3 * np.abs(solver.x - solver.key).max()
        c = self.amounts(np.maximum(peaks, 1e-9), seed)
        state = {name: array.copy() for name, array in simulator.state().items()}
        solver.place(pose, c)
        for name, values in (("away", c), ("world", solver.x.ravel())):
            state[f"{name}.rows"][:] = 0.0
            state[f"{name}.rows"][[0, 3]] = values
        simulator.resume(state)
        solver.place(pose, c)


class SoftSkeleton(Subject):
    thrown, hand = 6.0, 2e4

    def start(self) -> None:
        self.simulator = SoftSkeletonSimulator(soft_elbow(), sag=True)

    def inverted(self) -> float:
        found = np.zeros(3)
        write_orientation(self.simulator.model.flesh, self.simulator.phi, found)
        return float(found[0])

    def corrupt(self, seed: int) -> None:
        phi = self.amounts(np.ones(len(self.simulator.phi)), seed)
        state = {name: array.copy() for name, array in self.simulator.state().items()}
        state["phi"] = phi
        state["system.flesh.rows"][[0, 3]] = phi
        self.simulator.resume(state)


class Stvk(Subject):
    thrown, hand, shakes = 1.0, 5e5, 3.0

    def start(self) -> None:
        options: dict[str, Any] = {"alpha": 6.0, "beta": 0.005, "gravity": (0.0, -GRAVITY, 0.0)}
        self.simulator = StvkSimulator(stvk_model(), **options)

    def inverted(self) -> float:
        model, mesh = self.simulator.model, stvk_mesh()
        now = model.positions(self.simulator.q)
        return float((volumes(now, mesh.tets) <= 0).mean())

    def corrupt(self, seed: int) -> None:
        model = self.simulator.model
        self.simulator.reset(self.amounts(np.abs(model.basis).max(axis=(0, 1)), seed))

    def step(self, forces: Any = None) -> tuple[str, ...]:
        return tuple(self.simulator.step(forces).limits)

    def shaken(self, time: float) -> tuple[str, ...]:
        rate = 2 * np.pi * self.shakes
        push = -50 * GRAVITY * np.sin([1.6 * rate * time, rate * time, 1.3 * rate * time])
        return self.step(self.simulator.model.weight(push))

    def stop(self) -> None:
        pass


class StvkFree(Stvk):
    """A body that flies: its deformation returns, wherever it is."""

    thrown = 2.0

    def start(self) -> None:
        self.simulator = FreeStvkSimulator(stvk_model(free=True), alpha=4.0, beta=0.005)

    def skin(self) -> np.ndarray:
        return self.simulator.model.surface_at(self.simulator.q).astype(np.float64)


@cache
def pose_space_model(basis: str, kind: str) -> Any:
    flesh = Material(kind, young=2e4, poisson=0.4)
    options = limb_options(basis=basis, material=flesh, elastic_cubature=90)
    return build(bending_bar(cells=CELLS), **options)


@cache
def rig_space_model() -> Any:
    return supple.build(belly(BELLY, 8), engine="rig-space", **belly_options(BELLY))


@cache
def stvk_mesh() -> Any:
    return beam(cells=(10, 2, 2))


@cache
def stvk_model(free: bool = False) -> StvkModel:
    mesh = stvk_mesh()
    fixed = () if free else mesh.vertices[:, 0] == 0
    return StvkModel.build(mesh, Material("stvk", young=8e5), modes=12, fixed=fixed)


def by_state(subject: Subject) -> Iterator[tuple[str, ...]]:
    subject.corrupt(STATES.get(type(subject), 0))
    yield ()


def on_top(subject: Subject) -> np.ndarray:
    """Return eight vertices on top of the body, in the middle of its length."""
    rest = subject.rest
    top = (rest[:, 2] - np.abs(rest[:, 0] - rest[:, 0].mean())).argmax()
    return np.argsort(np.linalg.norm(rest - rest[top], axis=1))[:8]


def by_hand(subject: Subject) -> Iterator[tuple[str, ...]]:
    """Pull vertices through the body for 0.3 s."""
    grabbed = on_top(subject)
    start = subject.rest[grabbed]
    goals = start + 1.6 * (subject.rest.mean(axis=0) - start)
    for _ in range(round(0.3 / subject.dt)):
        pulls = subject.hand * (goals - subject.skin()[grabbed])
        yield subject.step({int(i): pull for i, pull in zip(grabbed, pulls, strict=True)})


def by_force(subject: Subject) -> Iterator[tuple[str, ...]]:
    """Push vertices down with huge forces for a tenth of a second."""
    push = {int(i): np.array([0.0, 0.0, -subject.force]) for i in on_top(subject)}
    for _ in range(round(0.1 / subject.dt)):
        yield subject.step(push)


def by_shaking(subject: Subject) -> Iterator[tuple[str, ...]]:
    for k in range(round(1.0 / subject.dt)):
        yield subject.shaken((k + 1) * subject.dt)
    subject.stop()


WAYS: dict[str, Callable[[Subject], Iterator[tuple[str, ...]]]] = {
    "state": by_state,
    "hand": by_hand,
    "force": by_force,
    "shake": by_shaking,
}
SUBJECTS: tuple[type[Subject], ...] = (
    PoseSpace,
    PoseSpaceModes,
    PoseSpaceStvk,
    PoseSpaceCrowd,
    RigSpace,
    SoftSkeleton,
    Stvk,
    StvkFree,
)
#: Seeds of states that stay inside out without a watch.
STATES: dict[type[Subject], int] = {Stvk: 2, StvkFree: 2}


@cache
def sag(kind: type[Subject]) -> np.ndarray:
    """Return the skin after three seconds from a quiet start."""
    subject = kind()
    for _ in range(round(3.0 / subject.dt)):
        subject.step()
    return subject.skin()


def str_or_name(value: Any) -> str:
    return getattr(value, "__name__", str(value))


CASES = [(kind, way) for kind in SUBJECTS for way in WAYS if kind is not StvkFree]


@pytest.mark.parametrize(("kind", "way"), [*CASES, (StvkFree, "state")], ids=str_or_name)
def test_flesh_forced_inside_out_is_back_and_rests(kind: type[Subject], way: str) -> None:
    """Forces would set a free body spinning, which then stretches for ever."""
    subject, limits = kind(), set[str]()
    forced, wrong = 0.0, 0
    for acting in WAYS[way](subject):
        limits |= set(acting)
        forced = max(forced, subject.inverted())
    for k in range(round(3.0 / subject.dt)):
        limits |= set(subject.step())
        if k < 0.5 / subject.dt and subject.inverted() > INSIDE_OUT:
            wrong = k + 1
    rests: Any = sag(kind)  # type: ignore[arg-type]
    away = np.abs(subject.skin() - rests).max() / subject.size
    assert forced > INSIDE_OUT
    assert wrong * subject.dt <= BACK
    assert away < RESTS
    assert limits & ACTING


WEAK = {"zero": 0.0, "tiny": 1e-6, "weak": 0.05}


def loaded_subject(kind: type[Subject], load: str) -> tuple[Subject, Any]:
    """Return a subject with a load that cannot hold it inside out, and the forces of the load."""
    subject = kind()
    simulator, rest = subject.simulator, subject.rest
    if kind is StvkFree:
        subject.thrown = 8.0
    if kind is SoftSkeleton:  # without a watch, soft flesh returns slowly
        simulator.stiffness = 0.1
    if load in WEAK:
        return subject, {v: np.array([0.0, 0.0, -WEAK[load]]) for v in range(0, len(rest), 5)}
    radius = 0.2 * subject.size  # of a ball that rests on the end of the body
    centre = rest[rest[:, 0].argmin()] - np.array([0.97 * radius, 0.0, 0.0])
    simulator.obstacles = (Sphere(centre, radius),)
    for _ in range(5):
        simulator.step()
    return subject, None


LOADED = [(kind, load) for kind in (Stvk, StvkFree, RigSpace, SoftSkeleton) for load in WEAK]
LOADED += [(RigSpace, "contact"), (SoftSkeleton, "contact")]


@pytest.mark.filterwarnings("ignore:obstacle 0 is .* deep:supple.errors.SuppleWarning")
@pytest.mark.parametrize(("kind", "load"), LOADED, ids=str_or_name)
def test_small_loads_and_contacts_elsewhere_do_not_keep_flesh_inside_out(
    kind: type[Subject], load: str
) -> None:
    for seed in range(3):
        subject, forces = loaded_subject(kind, load)
        subject.corrupt(seed)
        wrong = 0
        for k in range(round(0.6 / subject.dt)):
            subject.step(forces)
            if subject.inverted() > INSIDE_OUT:
                wrong = k + 1
        assert wrong * subject.dt <= BACK


def leads(subject: Subject) -> bool:
    """Return whether the watch leads the body back."""
    simulator = subject.simulator
    if isinstance(subject, Stvk):
        return bool(simulator._watch.progress[RESTORING])
    system = simulator._system if isinstance(subject, SoftSkeleton) else simulator
    return bool(system._watch.state[1])


@pytest.mark.parametrize("kind", [Stvk, RigSpace, SoftSkeleton], ids=str_or_name)
@pytest.mark.parametrize("depth", [1.0, 1.6, 2.2])
def test_a_hand_holds_flesh_inside_out_without_flicker(kind: type[Subject], depth: float) -> None:
    subject = kind()
    grabbed = on_top(subject)
    start = subject.rest[grabbed]
    goals = start + depth * (subject.rest.mean(axis=0) - start)
    held = 0
    for _ in range(round(0.5 / subject.dt)):
        pulls = subject.hand * (goals - subject.skin()[grabbed])
        subject.step({int(i): pull for i, pull in zip(grabbed, pulls, strict=True)})
        held += subject.inverted() > INSIDE_OUT
        assert not leads(subject)
    assert held * subject.dt > 0.05


@pytest.mark.filterwarnings("ignore:obstacle 0 is .* deep:supple.errors.SuppleWarning")
def test_a_ball_holds_flesh_inside_out_without_flicker() -> None:
    subject = SoftSkeleton()
    top, middle = subject.rest[on_top(subject)].mean(axis=0), subject.rest.mean(axis=0)
    radius, way, held = 0.15 * subject.size, middle - top, 0
    for k in range(round(0.7 / subject.dt)):
        down = 1.7 * min(1.0, k * subject.dt / 0.3) * way - radius * way / np.linalg.norm(way)
        subject.simulator.obstacles = (Sphere(top + down, radius),)
        subject.step()
        held += subject.inverted() > INSIDE_OUT
        assert not leads(subject)
    assert held * subject.dt > 0.3


def test_rig_space_flesh_that_is_not_finite_is_a_reset() -> None:
    simulator = RigSpace().simulator
    simulator._c[:] = np.nan
    assert simulator._limit_displacement(simulator.pose) == ("reset",)
    assert not simulator.coordinates.any()


def test_the_way_back_ends_where_a_load_resists_it() -> None:
    watch = InversionWatch(1.0)
    led = [watch.update(0.5, -1.0, 0.0, 0.01)[1] < 1 for _ in range(15)]
    assert led[2:11] == [True] * 9
    assert not all(led[2:])


@pytest.mark.parametrize("count", [1, 255, 257, 384, 5000])
def test_a_watch_samples_at_most_the_allowed_number_of_tets(count: int) -> None:
    mesh = beam(cells=(10, 10, 10))
    moving = np.arange(len(mesh.tets)) < count
    watched = WatchedTets.of(mesh, moving, np.arange(len(mesh.vertices)))
    assert len(watched._corners) == min(count, MOST_WATCHED)


BEAM = (1.0, 1 / 6, 1 / 6)
SHAPES = {
    "long": (BEAM, (40, 1, 1), 40),
    "thin in cells": (BEAM, (12, 12, 1), 100),
    "plate": ((1.0, 1.0, 0.01), (30, 30, 1), 100),
    "block": ((1.0, 1.0, 0.3), (24, 24, 1), 100),
    "cube": (BEAM, (1, 1, 1), 4),
    "two columns": (BEAM, (10, 2, 2), 80),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_stvk_body_is_watched_at_many_places(shape: str) -> None:
    size, cells, least = SHAPES[shape]
    mesh = beam(size, cells)
    modes = 4 if shape == "cube" else 12
    fixed = mesh.vertices[:, 0] == 0
    model = StvkModel.build(mesh, Material("stvk", young=8e5), modes=modes, fixed=fixed)
    assert len(sampled_gradients(model.rest, model.basis)) >= least


def test_bodies_whose_motion_fits_nowhere_are_watched_too() -> None:
    rest = beam(BEAM, (4, 1, 1)).vertices
    rough = np.random.default_rng(0).standard_normal((len(rest), 3, 3))
    assert len(sampled_gradients(rest, rough)) > 0
