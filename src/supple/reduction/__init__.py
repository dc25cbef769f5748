"""Reduction: models with few unknowns, made at several poses and made to agree."""
