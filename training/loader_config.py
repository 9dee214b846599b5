"""Config of a loader: keys of every loader, and the options of its packer."""

from dataclasses import asdict, dataclass, fields, make_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from bload.errors import InputError
from bload.packing.cost import Cost
from bload.packing.packers import find_packer, make_plan
from bload.schedule.balance import BALANCES
from datasets.config_fields import Checked, choice, key, number


def _check_list(key: str, values: Any, max_length: int, alternatives: str) -> None:
    """Raise `InputError` with `alternatives` unless `values` are 1 to `max_length` numbers."""
    is_valid = isinstance(values, list) and 1 <= len(values) <= max_length
    if not is_valid or any(type(value) not in (int, float) or not value >= 0 for value in values):
        raise InputError(
            f"{key} is {values!r}; give {alternatives} a list of 1 to {max_length} numbers "
            "from 0 on"
        )


@dataclass
class LoaderConfig(Checked):
    prefix = "loader."

    name: str = key("the packer")
    t_max: int | None = number(
        1, 10**7, "slots per block; null: the longest video (clips: the mean length)", None
    )
    last: str = choice(("fill", "drop"), "what is done with an incomplete last step", "fill")
    balance: str = choice(BALANCES, "how blocks are assigned to steps and ranks", "none")
    cost: Any = key("of a block, for balance: slots, or numbers of a bload.Cost", "slots")
    block_sizes: Any = key("block sizes, such as [94,47], or how many sizes to choose", 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cost != "slots":
            _check_list("loader.cost", self.cost, len(fields(Cost)), "slots, or")
        if not isinstance(self.block_sizes, int):
            _check_list("loader.block_sizes", self.block_sizes, 100, "a number of block sizes, or")
        self._check_packer_options()

    def _check_packer_options(self) -> None:
        """Let the packer check its options on one sequence of one frame."""
        names = [name for name in find_packer(self.name).options if hasattr(self, name)]
        try:
            make_plan([1], self.name, 1, **{name: getattr(self, name) for name in names})
        except InputError as error:
            if str(error).split()[0] in names:  # else it is about the sequence
                raise InputError(f"loader.{error}") from None

    @property
    def options(self) -> dict[str, Any]:
        """Options of `bload.BlockLoader`: all keys but the name."""
        values = {key: value for key, value in asdict(self).items() if key != "name"}
        cost = values.pop("cost")
        values["cost"] = Cost() if cost == "slots" else Cost(*cost)
        return values

    def __reduce__(self):  # the class is made from a packer, so pickle would not find it
        return _unpickled, (asdict(self),)


def _unpickled(values: dict[str, Any]) -> LoaderConfig:
    return loader_schema(values["name"])(**values)


@cache
def loader_schema(packer: str) -> type[LoaderConfig]:
    """Return the config class of a loader: `LoaderConfig` and the options of its packer."""
    hints = get_type_hints(find_packer(packer).pack)
    choices = {
        name: ", ".join(option for option in get_args(kind) if isinstance(option, str))
        for name, kind in hints.items()
    }
    options = [
        (
            name,
            Any if default is None else type(default),
            key(f"{packer}: {choices.get(name) or 'a number'}", default),
        )
        for name, default in find_packer(packer).options.items()
        if name != "batch_slots"  # in train
    ]
    return make_dataclass(f"{packer}_config", options, bases=(LoaderConfig,))
