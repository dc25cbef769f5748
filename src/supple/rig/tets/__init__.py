"""The rig on the tets, and what bones hold."""
