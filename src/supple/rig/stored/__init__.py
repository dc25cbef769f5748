"""Rigs as headers and plain arrays."""
