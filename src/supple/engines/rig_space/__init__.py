"""Rig-space dynamics (Hahn et al. 2013): physics moves the free parameters of a rig."""
