"""Measuring and reproducing: benchmarks, fidelity, the papers' tables and figures."""
