"""Times of soft skeletons and of the unreduced flesh, their growth, and their compliance."""
