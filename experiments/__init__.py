"""Studies, each with its own table and chart, and benchmarks."""
