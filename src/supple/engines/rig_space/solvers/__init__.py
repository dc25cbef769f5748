"""Solvers of a step in rig space: ours, and the solvers of Hahn et al. 2013."""
