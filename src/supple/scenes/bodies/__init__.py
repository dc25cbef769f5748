"""Procedural elastic bodies."""
