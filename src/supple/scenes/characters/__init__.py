"""Procedural characters."""
