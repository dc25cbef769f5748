<<<<<<< HEAD
"""Times of soft skeletons, beside all of their tets and as sizes grow."""
=======
"""Figures of soft skeletons: compliance, times, growth."""
>>>>>>> w-flesh
