"""Joint trees: local transforms in, world transforms out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_array, numbers, owned_array, plain_array, shown, without_overflow
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.maths.quaternions import to_matrix
from supple.rig.stored.field_reader import DOUBLE, INDEX, Field
from supple.rig.stored.schema import PARAMETER_COST, Array, Cost, Value, keep_bits


class Skeleton:
    """A tree of joints with local rest transforms.

    Parameters
    ----------
    names : sequence of str
        Unique; `unique_names` makes them so.
    parents : (J,) ints
        Parent of each joint, listed before it, or -1; several joints may have none.
    translations, rotations, scales : (J, 3), (J, 4), (J, 3) arrays
        Local rest transforms: scale first, then rotation by the quaternion (x, y, z, w), then
        translation in metres. Quaternions are normalised. By default nothing is rotated or scaled.

    Examples
    --------
    >>> arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 1, 0], [0.3, 0, 0]])
    >>> arm.rest_world()[1, :3, 3]
    array([0.3, 1. , 0. ])
    """

    def __init__(
        self,
        names: Sequence[str],
        parents: ArrayLike,
        translations: ArrayLike,
        rotations: ArrayLike | None = None,
        scales: ArrayLike | None = None,
    ) -> None:
        if not isinstance(names, Iterable):
            raise SuppleError(f"names of joints must be a list, not {shown(names)}")
        self.names = tuple(str(name) for name in names)
        count = len(self.names)
        if count == 0:
            raise SuppleError("a skeleton needs at least one joint")
        self._index = {name: joint for joint, name in enumerate(self.names)}
        if len(self._index) < count:
            twice = next(n for joint, n in enumerate(self.names) if self._index[n] != joint)
            advice = "rename one (rig.unique_names does)"
            raise SuppleError(f'two joints are called "{twice}"; {advice}')
        self.parents = self._checked_parents(parents)
        self.translations = owned_array("joint translations", translations, (count, 3))
        quaternions = np.tile([0.0, 0, 0, 1], (count, 1)) if rotations is None else rotations
        self.rotations = self._unit(checked_array("joint rotations", quaternions, (count, 4)))
        sizes = np.ones((count, 3)) if scales is None else scales
        self.scales = owned_array("joint scales", sizes, (count, 3))
        self._rest_world = self.world(self.translations, self.rotations, self.scales)
        self._rest_world.flags.writeable = False

    def __repr__(self) -> str:
        return f"Skeleton({self.n_joints} joints)"

    def _checked_parents(self, parents: ArrayLike) -> Ints:
        array = plain_array("parents of joints", parents)
        if array.shape != (self.n_joints,) or array.dtype.kind not in "iu":
            raise SuppleError(f"parents must be {self.n_joints} joint indices, -1 for none")
        array = np.array(array, dtype=np.int64)
        bad = np.flatnonzero((array < -1) | (array >= np.arange(self.n_joints)))
        if bad.size:
            name, parent = self.names[bad[0]], int(array[bad[0]])
            raise SuppleError(f'joint {bad[0]} "{name}" has parent {parent}; list parents first')
        return array

    def _unit(self, rotations: Floats) -> Floats:
        rotations = without_overflow(rotations)
        lengths = np.linalg.norm(rotations, axis=1)
        if not (lengths > 0).all():
            name = self.names[int(np.argmin(lengths))]
            raise SuppleError(f'joint "{name}": its rest rotation is a zero quaternion')
        return rotations / lengths[:, None]

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return len(self.names)

    def rest_world(self) -> Floats:
        """Return world transforms in the rest pose, (J, 4, 4), read-only."""
        return self._rest_world

    def world(
        self,
        translations: ArrayLike | None = None,
        rotations: ArrayLike | None = None,
        scales: ArrayLike | None = None,
    ) -> Floats:
        """Return the joints' world transforms for given local transforms.

        Parameters
        ----------
        translations, rotations, scales : (…, J, 3), (…, J, 4), (…, J, 3) arrays, optional
            Leading axes are broadcast; omitted arrays are the rest pose's. Quaternions
            need not have unit length; zero counts as the identity.

        Returns
        -------
        (…, J, 4, 4) array
        """
        local = self.local_transforms(translations, rotations, scales)
        leading = local[0].shape[:-2]
        # Writable: Numba would compile the kernel again for read-only arrays.
        rows = [
            np.require(array.reshape(-1, *array.shape[-2:]), requirements=["C", "W"])
            for array in local
        ]
        out = np.empty((len(rows[0]), self.n_joints, 4, 4))
        compose_world(self.parents, *rows, out)
        return out.reshape(*leading, self.n_joints, 4, 4)

    def local_transforms(
        self, translations: ArrayLike | None, rotations: ArrayLike | None, scales: ArrayLike | None
    ) -> tuple[Floats, Floats, Floats]:
        """Return translations (…, J, 3), rotations (…, J, 4) and scales (…, J, 3), broadcast.

        Arguments are as in `world`. Shapes are checked; the results have the same leading axes.
        """
        given = (
            self.translations if translations is None else translations,
            self.rotations if rotations is None else rotations,
            self.scales if scales is None else scales,
        )
        names, widths = ("translations", "rotations", "scales"), (3, 4, 3)
        t, r, s = map(self._joint_array, names, given, widths)
        try:
            leading = np.broadcast_shapes(t.shape[:-2], r.shape[:-2], s.shape[:-2])
        except ValueError:
            shapes = f"{t.shape}, {r.shape}, {s.shape}"
            raise SuppleError(f"joint transforms of shapes {shapes} do not match") from None
        t, r, s = (np.broadcast_to(a, (*leading, *a.shape[-2:])) for a in (t, r, s))
        return t, r, s

    def _joint_array(self, what: str, value: ArrayLike, width: int) -> Floats:
        array = numbers(f"joint {what}", value)
        if array.shape[-2:] != (self.n_joints, width):
            expected = f"(…, {self.n_joints}, {width})"
            raise SuppleError(f"joint {what}: shape {array.shape}; expected {expected}")
        return array

    def joint(self, name: str | int) -> int:
        """Return the index of the joint with this name; an index in range is returned as it is."""
        if isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
            raise SuppleError(f"{name!r} is not a joint; give a name or an index")
        if not isinstance(name, str):
            if not 0 <= name < self.n_joints:
                raise SuppleError(f"joint {name} does not exist; the skeleton has {self.n_joints}")
            return int(name)
        if name in self._index:
            return self._index[name]
        lowered = {known.lower(): known for known in self.names}
        near = get_close_matches(str(name).lower(), lowered, n=3, cutoff=0.5)
        hint = ", ".join(f'"{lowered[match]}"' for match in near)
        advice = f"similar names: {hint}" if hint else f'the first is "{self.names[0]}"'
        raise SuppleError(f'no joint "{name}"; {advice}')

    stored_fields: ClassVar[tuple[Field, ...]] = (
        Value("names", "texts", size="joints"),
        Cost("its parameters", lambda sizes: 9 * PARAMETER_COST * sizes["joints"]),
        Array("rotations", DOUBLE, ("joints", 4)),
        Array("parents", INDEX, ("joints",), shift=1),
        Array("translations", DOUBLE, ("joints", 3)),
        Array("scales", DOUBLE, ("joints", 3)),
    )

    @classmethod
    def restored(cls, rotations: Floats, **fields: Any) -> Skeleton:
        """Make the skeleton from its stored fields."""
        skeleton = cls(rotations=rotations, **fields)
        keep_bits("a rotation", skeleton.rotations, rotations)
        return skeleton

    def ancestors(self, joint: int) -> list[int]:
        """Return the joints above a joint, from its parent up."""
        joints = []
        while (joint := int(self.parents[joint])) >= 0:
            joints.append(joint)
        return joints

    def below(self, chosen: Bools) -> Bools:
        """Return which joints (J,) are below any of the chosen joints (J,)."""
        below = np.zeros(self.n_joints, dtype=bool)
        for joint, parent in enumerate(self.parents):
            below[joint] = parent >= 0 and (below[parent] or chosen[parent])
        return below

    def path(self, top: str | int, tip: str | int) -> Ints:
        """Return the joints from `top` down to `tip`, both included."""
        first, last = self.joint(top), self.joint(tip)
        joints = [last, *self.ancestors(last)]
        if first not in joints:
            names = f'"{self.names[last]}" is not below "{self.names[first]}"'
            raise SuppleError(f"no path between joints: {names}")
        return np.array(joints[joints.index(first) :: -1])


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """Append "_2", "_3" … to repeated names.

    >>> unique_names(["hip", "leg", "leg"])
    ('hip', 'leg', 'leg_2')
    """
    given = [str(name) for name in names]
    taken = set(given)
    seen: set[str] = set()
    counts: dict[str, int] = {}
    result = []
    for name in given:
        unique = name
        if name in seen:
            number = counts.get(name, 1) + 1
            while f"{name}_{number}" in taken:
                number += 1
            counts[name] = number
            unique = f"{name}_{number}"
            taken.add(unique)
        seen.add(unique)
        result.append(unique)
    return tuple(result)


@compiled
def compose_world(
    parents: Ints, translations: Floats, rotations: Floats, scales: Floats, out: Floats
) -> None:
    """Write world matrices (b, J, 4, 4) of local transforms (b, J, …): parent's · T · R · S."""
    local = np.empty((3, 4))
    for pose in range(len(out)):
        for joint in range(len(parents)):
            world = out[pose, joint]
            to_matrix(rotations[pose, joint], local)
            for row in range(3):
                for column in range(3):
                    local[row, column] *= scales[pose, joint, column]
                local[row, 3] = translations[pose, joint, row]
            times_affine(out[pose], parents[joint], local, world)


@compiled
def times_affine(world: Floats, parent: int, local: Floats, out: Floats) -> None:
    """Write the parent's affine transform times the local one, for a root the local one alone."""
    for row in range(3):
        for column in range(4):
            if parent < 0:
                out[row, column] = local[row, column]
                continue
            total = (
                world[parent, row, 0] * local[0, column]
                + world[parent, row, 1] * local[1, column]
                + world[parent, row, 2] * local[2, column]
            )
            out[row, column] = total + world[parent, row, 3] if column == 3 else total
    out[3, 0] = out[3, 1] = out[3, 2] = 0.0
    out[3, 3] = 1.0
