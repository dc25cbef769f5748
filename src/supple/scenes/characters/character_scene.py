"""Procedural characters at their published sizes, with the options of their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.reduction.regions.handles import Handle
from supple.rig.character import Character
from supple.rig.tets.bones import Bones
from supple.scenes.modelling.scene_data import Joints, unknown_name
from supple.user_cache import cached_arrays

#: Characters by paper.
PAPERS = {
    "xu2016": ("arm", "x", "bear", "gorilla"),
    "hahn2013": ("elephant", "sumo"),
    "tapia2021": ("hand", "human"),
}
SCENES = tuple(name for names in PAPERS.values() for name in names)
_MODULES = {name: name for name in SCENES} | {"x": "x_shape"}


@dataclass(frozen=True)
class PaperRow:
    """Sizes and times that a paper gives for its character; None for missing numbers.

    Table 3 of Xu and Barbič, Pose-Space Subspace Dynamics, 2016; or sizes in Hahn et al. 2013, §5,
    where the surface is the boundary of the tets.
    """

    tet_vertices: int
    tets: int | None
    surface_vertices: int
    modes: int | None = None
    regions: int | None = None
    poses: int | None = None
    psd_poses: int | None = None
    elastic_cubature: int | None = None
    inertial_cubature: int | None = None
    milliseconds: float | None = None
    megabytes: float | None = None
    speed_up: float | None = None


@dataclass(frozen=True)
class Bone:
    """Segment of the rest shape; the tets that it touches follow the rig."""

    name: str
    start: Floats
    end: Floats


def joint_bones(
    joints: Joints, skull: ArrayLike, without: tuple[str, ...] = ()
) -> tuple[Bone, ...]:
    """Return a bone from each joint's parent to the joint, and the skull from the head to a point.

    Joints whose names begin with one of `without` have no bone.
    """
    places = {name: np.array(place) for name, (_, place) in joints.items()}
    bones = [
        Bone(name, places[parent], places[name])
        for name, (parent, _) in joints.items()
        if parent is not None and not name.startswith(without)
    ]
    return (*bones, Bone("skull", places["head"], np.array(skull)))


def segment_handles(
    joints: Joints, regions: Mapping[str, Sequence[str | ArrayLike]]
) -> tuple[Handle, ...]:
    """Return a segment through each region; its ends are names of joints, or points."""

    def place(end: str | ArrayLike) -> ArrayLike:
        return joints[end][1] if isinstance(end, str) else end

    return tuple(
        Handle(name, np.array([place(first), place(last)]))
        for name, (first, last) in regions.items()
    )


@dataclass(frozen=True)
class Contact:
    """Pair of body parts that touch in a pose."""

    pose: str
    first: str
    second: str


@dataclass(frozen=True, eq=False, repr=False)
class Scene:
    """Character with the options of its reduced model.

    Parameters
    ----------
    character : Character
        Its rig contains the sculpted corrections.
    tets : int
        Number of tets.
    poses : (m, s) array
        The sculpted poses; the first is the rest pose.
    pose_names : tuple of str
    handles : tuple of Handle
        One for each region.
    bones : tuple of Bone
    parts, part_names : (n,) int array, tuple of str
        Body part of each surface vertex.
    contacts : tuple of Contact
    paper : PaperRow
        Figures of the paper.
    material : Material
        Material of the flesh, with lowest frequencies of 2 to 6 Hz.
    modes : tuple of int
        Number of modes for each handle.
    young : (m, n) or (n,) array, optional
        Young's modulus painted on the surface, for each pose or for all, in Pa; the material's
        by default.
    elastic_cubature : int, optional
        Number of cubature tets that keeps the error well below the paper's 3 %; the paper's
        number by default.
    free : dict of str to tuple of str, optional
        Names and patterns of the simulated parameters, in groups that can be simulated alone or
        together.
    bounds : dict of str to (float, float), optional
        Bounds of the simulated parameters, by names and patterns.
    skeleton : dict of str to SurfaceMesh, optional
        Closed bones at rest by joint; they lie inside the skin.
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
    free: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] | None = None
    skeleton: Mapping[str, SurfaceMesh] | None = None

    @property
    def name(self) -> str:
        """Name of the character."""
        return self.character.name

    @property
    def n_regions(self) -> int:
        """Number of regions; each has a basis."""
        return len(self.handles)

    def pose(self, name: str) -> Floats:
        """Return the sculpted pose of this name, (s,)."""
        if name not in self.pose_names:
            raise SuppleError(
                f'{self.name}: no pose "{name}"; there are {", ".join(self.pose_names)}'
            )
        return self.poses[self.pose_names.index(name)]

    def recipe(self, engine: str = "pose-space") -> dict[str, Any]:
        """Return options of `supple.build` for the character.

        For ``"pose-space"``: poses with their names, tets, bones, one handle and its modes for each
        region, the material with the painted stiffness, and the numbers of cubature tets and
        vertices. For ``"rig-space"``: tets, material and simulated parameters; as in hahn2013
        the simulated flesh has no bones. For ``"soft-skeleton"``: the number of tets.
        """
        if engine == "soft-skeleton":
            return {"tets": self.tets}
        common = {"tets": self.tets, "material": self.material, "young": self.young}
        ends = np.array([[bone.start, bone.end] for bone in self.bones]).reshape(-1, 2, 3)
        bones = Bones(ends[:, 0], ends[:, 1], tuple(bone.name for bone in self.bones))
        if engine == "rig-space":
            fixed = {"anatomy": None} if self.free else {"bones": bones}
            young = None if self.young is None else np.atleast_2d(self.young)[0]
            return common | fixed | {"young": young} | self._free()
        counts = self.printed_counts()
        if self.elastic_cubature:
            counts["elastic_cubature"] = self.elastic_cubature
        return {
            "poses": dict(zip(self.pose_names, self.poses, strict=True)),
            "bones": bones,
            "regions": self.handles,
            "modes": self.modes,
            **common,
            **counts,
        }

    def printed_counts(self) -> dict[str, Any]:
        """Return the paper's numbers of cubature tets and vertices, as options of a build."""
        counts = {
            "elastic_cubature": self.paper.elastic_cubature,
            "inertial_cubature": self.paper.inertial_cubature,
        }
        return {name: count for name, count in counts.items() if count is not None}

    def printed_recipe(self) -> dict[str, Any]:
        """Return options of `supple.build` for the method and the counts that the paper prints."""
        return self.recipe() | self.printed_counts() | {"recipe": "printed"}

    def _free(self) -> dict[str, Any]:
        if not self.free:
            return {}
        free = [name for names in self.free.values() for name in names]
        return {"free": free, "bounds": self.bounds}

    def __repr__(self) -> str:
        vertices, poses = len(self.character.surface.vertices), len(self.poses)
        return (
            f'Scene("{self.name}", {vertices:,} vertices, {poses} poses, {self.poses.shape[1]} DOF)'
        )


@cache
def scene(name: str) -> Scene:
    """Return the scene of this name, one of `SCENES`.

    Sculpting takes seconds; its result is cached on disk, see `supple.user_cache`. A version of
    the code always produces the same bytes.
    """
    if name not in _MODULES:
        raise SuppleError(unknown_name("scene", name, SCENES))
    module = import_module(f"supple.scenes.characters.{_MODULES[name]}")
    return module.assemble(cached_arrays(name, module.sculpt))
