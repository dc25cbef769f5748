"""Bodies to build on: tets, what holds them, and how stiff they are, from a character's anatomy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.bone_cores import flesh_factors, held_vertices
from supple.anatomy.flesh_presets import flesh_material
from supple.anatomy.moving_apart import without_bridges
from supple.arrays import Floats, Ints
from supple.elastic.material import Material
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.tets import TetMesh
from supple.rig.character import Character

__all__ = ["BodyPlan", "anatomical_material", "plan_body"]

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
    if isinstance(tets, TetMesh):
        mesh = tets
    else:
        mesh = without_bridges(character, tetrahedralise(character.surface, tets=tets), anatomy)
    held = held_vertices(character, mesh, anatomy)
    return BodyPlan(anatomy, mesh, held, flesh_factors(anatomy, mesh))


def anatomical_material(anatomy: Anatomy) -> Material:
    """Return flesh for a body whose trunk is so thick: E = 2·10⁴ Pa (R_trunk / 0.154 m)².

    A box around spread arms says little about the flesh: it made a sumo 2.8 times too stiff. What
    is stouter than a human, ρ = R_trunk / 0.077 of its size, is stiffer by ρ only: by ρ² a cow's
    trunk moved by half of what it did.
    """
    size = anatomy.surface.size
    stout = anatomy.trunk_radius / (TRUNK_RADIUS * size)
    return flesh_material(size * min(stout, np.sqrt(stout)))
