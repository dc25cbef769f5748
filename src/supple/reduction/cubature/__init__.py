"""Cubature: few weighted tets and vertices, whose sums approximate sums over all."""
