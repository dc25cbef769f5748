"""Figures of soft skeletons: compliance, times, growth."""
