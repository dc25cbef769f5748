"""Bodies to build on: tets, what holds them, and how stiff they are, from a character's anatomy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.bone_cores import RIDING, flesh_factors, held_vertices
from supple.anatomy.flesh_presets import flesh_material
from supple.anatomy.moving_apart import without_bridges
from supple.arrays import Bools, Floats, Ints
from supple.elastic.material import Material
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.part_embedding import part_set
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.tets.surface_samples import typical_edge

__all__ = ["BodyPlan", "anatomical_material", "plan_body"]

#: Cells of parts that ride on the rig, as many times as long as those of flesh.
PROP_CELL = 2.0
#: Inscribed radius of a human's trunk as a part of the size that `flesh_material` is made for.
TRUNK_RADIUS = 0.077


@dataclass(frozen=True, eq=False)
class BodyPlan:
    """Hold what a build needs to know of a body.

    Attributes
    ----------
    anatomy
        Maps on the skin.
    mesh
        Tets, none of which joins skin that moves apart.
    held
        Tet vertices that are bone, ascending.
    factors
        (n̄,) what Young's modulus is multiplied by, painted on the skin.
    """

    anatomy: Anatomy
    mesh: TetMesh
    held: Ints
    factors: Floats


def plan_body(
    character: Character, tets: int | TetMesh, anatomy: Anatomy | None = None
) -> BodyPlan:
    """Make tets for a character and say what holds them.

    Parameters
    ----------
    character
        Its motions tell what moves apart.
    tets
        How many to make, or tets that fill the surface: those are kept as they are.
    anatomy
        By default `anatomy_of` the character.
    """
    anatomy = anatomy_of(character) if anatomy is None else anatomy
    mesh = tets if isinstance(tets, TetMesh) else _meshed(character, tets, anatomy)
    held = held_vertices(character, mesh, anatomy)
    return BodyPlan(anatomy, mesh, held, flesh_factors(anatomy, mesh))


def _meshed(character: Character, tets: int, anatomy: Anatomy) -> TetMesh:
    """Fill flesh and the parts that ride on the rig apart from each other."""
    surface, riding = character.surface, anatomy.riding
    if not riding.any():
        return without_bridges(character, _filled(surface, tets=tets), anatomy)
    flesh = _filled(_of_parts(surface, ~riding), tets=tets)
    flesh = without_bridges(character, flesh, anatomy)
    cell = PROP_CELL * typical_edge(flesh)
    pieces = [(flesh, np.unique(anatomy.part[~riding]))]
    # What follows one joint may share tets.
    groups = np.unique(anatomy.region[riding])
    for region in groups:
        own = riding & (anatomy.region == region)
        shape = _of_parts(surface, own)
        filled = _filled(shape, cell=min(cell, 0.5 * shape.size))
        pieces.append((filled, np.unique(anatomy.part[own])))
    return _joined(pieces)


def _filled(surface: SurfaceMesh, *, tets: int = 1, cell: float | None = None) -> TetMesh:
    """Fill a surface of size 1, rounded: a scaled body has the same tets, scaled."""
    size = surface.size
    unit = SurfaceMesh(np.round(surface.vertices / size, 7), surface.triangles)
    if cell is None:
        mesh = tetrahedralise(unit, tets=tets)
    else:
        mesh = tetrahedralise(unit, cell=float(f"{cell / size:.6g}"))
    return TetMesh(mesh.vertices * size, mesh.tets)


def _of_parts(surface: SurfaceMesh, vertices: Bools) -> SurfaceMesh:
    """The triangles between some vertices."""
    triangles = surface.triangles[vertices[surface.triangles].all(axis=1)]
    used, corners = np.unique(triangles, return_inverse=True)
    return SurfaceMesh(surface.vertices[used], corners.reshape(-1, 3))


def _joined(pieces: Sequence[tuple[TetMesh, Ints]]) -> TetMesh:
    """One mesh of bodies that know which components of the surface they carry; flesh is first."""
    vertices, tets, sets, first, at = [], [], {}, 0, 0
    for mesh, components in pieces:
        vertices.append(mesh.vertices)
        tets.append(mesh.tets + at)
        sets[part_set(components)] = np.arange(first, first + len(mesh.tets))
        at, first = at + len(mesh.vertices), first + len(mesh.tets)
    sets[RIDING] = np.arange(len(tets[0]), first)
    return TetMesh(np.concatenate(vertices), np.concatenate(tets), sets)


def anatomical_material(anatomy: Anatomy) -> Material:
    """Return flesh for a body whose trunk is so thick: E = 2·10⁴ Pa (R_trunk / 0.154 m)².

    A box around spread arms says little about the flesh: it made a sumo 2.8 times too stiff. What
    is stouter than a human, ρ = R_trunk / 0.077 of its size, is stiffer by ρ only: by ρ² a cow's
    trunk moved by half of what it did.
    """
    size = anatomy.surface.size
    stout = anatomy.trunk_radius / (TRUNK_RADIUS * size)
    return flesh_material(size * min(stout, np.sqrt(stout)))
