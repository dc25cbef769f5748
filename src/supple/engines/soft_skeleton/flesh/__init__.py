"""Flesh of a soft skeleton: handles, energy, cubature, and what handles lack."""
