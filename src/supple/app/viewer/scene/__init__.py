"""Scene of a page: its stage, nodes and colours."""
