"""Solvers of a step in rig space: ours, and those of Hahn et al. 2013."""
