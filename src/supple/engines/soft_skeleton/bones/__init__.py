"""Bones of a soft skeleton, and the points they move."""
