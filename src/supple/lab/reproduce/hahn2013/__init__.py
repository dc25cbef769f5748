"""Tables and figures of Hahn et al. 2013, Efficient Simulation of Secondary Motion in Rig-Space."""
