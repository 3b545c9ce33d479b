"""The printed tables and pictures of pFedRLLA and ConFREE: rows, columns and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from comity.reproductions.printed import read_printed

DATA = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "omniglot": "Omniglot",
    "flowers102": "Flowers102",
}
"""Printed name by problem, of problems with the papers' pictures and network; others stand in."""
PRINTED_DATA = (*DATA.values(), "MNIST*")
MNIST = dict.fromkeys(("digits-domains", "digits-domains-bn", "digits-domains-mlp"), "MNIST*")
"""Problems that stand in for MNIST*, whatever the table."""

ACCURACY = {"accuracy": "test_accuracy_percent"}
BEFORE_AND_AFTER = {
    "before": "accuracy_before_personalisation",
    "after": "accuracy_after_personalisation",
    "accuracy": "",
}
TIMES = {
    "seconds": "total_time_500_rounds_s",
    "seconds_per_round": "time_per_iteration_s",
    "seconds_to_stable": "convergence_time_s",
    "accuracy_when_stable": "accuracy_at_convergence",
}


@dataclass(frozen=True)
class Printed:
    """A printed table or picture: a comparison over rows, for each partition and setting."""

    title: str
    rows: Mapping[str, str]
    """Entry of a comparison by row; ``{alone}`` and ``{transferred}`` are filled in."""
    files: tuple[str, ...] = ()
    """CSV files; none: the paper has only a picture."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Printed algorithm by row."""
    setting: str = "{partition}"
    """Printed setting, by partition, its short form, row and what is varied."""
    data: str = "CIFAR-10"
    """Printed data set that problems stand in for that are not printed."""
    measures: Mapping[str, str] = field(default_factory=lambda: dict(ACCURACY))
    """Printed metric by our measure; empty where it is not printed."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Partitions by printed data set; under ``""`` those of problems that stand in."""
    varied: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of the settings that are varied."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings in which the table differs from the protocol."""
    across: str | None = None
    """Setting on the horizontal axis of our picture; None: rows side by side."""
    pretrained: bool = True
    """Whether pFedRLLA's agent is trained first."""
    seeds: int = 3
    note: str = ""
    """Gaps in our knowledge of the printed table."""

    def partitions_of(self, problem: str) -> tuple[str, ...]:
        """Return the partitions of a problem; of one whose clients are given, only theirs."""
        given = problem.removesuffix("-mlp").removesuffix("-bn") in ("digits-domains", "omniglot")
        if given and self.across != "alpha":
            return ("natural",)
        return self.partitions.get(DATA.get(problem, ""), self.partitions[""])


HOSTS = {
    "no-communication": "Local-only",
    "fedavg": "FedAvg",
    "fedavg+ft": "FedAvg+FT",
    "ditto": "Ditto",
    "apfl": "APFL",
    "fedrep": "FedRep",
    "fedbabu": "FedBABU",
    "fedamp": "FedAMP",
    "fedfomo": "FedFomo",
    "fedphp": "FedPHP",
    "fedpac": "FedPAC",
    "fedala": "FedALA",
    "pfedrlla": "pFedRLLA",
    "fedprox": "FedProx",
}
_ENTRIES = {
    "no-communication": "no-communication[participation=1,rounds={alone}]",
    "fedavg": "fedavg[fine_tune=none]",
    "fedavg+ft": "fedavg[fine_tune=extra:1]",
}


def _rows(names: str) -> dict[str, str]:
    return {name: _ENTRIES.get(name, name) for name in names.split()}


def _rules(names: Mapping[str, str]) -> dict[str, str]:
    """Return rows of rules for body and head as entries of pfedrlla."""
    pairs = {row: row.split("/") for row in names if "/" in row}
    rules = {row: f"pfedrlla[body={body},head={head}]" for row, (body, head) in pairs.items()}
    return {row: rules.get(row, row) for row in names}


