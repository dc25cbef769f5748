"""Pictures of scenes, models, anatomies and baked motions."""
