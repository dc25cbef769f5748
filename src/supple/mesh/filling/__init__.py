"""Filling a surface with tets or cubes."""
