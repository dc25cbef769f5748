"""Reduced against full: position and frequency."""
