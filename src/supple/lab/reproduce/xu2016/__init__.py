"""Tables and figures of Xu and Barbič 2016."""
