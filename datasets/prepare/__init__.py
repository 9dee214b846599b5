"""Videos to annotated frames: ``python -m datasets.prepare --root ROOT``."""
