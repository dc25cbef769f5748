"""Stiffness for a given swing of the flesh: goals by region, and the search for the stiffness."""
