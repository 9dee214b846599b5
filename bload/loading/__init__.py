"""Loading: a source -> batches per rank, with exact resume."""
