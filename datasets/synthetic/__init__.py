"""A synthetic Action Genome: the same files and rules, made in seconds, every label known."""

from datasets.synthetic.script import Script, write_script, write_scripts
from datasets.synthetic.world import World
from datasets.synthetic.writer import make_if_missing

__all__ = ["Script", "World", "make_if_missing", "write_script", "write_scripts"]
