"""Solvers of a step in rig space: static condensation, and the solvers of Hahn et al. 2013."""
