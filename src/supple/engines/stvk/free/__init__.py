"""Saint Venant–Kirchhoff bodies that nothing holds."""
