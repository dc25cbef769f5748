"""Energy densities, one file a material; `dispatch` holds the table of them."""
