"""Scenes of bodies and hands in contact with obstacles and objects."""
