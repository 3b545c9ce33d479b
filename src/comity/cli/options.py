"""Options that commands share, and the values of their texts. Heavy imports happen inside.

Settings of runs and searches that have an option of their own stand in two tables, by name. They
repeat the declarations of `Configuration` and `SearchSettings`, whose modules import torch: help
must not. A test keeps both in step.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import wraps
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from comity.errors import UserError

if TYPE_CHECKING:
    from comity.callbacks import Callback


class SettingOption(NamedTuple):
    """The option of a setting."""

    type: Any
    """Type of its value."""
    help: str
    """Meaning, for ``--help``."""
    flag: str | None = None
    """Its name on the command line, if not that of the setting."""


RUN = {
    "algorithm": SettingOption(
        str, "What is federated about it; see: list algorithms. Or module:class."
    ),
    "preset": SettingOption(str, "The papers' settings by name; see: list presets."),
    "clients": SettingOption(int, "Number of clients."),
    "names": SettingOption(str, "Names of the clients, in their order: north,south,west."),
    "rounds": SettingOption(int, "Number of rounds: clients train, the server mixes."),
    "seed": SettingOption(int, "Where all random numbers come from."),
    "preferences": SettingOption(
        str, "How preferences are distributed, or a CSV file; see: list preferences."
    ),
    "partition": SettingOption(
        str,
        "How data are dealt: stratified, naive, dirichlet:0.3, pathological:2, shards:2, natural.",
    ),
    "sizes": SettingOption(str, "How much data clients have: equal, dirichlet:2 or 3,2,1."),
    "split_ratio": SettingOption(str, "Parts for training, validation and test: 70:10:20."),
    "participation": SettingOption(float, "Share of clients that take part in a round."),
    "topology": SettingOption(
        str, "star: a server mixes; neighbours: each client mixes what it heard, without a server."
    ),
    "graph": SettingOption(str, "With neighbours, who hears whom: complete, ring:2 or random:0.3."),
    "keep": SettingOption(
        str, "best or last: each client's best validated model, or that of the last round."
    ),
    "guard": SettingOption(bool, "Clients decline mixed models that serve them worse."),
    "alone_share": SettingOption(
        float, "Share of a client's steps for a model of its own; it keeps the better one."
    ),
    "fine_tune": SettingOption(
        str, "none; replace-last: no mixing in the last round; extra:K: K more rounds' training."
    ),
    "attack": SettingOption(
        str, "A scenario: sign-flip:3, scale:1,factor=100, size:1 … of clients drawn at random."
    ),
    "encoding": SettingOption(
        str, "How models travel: none (whole), or what changed: exact, float16, int8, int4."
    ),
    "device": SettingOption(
        str, "Where models train and are mixed: cpu, cuda, cuda:1, mps, or auto, the best."
    ),
    "wrapper": SettingOption(
        str,
        "Rules on top of the server's step, in order: clip, confree, geometric-median …; see: "
        "list taxonomy.",
        flag="--with",
    ),
}
"""Settings of a run."""

LINKS = {
    "contacts": SettingOption(
        str, "A contact plan (CSV): links that exist at times only; see: plan.", flag="--links"
    ),
    "collect": SettingOption(
        str, "With --links, when the server mixes: all, count:5/12h or every:6h."
    ),
}
"""Settings of links that have an option."""

PASSES = {
    "days": SettingOption(float, "Length of the plan."),
    "start": SettingOption(str, "Its beginning (2026-03-01T12:00); default: the newest epoch."),
    "uplink": SettingOption(int, "Bit/s from a station to a satellite."),
    "downlink": SettingOption(int, "Bit/s from a satellite to a station or satellite."),
    "mask": SettingOption(float, "Least elevation above the horizon in degrees."),
    "between": SettingOption(bool, "Contacts between satellites, too."),
    "reach": SettingOption(float, "Largest distance between satellites in km."),
}
"""Settings of the passes of satellites."""

SEARCH = {
    "generator": SettingOption(
        str, "annealing, gap, grid or random; several, or with settings in brackets: a comparison."
    ),
    "iterations": SettingOption(int, "How often weights are proposed."),
    "candidates": SettingOption(int, "Weights per iteration."),
    "evaluations": SettingOption(int, "Stop after this number of candidates."),
    "stall": SettingOption(int, "Stop after this number of iterations without gain."),
    "warm_start": SettingOption(bool, "Start from the model of the nearest solved weight."),
    "spread": SettingOption(bool, "Each client carries a weight of its own."),
    "harvest": SettingOption(bool, "Evaluate the server's models of every round, too."),
    "control": SettingOption(bool, "Run the same search with random weights beside it."),
}
"""Settings of a search."""

SEARCH_FEDERATION = {
    "algorithm": SettingOption(
        str, "What trains each candidate; see: list algorithms. Or module:class."
    ),
    "clients": SettingOption(int, "Clients of each candidate."),
    **{name: RUN[name] for name in ("rounds", "seed", "keep", "encoding", "device")},
}
"""Settings of the federations of a search."""

TUNE = {
    "trials": SettingOption(
        int, "Number of trials, the settings as they are (trial 0) included; default: 20."
    ),
    "objectives": SettingOption(
        list[str],
        "What is good, on validation data: mean_scalarised (default), worst_scalarised, "
        "hypervolume, an objective of the problem or megabytes; may be repeated.",
        flag="--objective",
    ),
    "sampler": SettingOption(
        Literal["tpe", "random", "grid"],
        "tpe: by the trials before; random; grid: all combinations.",
    ),
    "batch": SettingOption(int, "With tpe, trials that are proposed together."),
    "seed": SettingOption(int, "Where the proposals' random numbers come from."),
}
"""Settings of a tuning."""

OVER = {
    "over": SettingOption(
        Path, "A TOML file: choices or a range per setting; default: the papers' grid."
    ),
}
"""Option for what a tuning tries; not a setting of its runs."""

FIGURES = {
    "figures": SettingOption(Literal["png", "pdf", "svg"], "Pictures as pdf or svg, too."),
}
"""Option for the format of pictures; not a setting of the run."""

LOG = {
    "log": SettingOption(
        list[str],
        "Log each round: jsonl:FILE, tensorboard:DIRECTORY, mlflow[:EXPERIMENT] or "
        "wandb[:PROJECT]; may be repeated.",
    ),
}
"""Option for loggers; not a setting of the run."""

CHARTER = {
    "charter": SettingOption(Path, "Simulate the session of a charter, exactly as it is."),
    "site": SettingOption(list[Path], "With --charter: a site file with rows; may be repeated."),
}
"""Options for the simulation of a charter; not settings of the run."""

COMPARED = {
    "attacks": SettingOption(
        str, "Each algorithm under each of these: none,sign-flip:3,scale:1,factor=100."
    ),
    "encodings": SettingOption(str, "Each algorithm under each of these: none,exact,int8,int4."),
}
"""Options of a comparison that multiply its entries."""

Problem = Annotated[str | None, typer.Argument(help="What to learn; see: list problems.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting: --set fedpref.top_r=0.4 --set dqn.local_steps=500."),
]
Out = Annotated[Path | None, typer.Option(help="Directory to write: a new one, or an empty one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Seeds = Annotated[str, typer.Option(help="Number of seeds (5), or the seeds (11,17,29).")]


def _checked_workers(workers: int | None) -> int | None:
    """Refuse ``--workers 0`` before anything is written."""
    from comity.runs.cluster import check_workers

    if workers is not None:
        check_workers(workers)
    return workers


Workers = Annotated[
    int | None,
    typer.Option(help="Processes to use; results do not depend on it.", callback=_checked_workers),
]

CLUSTER = {
    "cluster": SettingOption(
        str,
        "Instead of --workers, a Dask cluster: tcp://SCHEDULER:8786, or local:4 for four workers "
        "here.",
    ),
}
"""Option for workers on many machines; not a setting of the run."""


def with_settings(
    options: Mapping[str, SettingOption],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option per setting.

    The command has a parameter ``values``. In its place stand the options; the command gets a
    dict of those that were given, by the name of the setting.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name == "values":
                parameters += [_parameter(name, option) for name, option in options.items()]
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        @wraps(command)
        def decorated(**arguments: Any) -> None:
            values = {name: arguments.pop(name) for name in options}
            given = {name: value for name, value in values.items() if value is not None}
            command(values=given, **arguments)

        vars(decorated)["__signature__"] = inspect.Signature(parameters)
        decorated.__annotations__ = {p.name: p.annotation for p in parameters}
        return decorated

    return decorate


def _parameter(name: str, option: SettingOption) -> inspect.Parameter:
    flags = [] if option.flag is None else [option.flag]
    declared = typer.Option(*flags, help=option.help)
    annotation: Any = Annotated[option.type | None, declared]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=annotation)


def read_config(config: Path | None) -> dict[str, Any]:
    """Return the values of the file that ``--config`` names, if any."""
    from comity.configuration import read_toml

    return {} if config is None else read_toml(config)


def named(problem: str | None) -> dict[str, Any]:
    """Return the problem of the command line as a value, if it is given."""
    return {} if problem is None else {"problem": problem}


def apply_settings(values: dict[str, Any], settings: list[str] | None) -> None:
    """Put the settings of ``--set`` into the values of a configuration."""
    from comity.configuration import parse_setting

    for text in settings or []:
        path, value = parse_setting(text)
        if len(path) > 2:
            raise UserError(f"--set {text}: a name has at most one dot, e.g. dqn.local_steps.")
        if len(path) == 1:
            values[path[0]] = value
        else:
            table = values.setdefault(path[0], {})
            if not isinstance(table, dict):
                raise UserError(f"--set {text}: '{path[0]}' is not a table of settings.")
            table[path[1]] = value


def with_links(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return values with the options of links in their table.

    Args:
        values: Values of a file.
        given: Values of the command line; those of links are taken out of it.
    """
    links = {name: given.pop(name) for name in LINKS if name in given}
    if not links:
        return values
    table = values.get("links", {})
    if not isinstance(table, Mapping) or not (table or "contacts" in links):
        raise UserError("--collect is about links: name a contact plan with --links, too.")
    return {**values, "links": {**table, **links}}


