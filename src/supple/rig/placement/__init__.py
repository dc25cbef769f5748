"""Placing the same vertices again and again without allocating."""
