"""Action Genome: its formats, its rules, its measure, and a synthetic stand-in for it."""
