"""Elasticity on tets and hexahedra: materials, forces, stiffness, mass, static equilibrium."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.elastic.body import ElasticBody, HexBody
    from supple.elastic.densities.density import Density, lame_parameters
    from supple.elastic.densities.dispatch import register_material
    from supple.elastic.equilibrium import Equilibrium, static_equilibrium
    from supple.elastic.material import Material

__all__ = [
    "Density",
    "ElasticBody",
    "Equilibrium",
    "HexBody",
    "Material",
    "lame_parameters",
    "register_material",
    "static_equilibrium",
]

__getattr__ = lazy_imports(__name__)
