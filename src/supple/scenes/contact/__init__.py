"""Bodies and hands that touch things: what is where, and how it moves."""
