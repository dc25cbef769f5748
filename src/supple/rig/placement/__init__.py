"""Placements: repeated evaluation of fixed vertices without allocation."""
