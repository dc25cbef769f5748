"""Compilation in a fresh clone, shared between workers of pytest.

It is most of the time that tests take then. A worker takes from the disk what another has
compiled, waits for what it is compiling, and begins with what the others do not.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

__all__ = ["begin_apart"]


def begin_apart() -> None:
    """Compile this worker's part of the kernels first."""
    first = _FIRST.get(os.environ.get("PYTEST_XDIST_WORKER", ""))
    if first is not None:
        first()


def _build() -> None:
    from helpers.build_samples import stepped_model

    stepped_model("bar")


def _step() -> None:
    from helpers.model_samples import sample_model
    from supple import Simulator

    simulator = Simulator(sample_model(), dt=1 / 90)
    pose = np.zeros(6)
    simulator.reset(pose)
    simulator.step(pose)
    simulator.surface()


_FIRST: dict[str, Callable[[], None]] = {"gw0": _build, "gw1": _step}
