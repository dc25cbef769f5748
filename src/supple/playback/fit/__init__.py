"""Stiffness and damping by region, found from a motion of the same skin."""
