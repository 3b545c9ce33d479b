"""The tables and pictures of pFedRLLA and ConFREE on pictures: `comity reproduce pfedrlla-1`.

By default on USPS with the papers' CNN, in a protocol that two cores can afford: that of pFedRLLA
(100 clients, a tenth of them per round) with 60 rounds instead of 500. Clients that learn alone all
train in each of 40 rounds: several times the work of a client in a federation, after which their
accuracy no longer rises. A printed figure stands beside ours only where pictures, network,
partition, clients and participation are the printed ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from comity.configuration import RUN_SETTINGS
from comity.errors import UserError
from comity.problems import find as find_problem
from comity.problems.images import ImageProblem
from comity.reproductions.agents import trained_agent
from comity.reproductions.campaign import RUNS, Campaign
from comity.reproductions.picture_results import part_rows, set_beside
from comity.reproductions.picture_tables import DATA, MNIST, TABLES
from comity.reproductions.printed import Needs, choose_rows
from comity.runs.compare import Comparison, configurations, seed_list
from comity.runs.entries import merge
from comity.runs.events import Notify
from comity.runs.reproduction_schema import PictureResults

CLIENTS: dict[str, dict[str, Any]] = {"omniglot": {"clients": 20, "participation": 0.2}}
"""Clients and participation of problems for which the papers have their own."""
PROTOCOL: dict[str, Any] = {
    "clients": 100,
    "participation": 0.1,
    "fine_tune": "extra:1",
    "evaluate_every": 5,
    "global_test": 0,
}
LEARNING: dict[str, Any] = {"rounds": 60, "supervised": {"learning_rate": 0.05}}
"""Rounds and learning, in place of which a preset may stand."""
AGENT = {"warmup": 15, "every": 1, "agent_steps": 20}
"""Settings of pFedRLLA for runs as short as these."""
ALONE, PRETRAINING = 40, 60
PRETRAINING_SEED = 0
"""Another seed than those of the runs in which the agent is used."""

RUN_HOURS = {
    "usps": 20 / 3600,
    "digits-domains": 120 / 3600,
    "cifar10-small": 90 / 3600,
    "cifar10": 1100 / 3600,
}
"""CPU hours of a host's run with 100 clients, a tenth per round, 60 rounds: measured but for the
last, which is extrapolated from the number of pictures."""
_COSTLY = {"no-communication": 3.5, "pfedrlla": 2.3}
"""Measured cost of a run relative to that of other algorithms."""


def plan(
    table: str,
    *,
    only: str = "usps",
    seeds: int | Sequence[int] | None = None,
    rows: Sequence[str] | None = None,
    alone: int = ALONE,
    pretraining: int = PRETRAINING,
    target: float | None = None,
    **settings: Any,
) -> Campaign[Comparison]:
    """Plan a table on a problem with pictures: one comparison per partition and varied setting.

    Args:
        table: One of `TABLES`.
        only: The problem.
        seeds: Number of seeds, or the seeds; None: three, of a picture one.
        rows: Some of the table's rows; None: all.
        alone: Rounds of clients that learn alone, all of them in every round.
        pretraining: Rounds in which pFedRLLA's agent learns first; 0: it starts from nothing.
        target: Validation accuracy whose first round is tabulated; None: the highest that all runs
            of a comparison reach.
        **settings: Settings of all runs: ``partition`` for one partition only, others in place of
            the protocol's; with a ``preset`` its rounds and learning are those of the protocol.
    """
    about = TABLES[table]
    if not isinstance(find_problem(only), ImageProblem):
        raise UserError(f"only = {only}: {table} needs a problem with pictures, such as usps.")
    for name, least, value in (("alone", 1, alone), ("pretraining", 0, pretraining)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UserError(f"{name} = {value}: must be a whole number of rounds, {least} or more.")
    chosen = {row: about.rows[row] for row in choose_rows(rows, about.rows)}
    partitions = _partitions(table, only, settings)
    common = _common(table, only, chosen, settings)
    fixed: dict[str, Any] = {"problem": only, "seeds": seed_list(seeds or about.seeds)}
    if target is not None:
        fixed["target"] = target
    parts = {
        _directory(part): part
        for partition in partitions
        for values in product(*about.varied.values())
        for part in [{"partition": partition, **dict(zip(about.varied, values, strict=True))}]
    }
    plans = {
        name: {**merge(common, _settings(part)), **fixed, "algorithms": list(chosen.values())}
        for name, part in parts.items()
    }
    agents = _agents(table, only, chosen, common, settings, pretraining)

    def prepare(path: Path, notify: Notify | None) -> dict[str, dict[str, Any]]:
        for values in plans.values():  # a mistake must show before an agent is trained
            _check(values, alone)
        files = {
            name: trained_agent(path / f"{name}.safetensors", values, notify)
            for name, values in agents.items()
        }
        own = {"pfedrlla": {"agent": files["agent"]}} if "agent" in files else {}
        entries = [_entry(entry, path, alone) for entry in chosen.values()]
        return {
            name: {**merge(values, own), "algorithms": entries} for name, values in plans.items()
        }

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        results: PictureResults = {
            "table": table,
            "title": about.title,
            "problem": only,
            "stands_in_for": None if only in DATA else MNIST.get(only, about.data),
            "measures": list(about.measures),
            "across": about.across,
            "varied": list(about.varied),
            "protocol": {
                **{name: value for name, value in common.items() if name != "evaluate_every"},
                **({"alone": alone} if "no-communication" in chosen else {}),
                **{name: values["rounds"] for name, values in agents.items()},
            },
            "rows": [
                row
                for name, comparison in comparisons.items()
                for row in part_rows(
                    table,
                    {
                        row: _entry(entry, comparison.path.parent, alone)
                        for row, entry in chosen.items()
                    },
                    parts[name],
                    comparison,
                    target,
                )
            ],
            "note": about.note,
            "printed_elsewhere": [],
        }
        usual = {**PROTOCOL, **CLIENTS.get(only, {}), **about.fixed}
        set_beside(results, {name: usual[name] for name in ("clients", "participation")})
        return dict(results)

    checked = {*fixed, *common, *(name for part in parts.values() for name in _settings(part))}
    return Campaign(RUNS, f"{table}-{only}", plans, tabulate, checked, prepare=prepare)


def needs(table: str) -> Needs:
    """Return contents and cost of a table."""
    about = TABLES[table]
    hours = {}
    for problem, cost in RUN_HOURS.items():
        campaign = plan(table, only=problem)
        weights = [
            _COSTLY.get(entry.partition("[")[0], 1.0)
            * (1.0 if "participation=1" in entry else values["participation"] / 0.1)
            * values["supervised"].get("local_epochs", 1)
            for values in campaign.plans.values()
            for entry in values["algorithms"]
        ]
        agents = about.pretrained and _has_agent(about.rows)
        hours[problem] = cost * (sum(weights) * about.seeds + agents * _COSTLY["pfedrlla"])
    return Needs(about.title, hours, about.seeds)


# -- the plan ------------------------------------------------------------------------------


def _partitions(table: str, problem: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the partitions of a table, or the one asked for; refuse settings that it varies."""
    about = TABLES[table]
    own = {*about.varied, *(["partition"] if about.across == "alpha" else [])}
    learning = settings.get("supervised")
    given = {*settings, *(learning if isinstance(learning, Mapping) else ())}
    for name in sorted(own & given):
        raise UserError(f"{name}: {table} has its own; leave it out.")
    if "preferences" in settings:
        raise UserError("preferences mean nothing here: there is one objective.")
    if "partition" in settings:
        return (str(settings["partition"]),)
    return about.partitions_of(problem)


