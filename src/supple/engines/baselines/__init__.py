"""Methods that papers compare with: projected dynamics in other bases."""
