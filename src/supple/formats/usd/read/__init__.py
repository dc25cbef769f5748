"""Reading characters from USD."""
