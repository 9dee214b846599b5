"""Loading: a source -> batches of a rank, with exact resume."""
