"""Regions of a body that have bases of their own."""
