"""Times of soft skeletons, beside all of their tets and as sizes grow."""
