"""Is federating worth it for each of four hospitals? Accuracy beside learning alone, by name.

    python -m benchmarks.hospitals
    python -m benchmarks.hospitals --table
    python -m benchmarks.hospitals --flamby

The problem heart-disease with its defaults: FLamby's cut, logistic regression, batches of 4, 15
rounds of 100 steps of Adam (0.001), each client keeps its best validated model. Test rows are the
same under all seeds; validation rows, initial models and batches differ. What each run ended with
is added to a JSON file at once, so a second call goes on where the first was stopped. Then it
prints tables in Markdown: mean over hospitals, each hospital, and gains over learning alone, paired
by seed, with Student's 95 % intervals. About 2 s of one core per run.

With ``--flamby`` the problem is heart-disease-flamby, the published protocol: no validation rows,
plain steps with the published rates, last models, FLamby's five seeds by number. Ours stand beside
the published figures. The row *pooled* is plain PyTorch: Adam on all training rows, scaled
together, as FLamby has it; each hospital then tests on rows that it scaled itself.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.records import Record, add, key, read_records, row_of, rule_of, spread
from comity.configuration import configure
from comity.datasets.hospitals import FEATURES, HOSPITALS, patients
from comity.problems import DataProblem
from comity.runs.differences import tested
from comity.runs.execute import execute, start_run
from comity.runs.verdict import compare_values

ALONE = "alone"
VARIANTS: dict[str, dict[str, Any]] = {
    ALONE: {"algorithm": "no-communication"},
    "FedAvg": {"algorithm": "fedavg"},
    "FedAdam": {"algorithm": "fedadam"},
    "FedYogi": {"algorithm": "fedyogi"},
    "FedPref": {"algorithm": "fedpref"},
    "Ditto": {"algorithm": "ditto"},
    "FedAvg, guard": {"algorithm": "fedavg", "guard": True},
    "FedAvg, alone_share 0.25": {"algorithm": "fedavg", "alone_share": 0.25},
    "FedAvg, alone_share 0.5": {"algorithm": "fedavg", "alone_share": 0.5},
    "FedPref, alone_share 0.25": {"algorithm": "fedpref", "alone_share": 0.25},
    "FedPref, alone_share 0.5": {"algorithm": "fedpref", "alone_share": 0.5},
    "FedAvg, alone_share 0.5 of twice the steps": {
        "algorithm": "fedavg",
        "alone_share": 0.5,
        "supervised": {"local_steps": 200},
    },
}
"""Rows of the study with our defaults. FedRep is refused: logistic regression has no body."""
POOLED = "pooled"
FLAMBY: dict[str, dict[str, Any]] = {
    ALONE: {"algorithm": "no-communication"},
    "FedAvg": {"algorithm": "fedavg"},
    "FedProx": {"algorithm": "fedprox"},
    "SCAFFOLD": {"algorithm": "scaffold"},
    "FedAdam": {"algorithm": "fedadam"},
    "FedYogi": {"algorithm": "fedyogi"},
    "FedAdagrad": {"algorithm": "fedadagrad"},
    POOLED: {},
    "FedPref": {"algorithm": "fedpref"},
    "Ditto": {"algorithm": "ditto"},
}
"""Rows of the published protocol; the last two take FedAvg's steps and have no published figure."""
PUBLISHED: dict[str, tuple[float, ...]] = {
    ALONE: (0.7462, 0.7461, 0.7250, 0.7022, 0.026),
    "FedAvg": (0.7308, 0.7191, 0.6500, 0.6400, 0.025),
    "FedProx": (0.7308, 0.7191, 0.6500, 0.6400, 0.025),
    "SCAFFOLD": (0.7269, 0.7191, 0.6500, 0.6400, 0.025),
    "FedAdam": (0.7519, 0.7461, 0.7375, 0.6667, 0.012),
    "FedYogi": (0.7596, 0.7528, 0.7375, 0.6756, 0.011),
    "FedAdagrad": (0.7596, 0.7528, 0.7375, 0.6756, 0.011),
    POOLED: (0.7827, 0.7640, 0.7500, 0.6444, 0.003),
}
"""Published accuracy of each hospital, and the spread over seeds of the mean over hospitals.

Means over seeds 42 to 46 of flamby/results/results_benchmark_fed_heart_disease, commits a422b61 and
f553c7a of github.com/owkin/FLamby; their means over hospitals are those printed in the paper.
"""
FIVE = range(42, 47)
RESULTS = Path(__file__).parent / "results"
PARTS = ("validation", "test")
KEYS = ("variant", "seed")


