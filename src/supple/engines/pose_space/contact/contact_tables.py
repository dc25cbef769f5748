"""Tables of a model for contacts of its skin, and scratch arrays of a thread."""

from __future__ import annotations

from typing import NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.engines.pose_space.runtime import RuntimeModel, group_by_regions

Shorts = NDArray[np.int32]

#: Largest number of multiplications of a matrix product; OpenBLAS uses threads for larger ones.
MOST_PRODUCTS = 200_000


class ContactTables(NamedTuple):
    """Tables for the rows of contacts in reduced coordinates, read only.

    Skin vertices whose carriers meet the same regions form a group: their rows have the same
    columns, and their stiffness is one matrix product.
    """

    vertices: Ints
    """(k,) skin vertices that a basis moves, group by group."""
    first: Ints
    """(g + 1,) first vertex of each group in `vertices`."""
    width: Ints
    """(g,) columns of the rows of each group, padded."""
    columns: Ints
    """(g, widest) basis columns of each group; −1 for padding."""
    met: NDArray[np.bool_]
    """(g, regions) whether a region reaches a group."""
    basis: NDArray
    """Flat, by region, pose and carrier: three rows of the region's columns."""
    start: Ints
    """(regions + 1,) first entry of each region in `basis`."""
    column: Ints
    """(regions + 1,) first column of each region."""
    places: Shorts
    """(regions, b + 1) index of a carrier among the vertices of each region, or −1."""
    sizes: Ints
    """(regions,) number of vertices of each region."""
    steps: Singles
    """(m, r) quantisation step of each column."""
    carriers: Shorts
    shares: Singles
    """(n̄, 4) carriers of each skin vertex and their weights, as in `SurfaceTables`."""
    areas: Floats
    """(n̄,) area of the skin around each vertex, in m²."""


class ContactScratch(NamedTuple):
    """Scratch arrays, and contacts of the last step; c is the largest number of contacts."""

    rest: Singles
    """(n̄, 3) undeformed skin in the root's frame."""
    near: NDArray[np.bool_]
    """(n̄,) whether a vertex may be inside an obstacle."""
    group: Shorts
    vertex: Shorts
    obstacle: Shorts
    """(c,) group, skin vertex and obstacle of each contact."""
    depth: Singles
    """(c,) depth in m after the step for flesh that keeps its velocity; negative outside."""
    still: Singles
    """(c,) depth in m after the step for flesh that does not move."""
    place: Singles
    normal: Singles
    """(c, 3) position and outward normal of each contact, in the root's frame."""
    target: Singles
    """(c,) depth in m at which the contact force vanishes, or −1 for an inactive contact."""
    released: NDArray[np.bool_]
    """(c,) whether a contact with a free object pulled in a solution of this step."""
    slip: Singles
    grip: Singles
    """(c, 3) tangential displacement in this step for flesh that keeps its velocity, and (c,)
    stiffness of friction in N/m; empty without friction."""
    forces: Floats
    """(c, 3) force of each contact on the skin, in N in the world, if it is active."""
    slots: Shorts
    """(b + 1,) index of a carrier among the touched ones, or −1."""
    touched: Shorts
    """(b + 1,) touched carriers."""
    used: Shorts
    """(1,) number of touched carriers."""
    rows: Singles
    """(b · 3 · r,) blended basis rows of touched carriers, in their frames."""
    factors: Singles
    """(m, r) weights of the poses times quantisation steps."""
    moved: Singles
    """(b, 3) displacements of touched carriers since the detection of contacts."""
    going: Singles
    """(b + 1, 4) displacements of carriers in the step at constant velocity."""
    lines: Floats
    product: Floats
    """Rows of some contacts of a group, times √stiffness, and minus the sum of their products."""
    z: Floats
    change: Floats
    """(r,) coordinates at the detection of contacts, and their change since, scaled by ϒ."""

    @classmethod
    def of(cls, tables: ContactTables, obstacles: int, modes: int, rubs: bool) -> Self:
        """Make arrays for all possible contacts with this number of obstacles."""
        most, carriers = obstacles * len(tables.vertices), tables.places.shape[1]
        widest = int(tables.width.max(initial=1))
        lines = max(
            (max(1, MOST_PRODUCTS // int(w) ** 2) * int(w) for w in tables.width), default=1
        )
        return cls(
            rest=np.zeros((len(tables.carriers), 3), np.float32),
            near=np.zeros(len(tables.carriers), np.bool_),
            group=np.zeros(most, np.int32),
            vertex=np.zeros(most, np.int32),
            obstacle=np.zeros(most, np.int32),
            depth=np.zeros(most, np.float32),
            still=np.zeros(most, np.float32),
            place=np.zeros((most, 3), np.float32),
            normal=np.zeros((most, 3), np.float32),
            target=np.zeros(most, np.float32),
            released=np.zeros(most, np.bool_),
            slip=np.zeros((most if rubs else 0, 3), np.float32),
            grip=np.zeros(most if rubs else 0, np.float32),
            forces=np.zeros((most, 3)),
            slots=np.zeros(carriers, np.int32),
            touched=np.zeros(carriers, np.int32),
            used=np.zeros(1, np.int32),
            rows=np.zeros(3 * carriers * modes, np.float32),
            factors=np.zeros((len(tables.steps), modes), np.float32),
            moved=np.zeros((carriers, 3), np.float32),
            going=np.zeros((carriers, 4), np.float32),
            lines=np.zeros(lines),
            product=np.zeros(widest * widest),
            z=np.zeros(modes),
            change=np.zeros(modes),
        )


_known: WeakKeyDictionary[RuntimeModel, ContactTables] = WeakKeyDictionary()


def contact_tables(runtime: RuntimeModel) -> ContactTables:
    """Return the contact tables of a model, computed at the first call."""
    if runtime not in _known:
        _known[runtime] = _made(runtime)
    return _known[runtime]


def _made(runtime: RuntimeModel) -> ContactTables:
    skin, model = runtime.skin, runtime.model
    b, m = len(runtime.carriers), runtime.n_poses
    sizes = np.diff(skin.row_start)
    places = np.full((len(sizes), b + 1), -1, np.int32)
    blocks = []
    for region, size in enumerate(sizes):
        rows = skin.rows[skin.row_start[region] : skin.row_start[region + 1]]
        places[region, rows] = np.arange(size)
        block = skin.basis[skin.start[region] : skin.start[region + 1]]
        by_column = block.reshape(m, -1, size, 3)
        blocks.append(by_column.transpose(0, 2, 3, 1).reshape(-1))
    counts = (places[:, skin.carriers] >= 0) & (skin.shares != 0)
    met = counts.any(axis=2).T  # (n̄, regions)
    order, groups = group_by_regions(met, model.columns, 1)
    of_group = met[order[groups.first[:-1]]] if len(groups.width) else met[:0]
    areas = model.surface.vertex_areas()
    return ContactTables(
        vertices=order[: groups.first[-1]],
        first=groups.first,
        width=groups.width,
        columns=groups.columns,
        met=np.ascontiguousarray(of_group),
        basis=np.concatenate(blocks),
        start=skin.start,
        column=skin.column,
        places=places,
        sizes=sizes,
        steps=skin.steps,
        carriers=skin.carriers,
        shares=skin.shares,
        areas=np.where(areas > 0, areas, areas.mean()),  # unreferenced vertices have the mean
    )
