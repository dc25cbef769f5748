"""Cubature: few weighted tets and vertices, whose sums approximate those over all."""
