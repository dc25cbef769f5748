"""Many jobs, on one machine or many: plan, journal, farms of processes, one page."""