def _common(
    table: str, problem: str, rows: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that all runs of a table share: the protocol's, and those given."""
    about = TABLES[table]
    protocol = {**PROTOCOL, **CLIENTS.get(problem, {}), **about.fixed}
    if "preset" not in settings:
        protocol |= LEARNING
        if _has_agent(rows):
            protocol["pfedrlla"] = AGENT
    varied = {"partition", *about.varied}
    common = merge(protocol, {k: v for k, v in settings.items() if k != "partition"})
    return {name: value for name, value in common.items() if name not in varied}


def _settings(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a part of a table as those of a run."""
    values = dict(part)
    if "local_epochs" in values:
        values["supervised"] = {"local_epochs": values.pop("local_epochs")}
    return values


def _directory(part: Mapping[str, Any]) -> str:
    """Return the directory of a part: pathological-5_local_epochs-1."""
    words = [f"{name}-{value}" for name, value in part.items() if name != "partition"]
    return "_".join([part["partition"].replace(":", "-"), *words])


def _entry(entry: str, path: Path, alone: int) -> str:
    """Return an entry of a comparison in a campaign's directory."""
    return entry.format(alone=alone, transferred=(path / "transferred.safetensors").absolute())


def _has_agent(rows: Mapping[str, str]) -> bool:
    return any(entry.startswith("pfedrlla") for entry in rows.values())


def _agents(
    table: str,
    problem: str,
    rows: Mapping[str, str],
    common: Mapping[str, Any],
    settings: Mapping[str, Any],
    rounds: int,
) -> dict[str, dict[str, Any]]:
    """Return the settings of the runs in which agents learn first, by name of the file."""
    transferred = any("{transferred}" in entry for entry in rows.values())
    if not TABLES[table].pretrained or not rounds or not _has_agent(rows):
        if transferred or "pfedrlla-new" in rows:
            raise UserError(f"pretraining = {rounds}: {table} is about an agent trained before.")
        return {}
    shared = {
        name: value
        for name, value in common.items()
        if name in RUN_SETTINGS or name == "supervised"
        if name not in ("fine_tune", "evaluate_every")
    }
    shared = {"clients": PROTOCOL["clients"], "participation": PROTOCOL["participation"], **shared}
    shared |= {"rounds": rounds, "seed": PRETRAINING_SEED, "evaluate_every": 0}
    shared["pfedrlla"] = settings.get("pfedrlla", {})
    natural = TABLES[table].partitions_of(problem) == ("natural",)
    other = "natural" if natural else f"pathological:{10 if problem == 'cifar100' else 4}"
    agents = {"agent": {**shared, "problem": problem, "partition": other}}
    if transferred:
        elsewhere = {"problem": _source(problem), "partition": "pathological:2"}
        agents["transferred"] = {**shared, **elsewhere}
    return agents


def _source(problem: str) -> str:
    """Return the problem on which an agent learns that is used on another."""
    if problem in DATA and problem != "cifar10":
        return "cifar10"
    return "usps" if problem.startswith("cifar10") else "cifar10-small"


def _check(values: Mapping[str, Any], alone: int) -> None:
    """Refuse a comparison with a mistake; agents that are not trained yet are left out."""
    named = ("problem", "algorithms", "seeds", "target")
    entries = [
        _entry(entry.partition("[agent=")[0], Path(), alone) for entry in values["algorithms"]
    ]
    plan = {name: values[name] for name in named if name in values}
    settings = {name: value for name, value in values.items() if name not in named}
    unique = list(dict.fromkeys(entries))
    configurations(
        {**plan, "algorithms": unique, "preferences": ["dirichlet"], "settings": settings}
    )


__all__ = ["TABLES", "needs", "plan"]
