"""Tables, recommendations and pictures of plans; the command line."""
