"""Example poses: their weights, a tree of them, and their choice."""
