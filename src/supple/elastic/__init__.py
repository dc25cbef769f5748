"""Elasticity on linear tets: materials, forces, stiffness, mass and static equilibrium."""

from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import Equilibrium, static_equilibrium
from supple.elastic.material import Material, lame_parameters

__all__ = ["ElasticBody", "Equilibrium", "Material", "lame_parameters", "static_equilibrium"]
