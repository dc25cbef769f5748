"""Point caches and Alembic."""
