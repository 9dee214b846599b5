"""MovieLens: does the comparison of loaders hold on sequences that nobody made for memory?

    pip download recbole==1.2.1 --no-deps                  # the data are a file in its wheel
    rm -r results/movielens                                # or what it holds counts as done
    python -m experiments.movielens WHEEL                  # 3 hours; started again, it goes on
    python -m experiments.movielens                        # the tables of what was measured

A user's ratings are a sequence by time. From the second on, each item is predicted from all events
before it, among the items that the user has not rated yet. Recall@20 is the share of events whose
item is among the first 20. Protocol and predictions: dev/LOG.md, "Real sequences". GroupLens
allows research, asks for an acknowledgement (Harper and Konstan, ACM TiiS 5, 2015) and forbids
commercial use and redistribution without permission, so no event is committed.

B rows, T slots, V valid slots, N events of a user, I items, D width.
"""

import zipfile
from collections.abc import Iterator
from functools import cache, partial
from itertools import count, islice, product
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import ttest_1samp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from bload import Batch, BlockLoader, InputError, from_dataset, mean_loss, unpack
from datasets.files import exit_on_input_error
from experiments import study
from experiments.intervals import holm, signed, t_interval
from training.stopping import detach_worker

MEMBER, SPLIT_SEED = "recbole/dataset_example/ml-100k/ml-100k.inter", 2310
FOLDER, FILES = study.RESULTS / "movielens", ("runs", "seconds", "popularity")
CLIPS, EXACT, NO_STARTS = "sampling clips=all", "bload_exact", "bload_exact starts=ignored"
LOADERS = ("naive", "sampling", CLIPS, "mix", "bucket", "bload", EXACT, NO_STARTS)
"""Packers and their options; ``starts=ignored`` trains on each row as one long sequence."""
SEEDS = {("gru", loader): 10 for loader in LOADERS}
SEEDS |= {("transformer", loader): 5 for loader in ("naive", CLIPS, EXACT)}
"""Model and loader -> number of seeds in the comparison."""
RATES, SEARCH_SEEDS, TURNS = (1e-3, 2e-3, 4e-3, 8e-3, 16e-3, 32e-3), (100, 101), 5
EPOCHS, POINTS = 8, 12
"""Training takes the frames of so many epochs; validation is read at so many points."""
PAIR, JOB = ["model", "loader"], ["stage", "model", "loader", "seed", "rate"]
"""Columns; the stage of a job is `search`, for a rate, or `final`."""
User = dict[str, Tensor]
"""Of each event but the last: `item`, `rating`, log `gap` to the event before, and `next` item."""


@cache
def read_split(wheel: Path) -> tuple[Any, ...]:
    """Read 70 % of the users to train on, 10 % for choices, 20 % to test; count the items."""
    names = ["user", "item", "rating", "time"]
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as file:
            events = pd.read_csv(file, sep="\t", names=names, header=0)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{wheel} has no {MEMBER}; pip download recbole==1.2.1 gets it") from error
    events["item"] = pd.factorize(events["item"], sort=True)[0]
    users = []
    for _, rows in events.sort_values("time", kind="stable").groupby("user"):
        item, rating, time = (torch.tensor(rows[name].to_numpy()) for name in names[1:])
        gap = time.diff(prepend=time[:1]).log1p().float()[:, None] / 10
        users.append({"item": item[:-1], "rating": rating[:-1], "gap": gap[:-1], "next": item[1:]})
    order = np.random.default_rng(SPLIT_SEED).permutation(len(users))
    parts = np.split(order, [int(0.7 * len(users)), int(0.8 * len(users))])
    return *([users[i] for i in part] for part in parts), int(events["item"].max()) + 1


class Recommender(nn.Module):
    """A GRU or a small transformer over events, whose outputs `score` compares with all items."""

    def __init__(self, model: str, items: int) -> None:
        super().__init__()
        self.item, self.rating = nn.Embedding(items, 64), nn.Embedding(6, 16)
        self.gap, self.score = nn.Linear(1, 16), nn.Linear(64, items)
        self.score.weight = self.item.weight
        nn.init.normal_(self.item.weight, std=0.1)
        if model == "gru":
            self.gru, self.out = nn.GRU(96, 128, batch_first=True), nn.Linear(128, 64)
        else:
            self.into, self.position = nn.Linear(96, 64), nn.Embedding(1000, 64)
            nn.init.normal_(self.position.weight, std=0.1)
            layer = nn.TransformerEncoderLayer(64, 2, 256, 0.0, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(64), False)

    def forward(self, batch: Batch, starts: bool = True) -> Tensor:
        """Return outputs ``(B, T, D)``; the transformer's positions in clips are the user's."""
        x_BTD = torch.cat([getattr(self, key)(x) for key, x in batch.inputs_BT.items()], -1)
        if hasattr(self, "layers"):
            hidden = ~batch.attention_mask().expand(-1, 2, -1, -1).flatten(0, 1)  # 2 heads
            return self.layers(self.into(x_BTD) + self.position(batch.position_BT), hidden)
        if not starts:
            return self.out(self.gru(x_BTD)[0])
        return self.out(batch.from_packed(self.gru(batch.to_packed(x_BTD))[0]))