TABLE_1 = "pfedrlla_table_1_accuracy.csv"
_THREE = ("pathological:2", "pathological:5", "dirichlet:0.1")
_CLASSES = {
    "": ("pathological:2", "pathological:5", "pathological:10"),
    "CIFAR-100": ("pathological:10", "pathological:50", "pathological:100"),
}
_FIVE = {"": ("pathological:5",)}
_PARTS_2 = {
    "fedavg": "None (FedAvg)",
    "weighted/mean": "Body",
    "mean/agent": "Head",
    "weighted/agent": "Both (pFedRLLA)",
    "agent/agent": "DRL whole net",
}
_PARTS_7 = {
    "weighted/mean": "weighted body",
    "mean/weighted": "weighted head",
    "weighted/weighted": "weighted both",
    "agent/mean": "personalised body",
    "mean/agent": "personalised head",
    "agent/agent": "personalised both",
    "weighted/agent": "pFedRLLA",
}
_REWARDS = [
    *("0-1-2", "5-1-2", "10-1-2", "1-0-2", "1-5-2", "1-10-2"),
    *("1-1-0", "1-1-5", "1-1-10", "1-1-2"),
]
_BEST = "fedavg+ft ditto fedbabu fedpac"
"""The baselines that are the best ones of a printed column."""
_CONFREE_HOSTS = {
    "apfl": "APFL",
    "fedrod": "FedROD",
    "fedrep": "FedRep",
    "fedcp": "FedCP",
    "fedala": "FedALA",
    "fedpac": "FedPAC",
}
CONTROL = "scaled-mean"
_CONFREE_NAMES = {
    host + wrapper: name + shown
    for host, name in _CONFREE_HOSTS.items()
    for wrapper, shown in (("", ""), ("+confree", "+ConFREE"), (f"+{CONTROL}", " (control)"))
}


def _rewarded(row: str) -> str:
    score, gain, likeness = row.split("-")
    return f"pfedrlla[score_reward={score},gain_reward={gain},likeness_reward={likeness}]"


