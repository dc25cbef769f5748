"""Benchmarks of `supple bench`."""