def make_loader(users: list[User], loader: str, seed: int = 0) -> BlockLoader:
    lengths = [len(user["next"]) for user in users]
    options: dict[str, Any] = {"clips": "all"} if loader == CLIPS else {}
    options |= {"batch_slots": 4 * max(lengths), "seed": seed}
    return BlockLoader(from_dataset(users, lengths, targets="next"), loader.split()[0], **options)


def train(job: tuple, wheel: Path) -> Iterator[tuple[Recommender, BlockLoader, Batch]]:
    """Train epoch after epoch, without end; yield after every step."""
    (_, model, loader, seed, rate), (users, *_, items) = job, read_split(wheel)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    net, batches = Recommender(model, items), make_loader(users, loader, seed)
    optimiser = torch.optim.Adam(net.parameters(), rate)
    for epoch in count():
        batches.set_epoch(epoch)
        for batch in batches:
            scores_FI = net.score(net(batch, loader != NO_STARTS)[batch.valid_BT])
            targets_F = batch.targets_BT[batch.valid_BT]
            optimiser.zero_grad()
            mean_loss(cross_entropy(scores_FI, targets_F, reduction="sum"), batch).backward()
            optimiser.step()
            yield net, batches, batch


@torch.no_grad()
def evaluate(net: Recommender, users: list[User]) -> float:
    """Read whole users; return Recall@20 over all events, in percent."""
    hits, loader = 0, make_loader(users, EXACT)
    for batch in loader:
        for user, _, outputs_ND in unpack(net(batch), batch):
            scores_NI, item_N1 = net.score(outputs_ND), users[user]["item"][:, None]
            rated_NI = torch.zeros_like(scores_NI).scatter_(1, item_N1, 1).cumsum(0) > 0
            next_N1 = scores_NI.gather(1, users[user]["next"][:, None])
            better_count_N = (~(scores_NI < next_N1) & ~rated_NI).sum(1)  # itself, ties, all if NaN
            hits += int((better_count_N <= 20).sum())
    return 100 * hits / int(loader.sampler.lengths.sum())


def run(job: tuple, wheel: Path) -> dict:
    """Train, and return a row.

    Validation is read at the first step to reach each of the points, and the test users once, at
    the end, with the weights of the best of these points.
    """
    users, validation, test, _ = read_split(wheel)
    total, trained, done = EPOCHS * make_loader(users, EXACT).account.frames, 0, 0
    best: tuple[float, int, dict] = (-1.0, 0, {})
    for step, (net, _, batch) in enumerate(train(job, wheel), 1):
        trained += batch.frames_in_step
        if (reached := min(int(trained / total * POINTS + 1e-9), POINTS)) > done:
            done, recall = reached, evaluate(net, validation)
            if recall > best[0]:
                weights = {key: value.clone() for key, value in net.state_dict().items()}
                best = recall, step, weights
        if done == POINTS:
            break
    row = {"run": " ".join(map(str, job)), **dict(zip(JOB, job, strict=True))}
    row |= {"steps": step, "best_step": best[1], "validation": best[0]}
    net.load_state_dict(best[2])
    return row | ({"recall": evaluate(net, test)} if row["stage"] == "final" else {})


def measure_seconds(wheel: Path) -> list[dict]:
    """Train an epoch with each loader in turns; return its processor seconds and lost frames."""
    rows = []
    for turn, (model, loader) in tqdm([*product(range(TURNS), SEEDS)], "seconds"):
        steps = train(("", model, loader, turn, RATES[0]), wheel)
        _, batches, _ = next(steps)  # the first step is slower
        account, began = batches.account, process_time()
        for _ in islice(steps, account.steps):
            pass
        row = {"turn": turn, "model": model, "loader": loader, "seconds": process_time() - began}
        row |= {"padded": account.padding, "deleted": account.deleted, "steps": account.steps}
        rows.append(row)
    return rows


