"""Engines: what steps a character or a body through time, a folder each."""
