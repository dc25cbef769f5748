"""Times of soft skeletons beside all of their tets, how they grow, and how soft they are."""
