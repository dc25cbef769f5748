"""Panels of a page."""
