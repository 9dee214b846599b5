"""Batches, their boundaries in every form, and the functions that use them."""
