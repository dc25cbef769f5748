"""Motions: poses over time, cuts, root motion, retargeting."""
