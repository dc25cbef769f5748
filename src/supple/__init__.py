"""Physically based soft tissue for any rigged character, in real time."""
