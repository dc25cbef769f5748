"""The pose-space model: its fields, their rules, its file."""
