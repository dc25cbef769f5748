"""Times of soft skeletons beside the unreduced flesh, their growth, and their compliance."""
