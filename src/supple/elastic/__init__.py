"""Elasticity on tets and hexahedra: materials, forces, stiffness, mass, static equilibrium."""

from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.equilibrium import Equilibrium, static_equilibrium
from supple.elastic.material import Material, lame_parameters

__all__ = [
    "ElasticBody",
    "Equilibrium",
    "HexBody",
    "Material",
    "lame_parameters",
    "static_equilibrium",
]
