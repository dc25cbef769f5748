"""Flesh of a soft skeleton: handles, energy, cubature, residual flexibility."""
