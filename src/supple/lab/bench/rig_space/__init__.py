"""Times of rig-space dynamics beside rig-space physics, and their growth."""
