"""Fidelity of engines to a converged reference, by position and frequency."""