def pop_problem(values: dict[str, Any]) -> Any:
    """Take the problem out of the values of a comparison."""
    if "problem" not in values:
        raise UserError("problem is missing: name what is to be learned.")
    return values.pop("problem")


def seeds_of(text: str) -> int | list[int]:
    """Parse ``--seeds``: a number of seeds, or a list of them."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or ("," not in text and not 1 <= numbers[0] <= 10_000):
        raise UserError(f"--seeds {text}: give a number of seeds (5) or a list (11,17,29).")
    return numbers if "," in text else numbers[0]


def loggers_of(values: dict[str, Any]) -> list[Callback]:
    """Take ``--log`` out of the values of the command line, and return the loggers."""
    from comity.callbacks import logger

    return [logger(text) for text in values.pop("log", [])]


class Workforce(NamedTuple):
    """Who does the work: the values of ``--workers`` and ``--cluster``."""

    workers: int | None
    """Processes here; None: as many as are useful."""
    cluster: str | None = None


def workforce_of(workers: int | None, values: dict[str, Any]) -> Workforce:
    """Take ``--cluster`` out of the values of the command line; both options are refused."""
    cluster = values.pop("cluster", None)
    if cluster is not None:
        from comity.api.finishing import working

        with working(workers, cluster):  # a mistake must show before anything is written
            pass
    return Workforce(workers, cluster)


def workers_of(workforce: Workforce, most: float = inf) -> int | None:
    """Return ``--workers``, or if it was not given the number of cores, at most ``most``.

    None: it is a cluster's.
    """
    workers, cluster = workforce
    if workers is not None or cluster is not None:
        return workers
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, int(min(cores or 1, most)))


def preference_of(text: str | None) -> list[float] | None:
    """Parse ``--preference``; the run checks the length."""
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(
            f"--preference {text}: give one number per objective, separated by commas, e.g. "
            "0.7,0.3."
        ) from None
