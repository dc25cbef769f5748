"""Layers: pieces of a skin that lie over other skin, such as clothes, hair cards and armour.

The skin moves by the displacement of the flesh at a point. Usually that is the vertex itself; a
vertex of a layer takes the nearest point of the skin below, so that both move alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import igl
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.anatomy.loose_parts import Components, flesh_tets
from supple.anatomy.region_entries import EDITED, LAYER_KEYS, RegionEntry
from supple.anatomy.skin_maps import MeasuredSkin
from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_array
from supple.mesh.embedding import embed
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.mesh.tets import TetMesh

#: Distance from the skin below, relative to the size, up to which a layer follows it, and from
#: which it is soft on its own, as the lower part of a skirt; between them it does both in part.
REACH, LOOSE = 0.01, 0.05
#: The latter distance of pieces that are mostly body themselves, such as trousers without legs in
#: them: they follow other skin at their edges only.
EDGE = 0.02
#: Least part of the area that lies over other skin, near or far, of a garment.
GARMENT = 0.5
#: Farthest distance, relative to the size, at which one piece counts as outside another.
FARTHEST = 0.1
#: Distance, relative to the size, within which a layer may also be sunk into the skin below.
SUNK = 0.004
#: Cosines between the normal of the skin below and the direction to the layer, from which the layer
#: begins to follow it, and from which it follows it completely: beyond the edge of the skin below
#: the direction is oblique.
OBLIQUE, ABOVE = 0.3, 0.7
#: Least part of the area of a layer that lies over another component.
LEAST_OVER = 0.02
#: The same for plates: a horn or a sword touches skin at one end only.
LEAST_COVER = 0.1
#: Least part of the skin below a plate that is flesh. A hat on a skull follows the rig anyway.
LEAST_FLESH = 0.05
#: Least weight of the joints of a layer, and their neighbours, in the skin below. A hand beside the
#: hip lies over it, but does not move with it.
MOVES_WITH = 0.25
#: Distance around a plate over which the skin changes from its motion to that of the plate,
#: relative to the radius of the plate.
RIM = 1.0
#: Skin nearer to a plate than this many gaps between plate and skin is below it.
MARGIN = 1.25
#: Layers over layers over layers: a coat, a shirt and a vest.
MOST_LAYERS = 4
#: Largest part of the skin that is a layer, or whose name is that of a layer: an eyelid lies over
#: the eye, but the body does not follow it.
LARGEST = 0.5
#: Distance, relative to the size, below which a point is the vertex itself.
NOT_MOVED = 1e-7
#: Name of all pieces without a mesh or material of their own, and reasons.
UNNAMED = "unnamed pieces"
FOLLOWS, ONE_PIECE = "lies over {}, follows it", "rigid piece over {}, moves with its flesh"


@dataclass(frozen=True, eq=False)
class Layers:
    """Layers of a skin.

    `entries` has the feel and the reasons of each layer by name of its mesh or material.
    `followed` (n̄, 3) are the points whose displacement the vertices take; None without layers.
    `apart` (n̄,) masks plates, and layers that an entry of the user makes so, as does `loose` (n̄,).
    """

    entries: Mapping[str, RegionEntry]
    followed: Floats | None
    apart: Bools
    loose: Bools


def layer_entries(entries: Mapping[str, RegionEntry]) -> dict[str, RegionEntry]:
    """Return the entries of layers, by name of a mesh or material, without those of joints."""
    return {name: entry for name, entry in entries.items() if name.startswith(LAYER_KEYS)}


@dataclass(frozen=True, eq=False)
class _Below:
    """Nearest skin of other components below some vertices.

    `triangles` (k, 3) and `shares` (k, 3) are corners and barycentric coordinates of the nearest
    points, `follow` (k,) how far each of the `vertices` (k,) follows its point, 0 to 1, and
    `outside` (k,) masks those that lie over it, near or far, and face the same way.
    """

    vertices: Ints
    triangles: Ints
    shares: Floats
    follow: Floats
    outside: Bools

    def at(self, values: Floats) -> Floats:
        """Interpolate values (n̄, d) at the points."""
        return np.einsum("kc,kcd->kd", self.shares, values[self.triangles])


@dataclass(eq=False)
class _Layering:
    """Search of layers: a surface, its components, and joints that move together."""

    surface: SurfaceMesh
    pieces: Components
    normals: Floats
    near: sp.csr_array
    """(n̄, J) weights of each vertex at its joints and their neighbours in the skeleton."""
    weights: sp.csr_array
    flesh: Bools
    role: NDArray[np.str_]
    found: dict[int, _Below] = field(default_factory=dict)
    plates: list[int] = field(default_factory=list)

    @classmethod
    def of(
        cls, skin: MeasuredSkin, parents: Ints, flesh: Bools, role: NDArray[np.str_]
    ) -> _Layering:
        surface, weights = skin.surface, skin.weights
        child = np.flatnonzero(parents >= 0)
        count = len(parents)
        up = sp.csr_array((np.ones(len(child)), (child, parents[child])), (count, count))
        neighbours = sp.csr_array(sp.eye_array(count) + up + up.T)
        outward = 1.0 if surface.volume() >= 0 else -1.0
        normals = outward * vertex_normals(surface.vertices, surface.triangles)
        near = sp.csr_array(weights @ neighbours)
        return cls(surface, skin.pieces, normals, near, weights, flesh, role)

    def search(self, feels: Mapping[int, str]) -> None:
        """Find layers and plates; `feels` of components take precedence."""
        self.found, self.plates = {}, []
        area, part = self.surface.vertex_areas(), self.pieces.of_vertex
        count = len(self.pieces.shares)
        over: dict[int, _Below] = {}
        near, outside = np.zeros((count, count)), np.zeros((count, count))
        for piece in range(count):
            feel = feels.get(piece)
            if feel in ("soft", "apart") or (feel is None and self.pieces.shares[piece] > LARGEST):
                continue
            below = over[piece] = self._below(piece)
            under, areas = part[below.triangles[:, 0]], area[below.vertices]
            near[piece] = np.bincount(under, areas * below.follow, count)
            outside[piece] = np.bincount(under, areas * below.outside, count)
        for piece, below in over.items():
            least = LEAST_OVER * float(area[below.vertices].sum())
            lies = (near[piece] >= least) & (outside[piece] > outside[:, piece])
            if not lies.any():
                continue
            # Again, as skin below may be farther than a piece above.
            below = self._below(piece, lies)
            if below.follow.any() and self._is_layer(piece, below, feels.get(piece)):
                self.found[piece] = below

    def _is_layer(self, piece: int, below: _Below, feel: str | None) -> bool:
        """Return whether a component is a layer, and list it if it is a plate."""
        area = self.surface.vertex_areas()[below.vertices]
        prop = area[self.role[below.vertices] == "prop"].sum() > 0.5 * area.sum()
        hard = area[~self.flesh[below.vertices]].sum() > 0.5 * area.sum()
        if feel is None and hard and not prop:
            return False  # eyes and horns hold the flesh around them
        if feel == "over" or (feel is None and not (self.pieces.single[piece] or prop)):
            return True
        covers = area * below.follow
        soft = covers * self.flesh[below.triangles[:, 0]]
        plate = (
            covers.sum() >= LEAST_COVER * area.sum() and soft.sum() >= LEAST_FLESH * covers.sum()
        )
        if plate or feel == "hard":
            self.plates.append(piece)
        return plate or feel == "hard"

    def _below(self, piece: int, under: Bools | None = None) -> _Below:
        """Return the skin below all vertices of a component, of the components in `under` (c,)."""
        surface, size = self.surface, self.surface.size
        vertices = np.flatnonzero(self.pieces.of_vertex == piece)
        component = self.pieces.of_vertex[surface.triangles[:, 0]]
        others = surface.triangles[component != piece if under is None else under[component]]
        distance, triangles, shares = _nearest(surface.vertices, others, surface.vertices[vertices])
        below = _Below(vertices, triangles, shares, np.ones(len(vertices)), vertices >= 0)
        normal = below.at(self.normals)
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
        away = surface.vertices[vertices] - below.at(surface.vertices)
        cosine = np.einsum("ij,ij->i", away, normal) / np.maximum(distance, 1e-300)
        above = _ramp(cosine, OBLIQUE, ABOVE)
        sunk = (distance < SUNK * size) & (np.abs(cosine) > ABOVE)
        together = np.zeros(len(vertices))
        for corner in range(3):
            common = self.near[vertices].multiply(self.weights[triangles[:, corner]])
            together += shares[:, corner] * np.asarray(common.sum(axis=1)).ravel()
        moves = together >= MOVES_WITH
        facing = np.einsum("ij,ij->i", normal, self.normals[vertices]) > ABOVE
        outside = facing & (above > 0) & moves & (distance < FARTHEST * size)
        area = surface.vertex_areas()[vertices]
        garment = area[outside].sum() > GARMENT * area.sum()
        follow = 1 - _ramp(distance / size, REACH, LOOSE if garment else EDGE)
        follow *= np.where(sunk, 1.0, above) * moves
        hard = ~self.flesh
        follow[hard[vertices] & hard[triangles].all(axis=1)] = 0.0  # both follow the rig
        return replace(below, follow=follow, outside=outside)

    def entries(
        self, names: Mapping[int, str], part_names: tuple[str, ...]
    ) -> dict[str, RegionEntry]:
        """Return the feel and the reason of each layer by its name in `names`."""
        listed: dict[str, RegionEntry] = {}
        for piece, below in self.found.items():
            under = below.triangles[below.follow > 0, 0]
            parts, counts = np.unique(np.array(part_names)[under], return_counts=True)
            plate = piece in self.plates
            why = (ONE_PIECE if plate else FOLLOWS).format(parts[counts.argmax()])
            entry = RegionEntry("prop", 0.0, "hard" if plate else "over", (why,))
            name = names.get(piece, UNNAMED)
            if plate or name not in listed:
                listed[name] = entry
        return listed

    def plate_groups(self, names: Mapping[int, str]) -> list[list[int]]:
        """Return components that move as one: plates, and all pieces of their name and joint."""
        groups: dict[tuple[str, int], list[int]] = {}
        for plate in self.plates:
            name, joint = names.get(plate, str(plate)), int(self.pieces.main[plate])
            like = (
                piece
                for piece in names
                if names[piece] == name
                and self.pieces.single[piece]
                and self.pieces.main[piece] == joint
            )
            groups.setdefault((name, joint), sorted({plate, *like}))
        return list(groups.values())

    def followed(self, groups: list[list[int]]) -> Floats:
        """Return the points (n̄, 3) whose displacement the vertices take."""
        sampled = self.surface.vertices.copy()
        places = self._on_skin(sampled)
        bare = np.ones(len(sampled), bool)
        for below in self.found.values():
            bare[below.vertices[below.follow > 0]] = False
        skin = self.surface.triangles[bare[self.surface.triangles].all(axis=1)]
        if not (groups and len(skin)):
            return places
        plates = np.isin(self.pieces.of_vertex, np.concatenate(groups))
        centres = [self._move_with(sampled, places, group, skin, plates) for group in groups]
        places = self._on_skin(sampled)
        for group, centre in zip(groups, centres, strict=True):
            places[np.isin(self.pieces.of_vertex, group)] = centre
        return places

    def _on_skin(self, sampled: Floats) -> Floats:
        """Return points (n̄, 3) that are `sampled`, and of layers those of the skin below."""
        places = sampled.copy()
        for _ in range(min(MOST_LAYERS, len(self.found))):
            for below in self.found.values():
                start, follow = sampled[below.vertices], below.follow[:, None]
                places[below.vertices] = start + follow * (below.at(places) - start)
        return places

    def _move_with(
        self, sampled: Floats, places: Floats, group: list[int], skin: Ints, plates: Bools
    ) -> Floats:
        """Return the point (3,) that a plate takes, and move points `sampled` of skin below to it.

        `group` are the components of the plate, `skin` the triangles without layers, and `plates`
        (n̄,) masks all plates.
        """
        found, surface = [self.found[each] for each in group if each in self.found], self.surface
        vertices = np.concatenate([below.vertices for below in found])
        feet = np.concatenate([below.at(places) for below in found])
        follow = np.concatenate([below.follow for below in found])
        area = surface.vertex_areas()[vertices] * follow
        middle = np.average(feet, axis=0, weights=area)
        centre = _on(surface.vertices, skin, middle[None])[0]
        radius = float(np.sqrt(np.average(((feet - middle) ** 2).sum(axis=1), weights=area)))
        gaps = np.linalg.norm(surface.vertices[vertices] - feet, axis=1)[follow > 0]
        near, rim = MARGIN * float(np.quantile(gaps, 0.95)), RIM * radius + SUNK * surface.size
        part = self.pieces.of_vertex
        triangles = surface.triangles[np.isin(part[surface.triangles[:, 0]], group)]
        others = np.flatnonzero(~plates)
        distance = _nearest(surface.vertices, triangles, surface.vertices[others])[0]
        share = 1 - _ramp(distance, near, near + rim)
        moved, share = others[share > 0], share[share > 0, None]
        sampled[moved] = _on(
            surface.vertices, skin, sampled[moved] + share * (centre - sampled[moved])
        )
        return np.asarray(centre, np.float64)


def find_layers(
    skin: MeasuredSkin,
    parents: Ints,
    flesh: Bools,
    role: tuple[str, ...],
    labels: Mapping[str, Ints],
    entries: Mapping[str, RegionEntry],
    part_names: tuple[str, ...],
) -> Layers:
    """Find the layers of a skin.

    `parents` (J,) are those of the joints. `flesh` (n̄,) masks soft skin, `role` (n̄,) is its role
    and `part_names` (n̄,) its parts. `entries` are the user's, by mesh or material in `labels`.
    """
    surface, pieces = skin.surface, skin.pieces
    nothing = np.zeros(len(surface.vertices), bool)
    if len(pieces.shares) == 1 or (pieces.machine and not entries):
        return Layers({}, None, nothing, nothing)
    names = _names(surface, pieces, labels, entries)
    layering = _Layering.of(skin, parents, flesh, np.array(role))
    layering.search({})
    listed = layering.entries(names, part_names)
    changed = {
        name: entry
        for name, entry in entries.items()
        if name in labels and not (name in listed and entry.feel == listed[name].feel)
    }
    feels = {piece: changed[name].feel for piece, name in names.items() if name in changed}
    if feels:
        layering.search(feels)
        listed = layering.entries(names, part_names)
    for name, entry in changed.items():
        listed[name] = RegionEntry("prop", 0.0, entry.feel, (EDITED,))
    apart = [piece for piece, feel in feels.items() if feel == "apart"]
    loose = [piece for piece, feel in feels.items() if feel == "soft"]
    groups = layering.plate_groups(names)
    return Layers(
        listed,
        layering.followed(groups) if layering.found else None,
        np.isin(pieces.of_vertex, [*apart, *(piece for group in groups for piece in group)]),
        np.isin(pieces.of_vertex, loose),
    )


def _names(
    surface: SurfaceMesh,
    pieces: Components,
    labels: Mapping[str, Ints],
    entries: Mapping[str, RegionEntry],
) -> dict[int, str]:
    """Return the name of each component: that of its mesh or material, the smaller of both.

    A name with an entry takes precedence; names of more than half of the skin are left out.
    """
    area = surface.vertex_areas()
    named = [
        (name not in entries, float(area[vertices].sum()), name, vertices)
        for name, vertices in labels.items()
        if name.startswith(LAYER_KEYS)
        and (name in entries or area[vertices].sum() < LARGEST * area.sum())
    ]
    names: dict[int, str] = {}
    counts = np.bincount(pieces.of_vertex)
    for _, _, name, vertices in sorted(named, key=lambda each: each[:3]):
        inside = np.bincount(pieces.of_vertex[vertices], minlength=len(counts))
        for piece in np.flatnonzero(inside > 0.5 * counts).tolist():
            names.setdefault(piece, name)
    return names


def _nearest(vertices: Floats, triangles: Ints, points: Floats) -> tuple[Floats, Ints, Floats]:
    """Return distances (k,) of points to triangles, corners (k, 3) and barycentric coordinates."""
    tree = igl.AABB()
    tree.init(vertices, triangles)
    squared, at, places = tree.squared_distance(vertices, triangles, points)
    corners = triangles[at]
    a, b, c = (np.ascontiguousarray(vertices[corners[:, k]]) for k in range(3))
    with np.errstate(all="ignore"):
        shares = igl.barycentric_coordinates(np.ascontiguousarray(places), a, b, c)
    shares = np.clip(np.nan_to_num(shares, nan=1 / 3, posinf=1.0, neginf=0.0), 0.0, 1.0)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return np.sqrt(np.maximum(squared, 0.0)), corners, shares


def _on(vertices: Floats, triangles: Ints, points: Floats) -> Floats:
    """Return the points of the triangles nearest to points (k, 3)."""
    _, corners, shares = _nearest(vertices, triangles, points)
    return np.einsum("kc,kcd->kd", shares, vertices[corners])


def _ramp(values: Floats, low: float, high: float) -> Floats:
    """Return a smooth ramp from 0 at `low` to 1 at `high`."""
    t = np.clip((values - low) / (high - low), 0.0, 1.0)
    return t * t * (3 - 2 * t)


def layered_embedding(
    embedding: sp.csr_array, surface: SurfaceMesh, mesh: TetMesh, followed: ArrayLike | None
) -> sp.csr_array:
    """Return the embedding (n̄, n) of displacements: vertices take those of points `followed`.

    Vertices that are their own points keep their rows, bit for bit.
    """
    if followed is None:
        return embedding
    points = checked_array("followed points", followed, surface.vertices.shape)
    away = np.linalg.norm(points - surface.vertices, axis=1) > NOT_MOVED * surface.size
    rows = np.flatnonzero(away)
    if not len(rows):
        return embedding
    place = np.arange(len(points))
    place[rows] = len(points) + np.arange(len(rows))
    both = sp.vstack([embedding, embed(points[rows], flesh_tets(mesh))], format="csr")
    return sp.csr_array(sp.csr_array(both)[place])
