"""Regions of a body, each with a separate basis."""
