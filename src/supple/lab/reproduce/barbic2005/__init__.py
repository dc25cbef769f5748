"""Tables and figures of Barbič and James 2005."""
