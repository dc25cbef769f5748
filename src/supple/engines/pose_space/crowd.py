"""Crowd of characters with one model, stepped in one call on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_whole_numbers, numbers
from supple.dynamics.character_inputs import CharacterInputs
from supple.engines.common.option_record import takes_options
from supple.engines.common.simulator import Copyable
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.simulator import limit_names
from supple.engines.pose_space.state import states_of
from supple.engines.pose_space.step_options import StepOptions
from supple.engines.pose_space.stepper import Stepper
from supple.errors import SuppleError
from supple.mesh.obstacles import checked_obstacles

#: Largest memory in bytes of all states.
LARGEST_CROWD = 4 * 2**30
#: Characters in one compiled call, so that threads seldom wait for Python's lock.
BATCH = 8


class Crowd(Copyable):
    """Simulator of n characters with one model; each has a pose and a state.

    Results equal a `PoseSpaceSimulator`'s for each, to the bit, for any number of threads.

    Parameters
    ----------
    model
        Model of all characters.
    n
        Number of characters.
    dt
        Seconds from one pose to the next; by default 1/90.
    threads
        Number of threads; by default the number of cores.
    options, obstacles, **keywords
        As for `PoseSpaceSimulator`.

    Examples
    --------
    >>> import supple
    >>> from supple import scenes
    >>> x = scenes.scene("x")
    >>> model = supple.build(x.character, **(x.recipe() | {"tets": 1000, "modes": 8}))
    >>> crowd = supple.Crowd(model, 3)
    >>> crowd.step(np.linspace(0, 0.1, 3)[:, None])
    ((), (), ())
    >>> crowd.surfaces().shape == (3, *x.character.surface.vertices.shape)
    True
    """

    _rebuilt: ClassVar = ("model", "_inputs", "_steppers", "_pool")
    _shared: ClassVar = ("runtime",)

    @takes_options(StepOptions, without=("dt",), closed=True)
    def __init__(
        self,
        model: PoseSpaceModel | RuntimeModel,
        n: int,
        dt: float | None = None,
        *,
        options: StepOptions | None = None,
        threads: int | None = None,
        obstacles: tuple = (),
        **keywords: Any,
    ) -> None:
        (self.n,) = checked_whole_numbers("size of a crowd", [n])
        step = {} if dt is None else {"dt": dt}
        self.options = StepOptions.of("Crowd", options, keywords | step)
        self.runtime = RuntimeModel.of(model, frames=self.options.frames)
        state_bytes = 8 * (6 * self.runtime.n_modes + 15 * len(self.runtime.inertial.rows)) + 2000
        if not 1 <= self.n <= LARGEST_CROWD // state_bytes:
            raise SuppleError(f"n is {self.n}; use 1 to {LARGEST_CROWD // state_bytes:,}")
        usual = (os.cpu_count() or 1) if threads is None else threads
        (requested,) = checked_whole_numbers("threads", [usual])
        if not 1 <= requested <= 1024:
            raise SuppleError(f"threads is {requested}; give 1 to 1024")
        count = min(requested, self.n)
        ends = np.linspace(0, self.n, count + 1).round().astype(int)
        self._shares = [range(a, b) for a, b in pairwise(ends)]
        self._obstacles = checked_obstacles(obstacles)
        self._rebuild()
        self._states = states_of(self.runtime, self.n)
        self.reset()

    def _rebuild(self) -> None:
        self.model = self.runtime.model
        self._inputs = CharacterInputs(self.model, self.model.pose_weights.scales)
        listed, count = self._obstacles, len(self._shares)
        self._steppers = [Stepper(self.runtime, self.options, listed, BATCH) for _ in range(count)]
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def __repr__(self) -> str:
        return f"Crowd({self.model!r}, {self.n})"

    def __len__(self) -> int:
        return self.n

    @property
    def dt(self) -> float:
        """Seconds from one pose to the next."""
        return self.options.dt

    @property
    def q(self) -> Floats:
        """Reduced coordinates of all characters, (n, r)."""
        return np.array([state.q for state in self._states])

    def reset(self, poses: ArrayLike | None = None, roots: ArrayLike | None = None) -> None:
        """Restart undeformed and at rest.

        Parameters
        ----------
        poses, roots
            Poses (n, s), or (s,) for all, by default the rest pose. Roots (n, 4, 4), or (4, 4) for
            all, by default the identity.
        """
        now = self._poses(poses, self.model.rig.rest_pose)
        places = self._roots(roots, np.eye(4))

        def begin(stepper: Stepper, members: range) -> None:
            (i,) = members
            stepper.begin(self._states[i], now[i], places[i], None)

        self._all(begin)

    def step(
        self,
        poses: ArrayLike | None = None,
        roots: ArrayLike | None = None,
        forces: Mapping[int, Mapping[int, ArrayLike]] | None = None,
        *,
        surfaces: Singles | None = None,
    ) -> tuple[tuple[str, ...], ...]:
        """Advance all characters by one time step.

        Parameters
        ----------
        poses, roots
            (n, s) and (n, 4, 4) at the end of the step, or one for all; by default they stay.
        forces
            Mapping of indices of characters to forces as for `PoseSpaceSimulator.step`.
        surfaces
            (n, n̄, 3) float32 to write the skins to.

        Returns
        -------
        tuple
            Names of the limits that were applied to each character; see `PoseSpaceStep`.
        """
        now = self._poses(poses, None)
        places = self._roots(roots, None)
        if forces is not None and not isinstance(forces, Mapping):
            raise SuppleError("forces must be a mapping of characters to forces on their skins")
        acting = {self._member(i): self._inputs.forces(f) for i, f in (forces or {}).items()}
        skins = None if surfaces is None else self._skins(surfaces)

        def step(stepper: Stepper, members: range) -> None:
            states = [self._states[i] for i in members]
            poses = [state.pose for state in states] if now is None else [now[i] for i in members]
            roots = (
                [state.root for state in states] if places is None else [places[i] for i in members]
            )
            if pushed:
                for i, state, pose, root in zip(members, states, poses, roots, strict=True):
                    stepper.step(state, pose, root, acting.get(i))
            else:
                stepper.step_all(states, poses, roots)
            if skins is not None:
                stepper.surface(states[0], skins[members[0]])

        pushed = bool(acting or self._obstacles or self.options.self_contact)
        self._all(step, 1 if pushed or skins is not None else BATCH)
        return tuple(limit_names(state.limits) for state in self._states)

    def surfaces(self, out: Singles | None = None) -> Singles:
        """Return the characters' skins in the world, (n, n̄, 3) float32: a new array, or `out`."""
        skins = self._skins(out)

        def show(stepper: Stepper, members: range) -> None:
            (i,) = members
            stepper.surface(self._states[i], skins[i])

        self._all(show)
        return skins

    def surface(self, i: int, out: Singles | None = None) -> Singles:
        """Return the skin of character i in the world, (n̄, 3) float32."""
        member, target = self._member(i), self._inputs.skin(out)
        self._steppers[0].surface(self._states[member], target)
        return target

    def _all(self, act: Callable[[Stepper, range], None], batch: int = 1) -> None:
        """Call `act` in all threads, each for its share, `batch` at a time; reraise errors."""

        def work(k: int) -> None:
            stepper, share = self._steppers[k], self._shares[k]
            for first in range(share.start, share.stop, batch):
                members = range(first, min(first + batch, share.stop))
                try:
                    act(stepper, members)
                except SuppleError as error:
                    who = f"character {stepper.busy_with} of the crowd"
                    message = f"{who}: {error}; other characters may have advanced"
                    raise SuppleError(message) from error

        if self._pool is None:
            work(0)
        else:
            working = [self._pool.submit(work, k) for k in range(len(self._steppers))]
            wait(working)  # for all, so that none still works when an error is raised
            for each in working:
                each.result()

    def _member(self, i: int) -> int:
        (member,) = checked_whole_numbers("character of a crowd", [i])
        if not 0 <= member < self.n:
            raise SuppleError(f"character {member} does not exist; the crowd has 0 to {self.n - 1}")
        return member

    def _poses(self, poses: ArrayLike | None, usual: Floats | None) -> Any:
        if poses is None:
            return None if usual is None else np.broadcast_to(usual, (self.n, len(usual)))
        width = len(self.model.rig.parameters)
        single = numbers("poses", poses).ndim == 1
        rows = checked_array("poses", poses, (width,) if single else (self.n, width))
        if single:
            return [self._inputs.pose(rows, rows)] * self.n
        for row in rows:
            self._inputs.pose(row, row)
        return rows

    def _roots(self, roots: ArrayLike | None, usual: Floats | None) -> Any:
        if roots is None:
            return None if usual is None else [usual] * self.n
        single = numbers("roots", roots).ndim == 2
        if single:
            return [self._inputs.root(roots, None)] * self.n
        rows = checked_array("roots", roots, (self.n, 4, 4))
        return [self._inputs.root(row, None) for row in rows]

    def _skins(self, out: Singles | None) -> Singles:
        return self._inputs.frames(out, self.n)
