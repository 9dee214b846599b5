"""What is in an Action Genome root against what its annotations ask for."""

from datasets.verify.report import Report
from datasets.verify.root import verify

__all__ = ["Report", "verify"]
