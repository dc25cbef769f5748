"""Stiffness with which flesh swings as far as asked: goals by region, and the search for them."""
