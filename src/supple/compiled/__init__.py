"""Compilation with Numba: code cached on disk, vector instructions, tables of arguments."""
