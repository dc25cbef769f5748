"""Batches of jobs on one or many machines: plan, journal, process farms and results page."""
