"""Compiling loops with Numba: cached, bound, vectorised."""
