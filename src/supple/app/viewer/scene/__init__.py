"""Scene of a page: its nodes and colours."""
