"""The report: one HTML page, and the same as Markdown, from whatever runs a folder holds.

runs and epochs (training.runs) -> results -> sections of texts, tables and charts -> page
"""
