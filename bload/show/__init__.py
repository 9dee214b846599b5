"""Tables of plans."""
