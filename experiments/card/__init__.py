"""The parts of `experiments.gpu_card`, one file each."""
