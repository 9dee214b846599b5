"""Loaders and settings as people call them, in one order and one colour each."""

from collections.abc import Iterable

from experiments.report.collect import Run

LOADERS = {
    "naive": "naive",
    "sampling": "sampling",
    "mix": "mix pad",
    "bload": "BLoad",
    "bload_exact": "BLoad exact",
}
"""Name -> what the paper's readers call it, in the order of the paper's table."""


def loader_name(loader: str) -> str:
    """``bload draw=length`` -> ``BLoad draw=length``."""
    name, *options = loader.split(" ")
    return " ".join([LOADERS.get(name, name), *options])


def style(loader: str) -> int:
    """The number of the loader's colour and mark in every chart."""
    name = loader.split(" ")[0]
    return list(LOADERS).index(name) if name in LOADERS else len(LOADERS)


def in_order(loaders: Iterable[str]) -> list[str]:
    return sorted(loaders, key=lambda loader: (style(loader), loader))


def setting(run: Run) -> str:
    """What stood beside the loader and the seed: data, model, machine kind."""
    data = run.config["dataset"]
    name = {"synthetic": "synthetic data", "action_genome": "Action Genome"}.get(
        str(data.get("name")), str(data.get("name"))
    )
    if "train_videos" in data:
        name += f" ({data['train_videos']:,} training videos)"
    if "image_size" in data:
        name += f" of {data['image_size']} pixels"
    model = run.get("model.name", "a model without a name")
    ranks = run.summary.get("ranks", 1)
    device = run.summary.get("device", "an unknown device")
    return f"{name}, model {model}, {ranks} rank{'s' if ranks != 1 else ''} on {device}"


def epochs_text(epochs: int) -> str:
    return "1 epoch" if epochs == 1 else f"{epochs} epochs"
