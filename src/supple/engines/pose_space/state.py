"""State of one body, or of many in the same arrays, between two steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints
from supple.compiled.tables import ArgumentTable
from supple.engines.common.state import State
from supple.engines.pose_space.inertia import PointHistory
from supple.engines.pose_space.runtime import RuntimeModel
from supple.errors import SuppleError

#: Columns of `StateArrays.counts`.
STEPS, CONTINUOUS, DISPLACED, REST_MOTION, LIMITS = range(5)


class StateArrays(NamedTuple):
    """States of n bodies, a row each."""

    q: Floats
    v: Floats
    a: Floats
    """(n, r) reduced coordinates, velocities and accelerations."""
    q_before: Floats
    v_before: Floats
    """(n, r) q and v one time step earlier, for two-step integrators."""
    pose: Floats
    root: Floats
    """(n, s) poses and (n, 4, 4) roots at the last step."""
    weights: Floats
    """(n, m) weights of the model's poses at `pose`."""
    rest: PointHistory
    """(n, c′, 3) inertial vertices of the rest shape in the world."""
    rest_acceleration: Floats
    """(n, c′, 3) accelerations of the inertial vertices at the last step, in m/s²."""
    flesh: PointHistory
    """(n, c′, 3) displacements U q of the inertial vertices, in world axes."""
    counts: Ints
    """(n, 5) whole numbers, by column. STEPS: steps since the reset. CONTINUOUS: steps since q and
    v last jumped. DISPLACED: whether `flesh` is valid. REST_MOTION: whether the rest shape's
    velocity (1), or also its acceleration (2), is known. LIMITS: bit flags of the limits of the
    last step; see `LIMIT_NAMES`."""


