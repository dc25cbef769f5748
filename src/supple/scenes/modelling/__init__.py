"""Modelling: solids, sculpting, skinning weights, keyframes."""
