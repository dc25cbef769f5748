"""What commands do: bake, build, view, demo, info; pictures and reports."""
