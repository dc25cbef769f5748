"""Run by Blender's Python, not by that of the tests."""
