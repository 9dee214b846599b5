"""A synthetic Action Genome: the same files and rules, made in seconds, every label known."""

from datasets.synthetic.script import Script, write_script, write_scripts
from datasets.synthetic.world import World
from datasets.synthetic.writer import ensure

__all__ = ["Script", "World", "ensure", "write_script", "write_scripts"]