def measured(variant: str, seed: int) -> Record:
    """Return the figures of one run, hospital by hospital."""
    values = {"problem": "heart-disease", "seed": seed, "rounds": 15, **VARIANTS[variant]}
    return executed(variant, values)


def published_protocol(variant: str, seed: int) -> Record:
    """Return the figures of one run of FLamby's protocol, hospital by hospital."""
    if variant == POOLED:
        return {"variant": variant, "seed": seed, "test": pooled(seed)}
    return executed(variant, {"problem": "heart-disease-flamby", "seed": seed, **FLAMBY[variant]})


def pooled(seed: int) -> list[float]:
    """Return accuracies of logistic regression on all training rows: 50 epochs of Adam (0.001)."""
    everybody = patients()
    inputs, ill = torch.from_numpy(everybody.inputs), torch.from_numpy(everybody.ill).float()
    train = torch.from_numpy(~everybody.test)
    learned = inputs[train]
    scaled, labels = (learned - learned.mean(0)) / learned.std(0), ill[train]
    torch.manual_seed(seed)
    model = nn.Linear(len(FEATURES), 1)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(50):
        for rows in torch.randperm(len(scaled)).split(4):
            optimiser.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(scaled[rows])[:, 0], labels[rows])
            loss.backward()
            optimiser.step()
    problem = configure({"problem": "heart-disease-flamby"}).get_problem()
    assert isinstance(problem, DataProblem)
    with torch.inference_mode():
        yes = (model(problem.columns()["inputs"])[:, 0] > 0).float()
    right = (yes == ill).numpy()
    return [float(right[rows.test].mean()) for rows in problem.client_rows()]


def executed(variant: str, values: Mapping[str, Any]) -> Record:
    """Execute a run and return its figures."""
    with tempfile.TemporaryDirectory() as directory:
        run = execute(start_run(values, Path(directory) / "run"))
        results, kept = run.results, {}
        for entry in run.history:
            kept |= dict(zip(entry["clients"], entry["kept"] or (), strict=False))
    clients = results["per_client"]
    last = [client.get("objectives_last", client["objectives"]) for client in clients]
    return {
        "variant": variant,
        "seed": values["seed"],
        "hospitals": [client["name"] for client in clients],
        "test": [client["objectives"]["accuracy"] for client in clients],
        "validation": [kept[client["client"]][0] for client in clients],
        "last": [objectives["accuracy"] for objectives in last],
        "trivial": [client["trivial"] for client in clients],
        "keeps": [client["alone"]["keeps"] for client in clients if "alone" in client],
    }


def by_variant(records: Sequence[Record]) -> dict[str, dict[int, Record]]:
    """Return records by variant and seed."""
    runs: dict[str, dict[int, Record]] = {}
    for record in records:
        runs.setdefault(record["variant"], {})[record["seed"]] = record
    return runs


