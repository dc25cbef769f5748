"""Editing of a character's anatomy: regions that are made harder or softer during a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import igl
import numpy as np
from numpy.typing import ArrayLike

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.flesh_firmness import region_factors
from supple.anatomy.painted_material import painted_material
from supple.anatomy.region_entries import (
    ENTRIES_SUFFIX,
    FEEL_STIFFNESS,
    FEELS,
    RegionEntry,
    read_entries,
)
from supple.app.viewer.session.recording import checked_name
from supple.arrays import Floats, Singles
from supple.errors import SuppleError
from supple.playback.character_models import PreparedModel
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character

#: Function that builds a model with entries by joint and a preset of flesh, and logs its progress.
Rebuild = Callable[[Mapping[str, RegionEntry], BuildLog, str], PreparedModel]


class AnatomyEditing:
    """Regions of a character, compared with its model's regions.

    Firm, normal and soft are stiffness values and act immediately. Changes of the bone under the
    flesh, such as hard and apart, need a rebuild. Without `built`, the model was not built
    with the initial anatomy; `rebuild` is None if the options of the model are unknown. `feel` is
    that of the anatomy file, see `read_feel`.
    """

    def __init__(
        self,
        character: Character,
        anatomy: Anatomy,
        *,
        built: bool = True,
        rebuild: Rebuild | None = None,
        feel: Mapping[str, Any] | None = None,
    ) -> None:
        self.character, self.anatomy, self.rebuild = character, anatomy, rebuild
        self.feel = dict(feel or {})
        self._built: Mapping[str, RegionEntry] | None = anatomy.entries if built else None
        self._changing = threading.Lock()

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints with a region."""
        return self.anatomy.joints

    def both(self, joint: str, mirrored: bool = True) -> tuple[str, ...]:
        """Return a joint, and its mirrored joint if `mirrored` and there is one."""
        twin = self.anatomy.mirrored.get(joint) if mirrored else None
        return (joint,) if twin is None else (joint, twin)

    def choose(self, joint: str, feel: str, mirrored: bool = True) -> None:
        """Make a region hard, firm, normal, soft or apart; any thread may call it."""
        if joint not in self.anatomy.entries or feel not in FEELS:
            raise SuppleError(f"{joint}, {feel}: use a region and one of {', '.join(FEELS)}")
        with self._changing:
            entries = self.anatomy.given
            for each in self.both(joint, mirrored):
                entries[each] = replace(entries[each], feel=feel)
            self.anatomy = anatomy_of(self.character, entries=entries, like=self.anatomy)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Joints whose regions need a rebuild."""
        entries = self.anatomy.entries
        if self._built is None:
            return tuple(entries)
        built = self._built
        return tuple(name for name, each in entries.items() if not each.same_bone(built[name]))

    def tet_factors(self, model: Any) -> Floats | None:
        """Return factors (T,) on the stiffness of the model's tets, None if nothing has changed.

        The factors are interpolated as `supple.build` interpolates Young's modulus.
        """
        entries = self.anatomy.entries.values()
        now = np.array([FEEL_STIFFNESS[each.feel] for each in entries])
        before = np.ones(len(now))
        if self._built is not None:
            before = np.array([FEEL_STIFFNESS[each.feel] for each in self._built.values()])
        ratio = region_factors(self.anatomy.follows, now / before)
        if ratio is None:
            return None
        return painted_material(model.mesh, model.embedding, ratio, on="skin")

    def set_built(self, entries: Mapping[str, RegionEntry]) -> None:
        """Set the entries that the model was built with."""
        self._built = {name: entries[name] for name in self.anatomy.entries}

    def region_under(self, skin: Singles, origin: ArrayLike, direction: ArrayLike) -> str | None:
        """Return the joint of the region of a skin (n̄, 3) that a ray hits first, or None."""
        start, vector = (np.asarray(each, np.float64) for each in (origin, direction))
        if start.shape != (3,) or vector.shape != (3,) or not np.isfinite([start, vector]).all():
            return None
        triangles = self.anatomy.surface.triangles
        hits = igl.ray_mesh_intersect(start, vector, skin.astype(np.float64), triangles)
        if not hits or not self.joints:
            return None
        corners = self.anatomy.region[triangles[hits[0][0]]]
        return self.joints[int(np.sort(corners)[1])]

    def save(self, folder: Path, name: str, feel: Mapping[str, Any] | None = None) -> Path:
        """Write the regions to a file in the folder, with the `feel` of all flesh.

        Only an anatomy file is overwritten.
        """
        plain = checked_name(name)
        if not plain.endswith(".json"):
            raise SuppleError(f"{plain}: use a name that ends with {ENTRIES_SUFFIX}")
        target = folder / plain
        if target.is_symlink():
            raise SuppleError(f"{plain} is a symbolic link; choose another name")
        if target.exists():
            try:
                read_entries(target)
            except SuppleError:
                raise SuppleError(
                    f"{plain} exists and is not an anatomy file; choose another name"
                ) from None
        self.anatomy.save(target, feel)
        return target
