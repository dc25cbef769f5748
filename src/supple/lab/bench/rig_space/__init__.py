"""Times of rig-space dynamics, beside rig-space physics and as sizes grow."""
