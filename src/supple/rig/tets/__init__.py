"""Rigs on tets, and the tets that bones hold."""
