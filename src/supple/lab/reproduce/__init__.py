"""Tables and figures of the papers, for `supple reproduce`."""
