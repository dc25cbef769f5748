"""Procedural characters at the sizes that were published, ready to be built and simulated."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.reduction.regions.handles import Handle
from supple.rig.character import Character
from supple.rig.tets.bones import Bones
from supple.user_cache import cached_arrays

__all__ = ["SCENES", "Bone", "Contact", "Handle", "PaperRow", "Scene", "scene"]


SCENES = ("arm", "x", "bear", "gorilla")
_MODULES = {"arm": "arm", "x": "x_shape", "bear": "bear", "gorilla": "gorilla"}


@dataclass(frozen=True)
class PaperRow:
    """A line of Table 3 of Xu and Barbič, Pose-Space Subspace Dynamics, 2016."""

    tet_vertices: int
    tets: int
    surface_vertices: int
    modes: int
    regions: int
    poses: int
    contact_poses: int
    elastic_cubature: int
    inertial_cubature: int
    milliseconds: float
    megabytes: float
    speed_up: float


@dataclass(frozen=True)
class Bone:
    """A segment of the rest shape; the tets it touches follow the rig."""

    name: str
    start: Floats
    end: Floats


@dataclass(frozen=True)
class Contact:
    """Two parts of the body that touch in a pose."""

    pose: str
    first: str
    second: str


@dataclass(frozen=True, eq=False, repr=False)
class Scene:
    """A character with what its reduced model is made from.

    Parameters
    ----------
    character : Character
        Its rig has the sculpted corrections inside.
    tets : int
        How many tetrahedra to fill it with.
    poses : (m, s) array
        The sculpted poses; the first is the rest pose.
    pose_names : tuple of str
    handles : tuple of Handle
        One for each region.
    bones : tuple of Bone
    parts, part_names : (n,) int array, tuple of str
        The part of the body each surface vertex belongs to.
    contacts : tuple of Contact
    paper : PaperRow
        What the paper had.
    material : Material
        Of its flesh; its lowest frequencies are some 2 to 6 Hz.
    modes : tuple of int
        How many for each of the handles.
    young : (m, n) array, optional
        Young's modulus painted on the surface in each pose, in Pa; the material's without.
    elastic_cubature : int, optional
        How many cubature tets are enough for an error well below the 3 % the paper allows; as
        many as the paper had without.
    """

    character: Character
    tets: int
    poses: Floats
    pose_names: tuple[str, ...]
    handles: tuple[Handle, ...]
    bones: tuple[Bone, ...]
    parts: NDArray[np.int64]
    part_names: tuple[str, ...]
    contacts: tuple[Contact, ...]
    paper: PaperRow
    material: Material
    modes: tuple[int, ...]
    young: Floats | None = None
    elastic_cubature: int | None = None

    @property
    def name(self) -> str:
        """Name of the character."""
        return self.character.name

    @property
    def n_regions(self) -> int:
        """Number of regions that have bases of their own."""
        return len(self.handles)

    def pose(self, name: str) -> Floats:
        """Return the sculpted pose of this name, (s,)."""
        if name not in self.pose_names:
            raise SuppleError(
                f'{self.name}: no pose "{name}"; there are {", ".join(self.pose_names)}'
            )
        return self.poses[self.pose_names.index(name)]

    def recipe(self) -> dict[str, Any]:
        """Return options of `supple.build` for the character.

        The poses with their names, tets, bones, one handle for each of the regions and the
        modes of each, the material with what is painted, and the numbers of cubature tets and
        vertices, which are the paper's unless fewer are enough.
        """
        ends = np.array([[bone.start, bone.end] for bone in self.bones]).reshape(-1, 2, 3)
        names = tuple(bone.name for bone in self.bones)
        return {
            "poses": dict(zip(self.pose_names, self.poses, strict=True)),
            "tets": self.tets,
            "bones": Bones(ends[:, 0], ends[:, 1], names),
            "regions": self.handles,
            "modes": self.modes,
            "material": self.material,
            "young": self.young,
            "elastic_cubature": self.elastic_cubature or self.paper.elastic_cubature,
            "inertial_cubature": self.paper.inertial_cubature,
        }

    def __repr__(self) -> str:
        vertices, poses = len(self.character.surface.vertices), len(self.poses)
        return (
            f'Scene("{self.name}", {vertices:,} vertices, {poses} poses, {self.poses.shape[1]} DOF)'
        )


@cache
def scene(name: str) -> Scene:
    """Return the scene of this name, one of `SCENES`.

    The shape and the sculpted corrections take seconds to make and are kept on disk (see
    `supple.user_cache`); the same version makes the same bytes.
    """
    if name not in _MODULES:
        near = difflib.get_close_matches(str(name), SCENES, 1)
        hint = f'; did you mean "{near[0]}"?' if near else f"; there are {', '.join(SCENES)}"
        raise SuppleError(f'no scene "{name}"{hint}')
    module = import_module(f"supple.scenes.characters.{_MODULES[name]}")
    return module.assemble(cached_arrays(name, module.sculpt))
