"""Bodies and hands in the layouts of SMPL, SMPL-H, SMPL-X and MANO, and motions of AMASS."""
