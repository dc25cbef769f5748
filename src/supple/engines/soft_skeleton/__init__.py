"""Soft skeletons (Tapia et al. 2021): bones in minimal coordinates with flesh, and contact."""
