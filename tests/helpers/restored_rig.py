"""The one rig that `stored_rig` stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from supple.rig.protocol import Rig
from supple.rig.stored_rigs import restored_rigs


def restored_rig(
    header: dict[str, Any], arrays: Mapping[str, NDArray], rig: Rig | None = None
) -> Rig:
    """Restore a single stored rig; `rig` as for `restored_rigs`."""
    return restored_rigs(header, arrays, rig)["rig"]
