"""Tables and pictures of plans."""
