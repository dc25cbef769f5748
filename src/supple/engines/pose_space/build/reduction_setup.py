"""Parts of a reduction that are the same at every pose: tets, regions and numbers of modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_whole_numbers
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.build.pose_basis import PoseTask
from supple.engines.pose_space.build.recipe import RECIPES, Recipe
from supple.errors import SuppleError, warn
from supple.mesh.obstacles import Obstacle
from supple.mesh.topology import counted, unreferenced
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.regions.handles import Handle, handles_from_bones
from supple.reduction.regions.region import Region
from supple.reduction.regions.region_weights import regions_of
from supple.rig.character import Character
from supple.rig.tets.tet_body import TetBody

#: ``"modes"``: modes and derivatives of each region at each pose; ``"shaken"``: one snapshot basis
#: of the shaken body for all poses.
Basis = Literal["modes", "shaken"]


@dataclass(frozen=True, eq=False)
class ReductionSetup:
    """Parts of a reduction that are the same at every pose."""

    character: Character
    flesh: TetBody
    """Surface with its rig, and the tets inside."""
    regions: tuple[Region, ...]
    modes: tuple[int, ...]
    """Regions with a basis each, and their numbers of columns."""
    contacts: ContactKind | None
    obstacles: tuple[Obstacle, ...]
    """Kind of contact constraints, None to ignore contact; and obstacles."""
    basis: Basis = "modes"
    recipe: Recipe = RECIPES["default"]
    _bodies: dict[int, ElasticBody] = field(default_factory=dict, init=False, repr=False)

    def task(self, name: str, pose: Floats, material: Material) -> PoseTask:
        """Return the input of `reduce_pose` for a pose (s,)."""
        return PoseTask(
            name=name,
            mesh=self.flesh.mesh,
            material=material,
            rest=self.flesh.tet_rig(pose),
            regions=self.regions,
            modes=self.modes,
            contacts=self.contacts,
            obstacles=self.obstacles,
            reach=self.recipe.reach,
            independent=self.recipe.independent,
        )

    def elastic(self, materials: Sequence[Material]) -> list[ElasticBody]:
        """Return an elastic body for each material; bodies are cached."""
        for material in materials:  # bodies keep materials alive, so that ids are unique
            if id(material) not in self._bodies:
                self._bodies[id(material)] = ElasticBody(self.flesh.mesh, material)
        return [self._bodies[id(material)] for material in materials]


def choose_regions(
    character: Character,
    flesh: TetBody,
    regions: Literal["auto"] | Sequence[Handle] | Sequence[Region] | None,
    basis: Basis = "modes",
    recipe: Recipe = RECIPES["default"],
) -> tuple[Region, ...]:
    """Return the regions for the `regions` option of `build`; with basis="shaken" one region."""
    n_vertices = len(flesh.mesh.vertices)
    if len(flesh.fixed) == n_vertices:
        raise SuppleError("every tet vertex is fixed; nothing is left to move")
    if isinstance(regions, str) and regions != "auto":
        raise SuppleError(f'regions="{regions}"; use "auto", handles, regions or None')
    if regions is None or (regions == "auto" and basis == "shaken"):
        regions = ()
    elif isinstance(regions, str):
        fixed = flesh.fixed
        regions = handles_from_bones(character.rig, character.surface, flesh.mesh, fixed=fixed)
    if basis == "shaken" and len(regions):
        raise SuppleError('a shaken body has one basis; leave out regions, or use basis="modes"')
    if len(regions) and all(isinstance(region, Region) for region in regions):
        return _checked_regions(regions, n_vertices, flesh)  # type: ignore[arg-type]
    decay = {"threshold": recipe.region_threshold, "exponent": recipe.region_exponent}
    return regions_of(flesh.mesh, regions, flesh.fixed, **decay)  # type: ignore[arg-type]


def _checked_regions(
    regions: Sequence[Region], n_vertices: int, flesh: TetBody
) -> tuple[Region, ...]:
    for region in regions:
        if region.vertices[-1] >= n_vertices:
            raise SuppleError(
                f'region "{region.name}" has vertex {region.vertices[-1]}, but there are '
                f"{n_vertices} tet vertices; give the tets it was made for"
            )
        still = np.intersect1d(region.vertices, flesh.fixed)
        if len(still):
            raise SuppleError(
                f'region "{region.name}" has vertex {still[0]}, which is fixed; leave it out'
            )
    names = [region.name for region in regions]
    for name in names:
        if names.count(name) > 1:
            raise SuppleError(f'two regions are called "{name}"; rename one')
    _warn_uncovered(regions, n_vertices, flesh)
    return tuple(regions)


def _warn_uncovered(regions: Sequence[Region], n_vertices: int, flesh: TetBody) -> None:
    still = np.union1d(flesh.fixed, unreferenced(flesh.mesh.tets, n_vertices))
    moving = np.setdiff1d(np.arange(n_vertices), still)
    uncovered = np.setdiff1d(moving, np.concatenate([region.vertices for region in regions]))
    if len(uncovered):
        warn(
            f"no region contains {counted(len(uncovered), 'tet vertex', 'tet vertices')} that "
            f"nothing fixes (first: {uncovered[0]}); free vertices outside all regions do not move"
        )


def modes_per_region(
    modes: int | Sequence[int], regions: Sequence[Region], sways: Callable[[], Floats] | None = None
) -> tuple[int, ...]:
    """Return the number of columns of each region: as listed, or distributed from a total.

    Columns are assigned one by one to the region with the largest static displacement per column,
    `sways()` (k,); without `sways`, equally, larger regions first. No region has more than half as
    many columns as unknowns.
    """
    listed = np.ndim(modes) > 0
    counts = checked_whole_numbers("modes", modes if listed else [modes])  # type: ignore[arg-type, list-item]
    if listed and len(counts) != len(regions):
        raise SuppleError(f"{len(counts)} numbers of modes; give one per region ({len(regions)})")
    if not listed:
        total, share = int(counts[0]), len(regions)
        if total < share:
            raise SuppleError(f"{total} modes for {share} regions; each needs at least one")
        sizes = np.array([len(region.vertices) for region in regions])
        larger = np.argsort(-sizes, kind="stable")
        # A limb with few free vertices has few shapes.
        most = np.maximum(1, 3 * sizes // 2)
        if most.sum() < total:  # too many: an error of the region names the limit
            even = np.full(share, total // share)
            even[larger[: total % share]] += 1
        else:
            weighed = np.ones(share) if sways is None or share == 1 else sways()
            even = np.ones(share, np.int64)
            for _ in range(total - share):
                load = np.where(even < most, weighed / even, -1.0)
                even[larger[np.argmax(load[larger])]] += 1
        counts = tuple(even.tolist())
    if min(counts) < 1:
        raise SuppleError(f"{min(counts)} modes; a region needs at least one")
    return tuple(int(count) for count in counts)
