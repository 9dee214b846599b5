"""Tables, recommendations and pictures of plans."""
