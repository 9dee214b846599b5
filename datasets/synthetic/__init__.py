"""A synthetic Action Genome: the same files and rules, made in seconds, every label known."""
