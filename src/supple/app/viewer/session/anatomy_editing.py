"""Anatomy of a session's character: regions that people make harder or softer as it moves."""

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
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character

#: Builds a model with entries by joint, and tells how far it is.
Rebuild = Callable[[Mapping[str, RegionEntry], BuildLog], Any]


class AnatomyEditing:
    """Regions of a character, and how they differ from those that its model was built with.

    Firm, normal and soft are stiffness, and act at once. What changes the bone under the flesh,
    hard and apart above all, waits until another model is built.

    Parameters
    ----------
    character
        With a skin that follows joints.
    anatomy
        As the model was built with it, or as it would be found.
    built
        Whether the model was built with it.
    rebuild
        Builds another model; None where nobody knows how this one was built.

    Attributes
    ----------
    anatomy
        As it is now.
    """

    def __init__(
        self,
        character: Character,
        anatomy: Anatomy,
        *,
        built: bool = True,
        rebuild: Rebuild | None = None,
    ) -> None:
        self.character, self.anatomy, self.rebuild = character, anatomy, rebuild
        self._built: Mapping[str, RegionEntry] | None = anatomy.entries if built else None
        self._changing = threading.Lock()

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints that have a region."""
        return self.anatomy.joints

    def both(self, joint: str, mirrored: bool = True) -> tuple[str, ...]:
        """Return a joint, and the one on the other side where there is one and it is wanted."""
        twin = self.anatomy.mirrored.get(joint) if mirrored else None
        return (joint,) if twin is None else (joint, twin)

    def choose(self, joint: str, feel: str, mirrored: bool = True) -> None:
        """Make a region hard, firm, normal, soft or apart; from any thread, within a second."""
        if joint not in self.anatomy.entries or feel not in FEELS:
            raise SuppleError(f"a region is made one of {', '.join(FEELS)}")
        with self._changing:
            entries = dict(self.anatomy.entries)
            for each in self.both(joint, mirrored):
                entries[each] = replace(entries[each], feel=feel)
            self.anatomy = anatomy_of(self.character, entries=entries, like=self.anatomy)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Joints whose regions are not yet as they are chosen: another build is needed."""
        entries = self.anatomy.entries
        if self._built is None:
            return tuple(entries)
        built = self._built
        return tuple(name for name, each in entries.items() if not each.same_bone(built[name]))

    def tet_factors(self, model: Any) -> Floats | None:
        """(T,) factors on the stiffness of the model's tets, None where nothing has changed.

        Painted as `supple.build` paints Young's modulus; a build weighs the motions as well.
        """
        entries = self.anatomy.entries.values()
        now = np.array([FEEL_STIFFNESS[each.feel] for each in entries])
        before = np.ones(len(now))
        if self._built is not None:
            before = np.array([FEEL_STIFFNESS[each.feel] for each in self._built.values()])
        if np.array_equal(now, before):
            return None
        ratio = np.exp(self.anatomy.follows @ np.log(now / before))
        return painted_material(model.mesh, model.embedding, ratio, on="skin")

    def adopted(self, entries: Mapping[str, RegionEntry]) -> None:
        """Remember that a model was built with these."""
        self._built = entries

    def region_under(self, skin: Singles, origin: ArrayLike, direction: ArrayLike) -> str | None:
        """Return the joint whose region of a skin (n̄, 3) a ray meets first."""
        start, way = (np.asarray(each, np.float64) for each in (origin, direction))
        if start.shape != (3,) or way.shape != (3,) or not np.isfinite([start, way]).all():
            return None
        triangles = self.anatomy.surface.triangles
        hits = igl.ray_mesh_intersect(start, way, skin.astype(np.float64), triangles)
        if not hits or not self.joints:
            return None
        corners = self.anatomy.region[triangles[hits[0][0]]]
        return self.joints[int(np.sort(corners)[1])]

    def save(self, folder: Path, name: str) -> Path:
        """Write the regions to a file in the folder; only another such file is replaced."""
        plain = checked_name(name)
        if not plain.endswith(".json"):
            raise SuppleError(f"an anatomy is saved as NAME{ENTRIES_SUFFIX}")
        target = folder / plain
        if target.is_symlink():
            raise SuppleError(f"{plain} is a link; choose another name")
        if target.exists():
            try:
                read_entries(target)
            except SuppleError:
                raise SuppleError(f"{plain} is there already, and no anatomy file") from None
        self.anatomy.save(target)
        return target