TABLES = {
    "pfedrlla-1": Printed(
        "pFedRLLA and its baselines: accuracy",
        _rows(" ".join(name for name in HOSTS if name != "fedprox")),
        (TABLE_1,),
        HOSTS,
        partitions={
            "": _THREE,
            "CIFAR-10": (*_THREE, "dirichlet:1"),
            "CIFAR-100": ("pathological:5", "pathological:20", "dirichlet:0.1"),
        },
    ),
    "pfedrlla-2": Printed(
        "pFedRLLA's rules for body/head: accuracy before and after the last pass",
        _rules(_PARTS_2),
        ("pfedrlla_table_2_ablation.csv",),
        _PARTS_2,
        data="CIFAR-100",
        measures=BEFORE_AND_AFTER,
        partitions=_CLASSES,
    ),
    "pfedrlla-3": Printed(
        "pFedRLLA and baselines with 1 or 5 local passes: accuracy",
        _rows("fedavg fedavg+ft apfl fedbabu fedala pfedrlla"),
        ("pfedrlla_table_3_local_epochs.csv",),
        HOSTS,
        setting="{short};local_epochs={local_epochs}",
        partitions={"": ("pathological:5", "dirichlet:0.1")},
        varied={"local_epochs": (1, 5)},
    ),
    "pfedrlla-4": Printed(
        "pFedRLLA and baselines: seconds, in all and until the accuracy is stable",
        _rows("fedavg fedprox ditto apfl fedbabu fedfomo fedamp fedphp pfedrlla"),
        ("pfedrlla_table_4_time.csv",),
        HOSTS,
        setting="500 rounds, lr 0.01",
        measures=TIMES,
        note="Its partition is not printed; its accuracies are those of pathological:5",
        partitions=_FIVE,
    ),
    "pfedrlla-5": Printed(
        "pFedRLLA's weights of the rewards (score, gain, likeness): accuracy",
        {row: _rewarded(row) for row in _REWARDS},
        ("pfedrlla_table_5_reward_beta.csv",),
        dict.fromkeys(_REWARDS, "pFedRLLA"),
        setting="{partition};beta1-beta2-beta3={row}",
        partitions=_FIVE,
        pretrained=False,
    ),
    "pfedrlla-6": Printed(
        "pFedRLLA's agent trained on another data set: accuracy",
        {**_rows(f"{_BEST} pfedrlla"), "pfedrlla-transferred": "pfedrlla[agent={transferred}]"},
        ("pfedrlla_table_6_transfer.csv", TABLE_1),
        {**HOSTS, "pfedrlla-transferred": 'pFedRLLA agent pre-trained on CIFAR-10 s=2 ("new")'},
        data="CIFAR-100",
        partitions={"": ("pathological:5", "dirichlet:0.1")},
    ),
    "pfedrlla-7": Printed(
        "All rules for pFedRLLA's body/head: accuracy before and after the last pass",
        _rules(_PARTS_7),
        ("pfedrlla_table_7_ablation_full.csv",),
        _PARTS_7,
        data="CIFAR-100",
        measures=BEFORE_AND_AFTER,
        partitions=_CLASSES,
    ),
    "pfedrlla-8": Printed(
        "pFedRLLA without a trained agent: accuracy",
        {**_rows(f"{_BEST} pfedrlla"), "pfedrlla-new": 'pfedrlla[agent=""]'},
        ("pfedrlla_table_8_no_pretrain.csv", TABLE_1),
        {**HOSTS, "pfedrlla-new": 'pFedRLLA without pre-training ("new")'},
        partitions={
            "": ("pathological:2", "pathological:5"),
            "CIFAR-100": ("pathological:5", "pathological:20"),
        },
    ),
    "pfedrlla-fig-5": Printed(
        "pFedRLLA and baselines by selection ratio (the paper has a picture): accuracy",
        _rows("fedavg fedavg+ft fedbabu fedphp fedala pfedrlla"),
        partitions={"": ("pathological:5", "dirichlet:0.1")},
        varied={"participation": (0.1, 0.25, 0.5)},
        across="participation",
        seeds=1,
    ),
    "confree-2": Printed(
        "Six hosts, with ConFREE, and with its control scaled-mean: accuracy",
        {row: row for row in _CONFREE_NAMES},
        ("confree_table_2.csv",),
        _CONFREE_NAMES,
        setting="clients={clients};participation={participation:.0%}",
        data="CIFAR-100",
        partitions=_FIVE,
        varied={"clients": (20, 60), "participation": (0.3, 0.6)},
        note="The poster does not say how its classes are dealt out",
    ),
    "confree-fig-1": Printed(
        "ConFREE by participation (the poster has a picture): accuracy",
        {row: row for row in _CONFREE_NAMES},
        data="CIFAR-100",
        partitions=_FIVE,
        varied={"participation": (0.1, 0.3, 0.6, 1.0)},
        fixed={"clients": 20},
        across="participation",
        seeds=1,
    ),
    "confree-fig-2": Printed(
        "ConFREE by heterogeneity (the poster has a picture): accuracy",
        {row: row for row in _CONFREE_NAMES},
        data="CIFAR-100",
        partitions={"": ("dirichlet:0.1", "dirichlet:0.3", "dirichlet:1")},
        fixed={"clients": 20, "participation": 0.3},
        across="alpha",
        seeds=1,
    ),
}

Key = tuple[str, str, str, str]
"""Printed data set, setting, algorithm and metric."""


def printed(table: str) -> dict[Key, float]:
    """Return all printed figures of a table that belong to its rows; accuracies are shares."""
    about = TABLES[table]
    names = {about.names[row] for row in about.rows if row in about.names}
    return {
        (data, row["setting"], row["algorithm"], row["metric"]): round(
            mean / (100 if row["metric"].endswith("_percent") else 1), 6
        )
        for file in about.files
        for data in PRINTED_DATA
        for row, (mean, _) in read_printed(file, data)
        if row["algorithm"] in names and row["metric"] in about.measures.values()
    }


def printed_key(table: str, row: str, measure: str, part: Mapping[str, Any], data: str) -> Key:
    """Return what a figure of ours is called in print.

    Args:
        table: One of `TABLES`.
        row: One of its rows.
        measure: One of its measures.
        part: Partition and what is varied.
        data: The printed data set.
    """
    about = TABLES[table]
    kind, _, value = part["partition"].partition(":")
    short = {"pathological": f"s={value}", "dirichlet": f"alpha={value}"}.get(kind, "users")
    words = {**part, "partition": f"{kind} {short}", "short": short, "row": row}
    setting = about.setting.format(**words)
    return data, setting, about.names.get(row, ""), about.measures[measure]
