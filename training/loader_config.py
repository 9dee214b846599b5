"""Config of a loader: keys of every loader, and the options of its packer."""

from dataclasses import asdict, dataclass, field, fields, make_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from bload.errors import InputError, check_choice, check_number
from bload.packing.cost import Cost
from bload.packing.packers import PACKERS, find_packer
from bload.schedule.balance import BALANCES

COSTS = ("slots", "fitted")


def _check_list(key: str, values: Any, most: int, other: str) -> None:
    """Raise `InputError` unless it is a list of 1 to `most` numbers; `other`: what else may be."""
    right = isinstance(values, list) and 1 <= len(values) <= most
    if not right or any(type(value) not in (int, float) or not value >= 0 for value in values):
        raise InputError(
            f"{key} is {values!r}; give {other} a list of 1 to {most} numbers from 0 on"
        )


@dataclass
class LoaderConfig:
    name: str  # the packer
    t_max: int | None = None  # slots per block; null: the longest video (clips: the mean length)
    last: str = "fill"  # incomplete last step: fill it with empty blocks, or drop it
    # how blocks are dealt to steps and ranks: none, pairs, counts, window, queue
    balance: str = field(default="none")
    # balance=window: steps whose blocks are sorted together by cost
    window: int = field(default=16)
    # cost of a block, for `balance`: slots, fitted (timed here), or the numbers of a `bload.Cost`
    cost: Any = field(default="slots")
    # block sizes, such as [94,47], or how many sizes to choose
    block_sizes: Any = field(default=1)

    def __post_init__(self) -> None:
        if self.t_max is not None:
            check_number("loader.t_max", self.t_max, 1, 10**7, null=True)
        check_choice("loader.last", self.last, ("fill", "drop"))
        check_choice("loader.balance", self.balance, BALANCES)
        check_number("loader.window", self.window, 1, 10**9)
        if self.cost not in COSTS:
            _check_list("loader.cost", self.cost, len(fields(Cost)), f"{' or '.join(COSTS)}, or")
        if not isinstance(self.block_sizes, int):
            _check_list("loader.block_sizes", self.block_sizes, 100, "a number of block sizes, or")
        for option, kind in get_type_hints(PACKERS[self.name]).items():
            if get_origin(kind) is Literal:
                check_choice(f"loader.{option}", getattr(self, option), get_args(kind))

    @property
    def options(self) -> dict[str, Any]:
        """Options of `bload.BlockLoader`: all keys but the name, and `cost` unless it is fitted."""
        values = {key: value for key, value in asdict(self).items() if key != "name"}
        cost, window = values.pop("cost"), values.pop("window")
        values["balance_options"] = {"steps": window} if self.balance == "window" else {}
        if cost != "fitted":
            values["cost"] = Cost() if cost == "slots" else Cost(*cost)
        return values

    def __reduce__(self):  # the class is made from a packer, so pickle would not find it
        return _unpickled, (asdict(self),)


def _unpickled(values: dict[str, Any]) -> LoaderConfig:
    return loader_schema(values["name"])(**values)


@cache
def loader_schema(packer: str) -> type[LoaderConfig]:
    """Return the config class of a loader: `LoaderConfig` and the options of its packer."""
    options = [
        (name, Any if default is None else type(default), field(default=default))
        for name, default in find_packer(packer).options.items()
        if name != "batch_slots"  # in train
    ]
    return make_dataclass(f"{packer}_config", options, bases=(LoaderConfig,))
