"""State of a simulator: arrays by name from which it continues with the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.errors import SuppleError


class State(Mapping[str, NDArray[Any]]):
    """Copies of all arrays that later steps of a simulator depend on, by name.

    Examples
    --------
    >>> state = State({"q": [1.0, 2.0], "track.slopes": np.zeros((2, 3))})
    >>> list(state.part("track"))
    ['slopes']
    """

    def __init__(self, arrays: Mapping[str, ArrayLike]) -> None:
        self._arrays = {name: np.array(array) for name, array in arrays.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"State({', '.join(self)})"

    def part(self, prefix: str) -> State:
        """Return the arrays named `prefix.…`, without this part of their names."""
        cut = len(prefix) + 1
        names = [name for name in self if name.startswith(f"{prefix}.")]
        return State({name[cut:]: self[name] for name in names})


def checked_state(
    state: Any, current: Mapping[str, NDArray[Any]], varying: Iterable[str] = ()
) -> State:
    """Return a state, checked to have the names, shapes and types of the current one.

    Arrays named in `varying` may be missing or have another length.
    """
    if not isinstance(state, Mapping):
        raise SuppleError("a state must be a mapping of names to arrays, as state() returns it")
    arrays: dict[str, Any] = {}
    for name, array in current.items():
        if name in varying:
            continue
        if name not in state:
            raise SuppleError(f'the state has no "{name}"; use a state of this engine and version')
        values = checked_array(f"{name} of the state", state[name], array.shape)
        arrays[name] = values.astype(array.dtype)
    for name in varying:
        if name in state:
            values = np.asarray(state[name])
            checked = checked_array(f"{name} of the state", values, values.shape)
            arrays[name] = checked.astype(values.dtype)
    return State(arrays)
