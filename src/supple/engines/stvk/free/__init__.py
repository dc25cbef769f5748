"""Free Saint Venant–Kirchhoff bodies."""
