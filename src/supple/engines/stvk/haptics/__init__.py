"""A ball in a hand that touches a reduced body."""
