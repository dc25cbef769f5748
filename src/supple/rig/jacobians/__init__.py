"""Derivatives of rigs by their parameters."""
