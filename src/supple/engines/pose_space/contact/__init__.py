"""Obstacles that push a reduced skin."""
