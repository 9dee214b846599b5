"""Scheduling: plan -> the batches of each rank in each step."""