def published_tables(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of the tables of the published protocol: ours, published, gains."""
    runs, hospitals = by_variant(records), list(HOSPITALS.values())
    heads = [part for name in ("mean over hospitals", *hospitals) for part in (name, "published")]
    yield row_of(["accuracy on test rows", *heads])
    yield rule_of(1 + len(heads))
    for variant, of_seeds in runs.items():
        test = np.array([record["test"] for record in of_seeds.values()])
        *printed, deviation = PUBLISHED.get(variant, (None,) * (len(hospitals) + 1))
        mean = "–"
        if deviation is not None:
            mean = f"{np.mean(printed):.3f} ± {deviation:.3f}"  # type: ignore[arg-type]
        cells = [spread(test.mean(axis=1)), mean]
        for column, value in zip(test.T, printed, strict=True):
            cells += [spread(column), "–" if value is None else f"{value:.3f}"]
        yield row_of([variant, *cells])
    yield ""
    heads = ["gain over alone, test rows", "mean over hospitals", "published", *hospitals]
    yield row_of(heads)
    yield rule_of(len(heads))
    for variant, of_seeds in runs.items():
        if variant != ALONE:
            mean, *each = _gains(of_seeds, runs[ALONE], "test")
            printed_gain = "–"
            if variant in PUBLISHED:
                ends = [np.mean(PUBLISHED[name][:-1]) for name in (variant, ALONE)]
                printed_gain = f"{ends[0] - ends[1]:+.3f}"
            yield row_of([variant, mean, printed_gain, *each])
    yield ""
    yield row_of(["on average over seeds", "better off than alone", "worse off"])
    yield rule_of(3)
    for variant, of_seeds in runs.items():
        if variant != ALONE:
            pair = [
                np.mean([r["test"] for r in which.values()], axis=0)
                for which in (of_seeds, runs[ALONE])
            ]
            signs = np.sign(np.round(pair[0] - pair[1], 6))
            names = (
                ", ".join(name for name, sign in zip(hospitals, signs, strict=True) if sign == want)
                for want in (1, -1)
            )
            yield row_of([variant, *(name or "nobody" for name in names)])


def tables(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of all tables."""
    runs = by_variant(records)
    hospitals = records[0]["hospitals"]
    yield row_of(["accuracy on test rows", "last", "kept", *(f"{h}, kept" for h in hospitals)])
    yield rule_of(3 + len(hospitals))
    yield row_of(["constant answer", "–", "–", *(f"{v:.3f}" for v in records[0]["trivial"])])
    for variant, of_seeds in runs.items():
        test, last = (np.array([r[part] for r in of_seeds.values()]) for part in ("test", "last"))
        columns = (last.mean(axis=1), test.mean(axis=1), *test.T)
        yield row_of([variant, *map(spread, columns)])
    for part in PARTS:
        yield ""
        heads = (f"{hospital} ({part})" for hospital in hospitals)
        yield row_of([f"gain over alone, {part} rows", "mean over hospitals", *heads])
        yield rule_of(2 + len(hospitals))
        for variant, of_seeds in runs.items():
            if variant != ALONE:
                yield row_of([variant, *_gains(of_seeds, runs[ALONE], part)])
    yield ""
    yield row_of(["runs in which it keeps its companion", *hospitals])
    yield rule_of(1 + len(hospitals))
    for variant, of_seeds in runs.items():
        chosen = [record["keeps"] for record in of_seeds.values() if record["keeps"]]
        if chosen:
            counts = (np.array(chosen) == "alone").sum(axis=0)
            yield row_of([variant, *(f"{count} of {len(chosen)}" for count in counts)])


def _gains(ours: Mapping[int, Record], alone: Mapping[int, Record], part: str) -> Iterator[str]:
    """Yield the gain of the mean over hospitals, and of each hospital."""
    seeds = [seed for seed in ours if seed in alone]
    pairs = [np.array([runs[seed][part] for seed in seeds]) for runs in (ours, alone)]
    yield _gain(pairs[0].mean(axis=1), pairs[1].mean(axis=1))
    for mine, lone in zip(*(pair.T for pair in pairs), strict=True):
        yield _gain(mine, lone)


def _gain(ours: Any, alone: Any) -> str:
    """Return mean, interval, and seeds that are better/level/worse."""
    each = np.round(ours - alone, 6)
    signs = [compare_values(one, other) for one, other in zip(ours, alone, strict=True)]
    counts = "/".join(str(signs.count(sign)) for sign in (1, 0, -1))
    interval, _ = tested(each)
    around = "" if interval is None else f" ({interval[0]:+.3f} to {interval[1]:+.3f})"
    return f"{each.mean():+.3f}{around} {counts}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--table", action="store_true", help="run nothing, print what there is")
    parser.add_argument("--flamby", action="store_true", help="the published protocol, 5 seeds")
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    file = options.file or RESULTS / f"hospitals{'-flamby' * options.flamby}.json"
    variants, measure = (FLAMBY, published_protocol) if options.flamby else (VARIANTS, measured)
    seeds = FIVE if options.flamby else range(1, options.seeds + 1)
    records = read_records(file)
    done = {key(record, KEYS) for record in records}
    for variant in () if options.table else variants:
        for seed in seeds:
            if (variant, seed) not in done:
                add(measure(variant, seed), records, file)
    print("\n".join((published_tables if options.flamby else tables)(records)))


if __name__ == "__main__":
    main()
