"""Cubature: few weighted tets and vertices that stand for all."""
