"""Compiling loops with Numba: kept on disk, vectorised, with tables for arguments."""
