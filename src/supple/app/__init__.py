"""Work of the commands: bake, build, view, demo, info; pictures and reports."""