class ContactMemory:
    """Contacts of a body with obstacles at the end of a step.

    Attributes
    ----------
    depths
        (o, n̄) depths of skin vertices in each obstacle, in m; zero outside.
    kinds
        Kinds of these colliders, see `ColliderShapes`, and the number of obstacles among them.
    known
        Whether `depths` are from the last step; False after a reset and a teleport.
    count
        Number of contacts.
    forces
        (o, 3) force of each obstacle and object on the skin in the last step, in N in the world.
    loads, places
        (o, n̄) normal force of each contact in the last step, in N, and (n̄, 3) its position in the
        world; empty without friction.
    """

    def __init__(self) -> None:
        self.depths = np.zeros((0, 0), np.float32)
        self.kinds: tuple[int, ...] = ()
        self.known = False
        self.count = 0
        self.forces = np.zeros((0, 3))
        self.loads, self.places = np.zeros((0, 0), np.float32), np.zeros((0, 3))

    def fit(self, kinds: tuple[int, ...], vertices: int, rubs: bool) -> None:
        """Allocate arrays for obstacles of these kinds, with friction or without."""
        if kinds != self.kinds:
            self.kinds, self.known = kinds, False
            self.depths = np.zeros((len(kinds) - 1, vertices), np.float32)
            self.forces = np.zeros((len(kinds) - 1, 3))
        shape = (len(kinds) - 1, vertices) if rubs else (0, 0)
        if self.loads.shape != shape:
            self.loads, self.places = np.zeros(shape, np.float32), np.zeros((shape[1], 3))

    def check(self, state: State, vertices: int) -> None:
        """Refuse a state whose contact arrays are missing or inconsistent."""
        missing = next((name for name in vars(self) if name not in state), None)
        if missing is not None:
            raise SuppleError(f'the state has no "contact.{missing}"; use a state of this version')
        count = max(state["kinds"].size - 1, 0)
        shapes = {
            "depths": ((count, vertices),) if count else ((0, 0), (0, vertices)),
            "kinds": ((0,), (count + 1,)),
            "known": ((),),
            "count": ((),),
            "forces": ((count, 3),),
            "loads": ((0, 0), (count, vertices)),
            "places": ((0, 3), (vertices, 3)),
        }
        for name, allowed in shapes.items():
            if state[name].shape not in allowed:
                raise SuppleError(
                    f'"contact.{name}" of the state has the shape {state[name].shape}; use a state'
                    " of this model"
                )

    def restore(self, state: State) -> None:
        """Set the values from a state that `check` accepts."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, state[name].astype(value.dtype))
            else:
                setattr(self, name, type(value)(state[name].tolist()))

    def forget(self) -> None:
        """Discard stored depths; skin found inside at the next step counts as initially inside."""
        self.known, self.count = False, 0
        self.forces[:] = 0


class BodyState:
    """State of one body: row `index` of the `StateArrays` in `bound`, and its contacts."""

    def __init__(self, bound: ArgumentTable, index: int) -> None:
        self.bound, self.index = bound, index
        arrays: StateArrays = bound.content  # type: ignore[assignment]
        self.arrays = arrays
        self.q, self.v, self.a = arrays.q[index], arrays.v[index], arrays.a[index]
        self.pose, self.root = arrays.pose[index], arrays.root[index]
        self.weights, self.counts = arrays.weights[index], arrays.counts[index]
        self.contact = ContactMemory()

    def __reduce__(self) -> tuple[type[BodyState], tuple[ArgumentTable, int], dict[str, Any]]:
        # Rows of a copy must be views of its arrays; a plain copy would make separate arrays.
        return BodyState, (self.bound, self.index), {"contact": self.contact}

    @property
    def steps(self) -> int:
        """Steps since the reset."""
        return int(self.counts[STEPS])

    @property
    def limits(self) -> int:
        """Bit flags of the limits that were applied in the last step; see `LIMIT_NAMES`."""
        return int(self.counts[LIMITS])

    def solved_arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the rows that the solution of a step changes."""
        arrays, i = self.arrays, self.index
        return self.q, self.v, self.a, arrays.q_before[i], arrays.v_before[i], self.counts

    def all_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the rows of this body in all arrays, and its contacts, by name."""
        rows: dict[str, NDArray[Any]] = {}
        for name, field in self.arrays._asdict().items():
            if isinstance(field, PointHistory):
                parts = field._asdict().items()
                rows |= {f"{name}.{part}": array[self.index] for part, array in parts}
            else:
                rows[name] = field[self.index]
        contact = vars(self.contact).items()
        return rows | {f"contact.{name}": np.asarray(value) for name, value in contact}

    def restore(self, state: State, vertices: int) -> None:
        """Set values from a state of `all_arrays`; `vertices` is the number of skin vertices."""
        self.contact.check(state.part("contact"), vertices)
        for name, array in self.all_arrays().items():
            if name not in CONTACT_ARRAYS:
                array[...] = state[name]
        self.contact.restore(state.part("contact"))

    def set_coordinates(self, q: Floats | None, v: Floats | None) -> None:
        """Set coordinates or velocities, None to keep them, and restart the multistep history."""
        if q is not None:
            self.q[:] = self.arrays.q_before[self.index] = q
        if v is not None:
            self.v[:] = self.arrays.v_before[self.index] = v
        self.a[:] = 0
        self.counts[CONTINUOUS] = self.counts[DISPLACED] = 0
        self.contact.forget()

    def start(
        self, pose: Floats, root: Floats, rest: Floats, rest_before: Floats, dt: float
    ) -> None:
        """Start undeformed at a pose (s,) and root (4, 4).

        `rest` and `rest_before` (c′, 3) are the inertial vertices of the rest shape in the world,
        now and a step of `dt` earlier.
        """
        arrays, i = self.arrays, self.index
        coordinates = arrays.q, arrays.v, arrays.a, arrays.q_before, arrays.v_before
        for field in (*coordinates, arrays.rest_acceleration, *arrays.flesh):
            field[i] = 0
        self.pose[:], self.root[:] = pose, root
        arrays.rest.position[i], arrays.rest.position_before[i] = rest, rest_before
        arrays.rest.velocity[i] = arrays.rest.velocity_before[i] = (rest - rest_before) / dt
        self.counts[:] = 0
        self.counts[DISPLACED] = self.counts[REST_MOTION] = 1
        self.contact.forget()


#: Names of the contact arrays in a state; their lengths depend on the obstacles.
CONTACT_ARRAYS = tuple(f"contact.{name}" for name in vars(ContactMemory()))


def states_of(runtime: RuntimeModel, n: int) -> list[BodyState]:
    """Return states of n bodies, undeformed at the rest pose, as rows of the same arrays."""
    r, c, m = runtime.n_modes, len(runtime.inertial.rows), runtime.n_poses
    rest = np.asarray(runtime.model.rig.rest_pose, np.float64)
    coordinates = ("q", "v", "a", "q_before", "v_before")
    arrays = StateArrays(
        **{name: np.zeros((n, r)) for name in coordinates},
        pose=np.tile(rest, (n, 1)),
        root=np.tile(np.eye(4), (n, 1, 1)),
        weights=np.zeros((n, m)),
        rest=PointHistory(*np.zeros((4, n, c, 3))),
        rest_acceleration=np.zeros((n, c, 3)),
        flesh=PointHistory(*np.zeros((4, n, c, 3))),
        counts=np.zeros((n, 5), np.int64),
    )
    bound = ArgumentTable(arrays)
    return [BodyState(bound, i) for i in range(n)]
