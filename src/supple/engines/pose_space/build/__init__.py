"""Building a pose-space model: poses, bases, alignment, cubature."""
