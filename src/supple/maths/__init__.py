"""Rotations, small matrices and curves."""
