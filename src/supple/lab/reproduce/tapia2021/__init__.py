"""Tables and figures of tapia2021 (parametric skeletons with reduced soft tissue)."""
