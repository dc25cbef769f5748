"""Example poses: weights, a tree through them, a choice of them."""