def complete_runs(jobs: list[tuple], wheel: Path) -> pd.DataFrame:
    """Train what has no row yet, two at a time, and return all rows."""
    path = FOLDER / "runs.csv"
    done = {*study.read_rows(path)["run"]} if path.exists() else set()
    todo = [job for job in jobs if " ".join(map(str, job)) not in done]
    with get_context("fork").Pool(2, detach_worker, [0]) as pool:
        runs = pool.imap_unordered(partial(run, wheel=wheel), todo)
        for row in tqdm(runs, jobs[0][0], len(todo)):
            study.write_rows(path, [row], "run")
    return study.read_rows(path)


def search_rates(wheel: Path) -> dict[tuple, float]:
    """Return the best rate by model and loader; if it is at an edge, the grid goes on."""
    best_rate, new_rates = dict.fromkeys(SEEDS, 0.0), {pair: [*RATES] for pair in SEEDS}
    while any(new_rates.values()):
        ways = [(*pair, seed) for pair in SEEDS for seed in SEARCH_SEEDS]
        jobs = [("search", *way, rate) for way in ways for rate in new_rates[way[:2]]]
        rows = complete_runs(jobs, wheel)
        means = rows[rows.stage == "search"].groupby([*PAIR, "rate"]).validation.mean()
        for pair in SEEDS:
            rates, best_rate[pair] = means[pair].index.tolist(), float(means[pair].idxmax())
            outward = {rates[0]: [rates[0] / 2], rates[-1]: [2 * rates[-1]]}
            new_rates[pair] = outward.get(best_rate[pair], [])
    return best_rate


def figures() -> pd.DataFrame:
    """Format all figures, a row per model and loader that was trained."""
    runs, epochs, floor = (study.read_rows(FOLDER / f"{name}.csv") for name in FILES)
    runs = runs[runs.stage == "final"].set_index([*PAIR, "seed"]).sort_index()
    epochs, rows = epochs.groupby(PAIR).mean(numeric_only=True), {}
    for pair in (pair for pair in SEEDS if pair in runs.index.droplevel("seed")):
        seeds, seconds = runs.loc[pair], f"{epochs.seconds[pair]:.1f}"
        row = {key: f"{epochs[key][pair]:,.0f}" for key in ("padded", "deleted")}
        row |= {"seconds": seconds, "rate": f"{seeds.rate.iloc[0]:g}"}
        row["Recall@20, equal frames"] = t_interval(seeds.recall).text()
        if EXACT not in pair and (pair[0], EXACT) in runs.index.droplevel("seed"):
            exact = runs.loc[pair[0], EXACT]
            row["`bload_exact` minus this row"] = signed(exact.recall - seeds.recall)
            row["p"] = ttest_1samp((exact.recall - seeds.recall).dropna(), 0).pvalue
        rows[pair] = row
    table = pd.DataFrame(rows.values(), rows).rename_axis(PAIR)
    if "p" in table:
        chances = table.p["gru"].drop(EXACT)
        chances.update(holm(chances.drop(CLIPS)))  # the primary difference stands alone
        table["p"] = pd.concat({"gru": chances}).map("{:.2g}".format)
    table.loc[("popularity", ""), "Recall@20, equal frames"] = f"{floor.recall[0]:.1f}"
    return table.fillna("")


@exit_on_input_error()
def main() -> None:
    parser = study.make_parser("movielens", __doc__)
    parser.add_argument("wheel", type=Path, nargs="?", help="of the data; measures what is missing")
    if wheel := parser.parse_args().wheel:
        users, _, test, items = read_split(wheel)
        if not (FOLDER / "seconds.csv").exists():
            with get_context("fork").Pool(1, detach_worker, [0]) as pool:
                rows = pool.apply(measure_seconds, [wheel])
            study.write_rows(FOLDER / "seconds.csv", rows)
        rates = search_rates(wheel)
        ways = [(*pair, seed) for pair, seeds in SEEDS.items() for seed in range(seeds)]
        complete_runs([("final", *way, rates[way[:2]]) for way in ways], wheel)
        popularity = Recommender("gru", items)
        counts_I = torch.cat([user["next"] for user in users]).bincount(minlength=items)
        popularity.score.bias.data = counts_I - torch.arange(items) / items  # without ties
        popularity.score.weight.data.zero_()
        study.write_rows(FOLDER / "popularity.csv", [{"recall": evaluate(popularity, test)}])
    table = figures()
    block = study.markdown(table.reset_index().to_numpy(), [*PAIR, *table], words=2)
    study.publish("movielens", block, committed=True)


if __name__ == "__main__":
    main()
