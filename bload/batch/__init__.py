"""A batch, its boundaries in every form, and what runs through it."""
