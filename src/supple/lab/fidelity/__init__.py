"""Fidelity of engines to the converged truth: position and frequency."""
