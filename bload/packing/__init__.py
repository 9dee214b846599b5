"""Packing: lengths -> plan, before any file is read."""
