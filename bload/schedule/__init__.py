"""Scheduling: plan -> the batches of every rank in every step."""
