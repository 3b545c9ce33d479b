"""The functions that execute: each configures, executes and writes the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from comity import report as reports
from comity import reproductions
from comity.algorithms import Algorithm
from comity.api.directories import open_directory
from comity.api.finishing import Finished, draw, finish, finish_plan, lacks_report, working
from comity.api.typed import CompareSettings, RunSettings, SearchSettings, TuneSettings
from comity.callbacks import Callback, notifying
from comity.errors import UserError
from comity.problems import Problem, named
from comity.report import FigureKind
from comity.reproductions import Reproduction
from comity.runs.compare import PLAN as COMPARISON
from comity.runs.compare import Comparison, run_plan, start_comparison
from comity.runs.directory import Run
from comity.runs.events import OnRound
from comity.runs.execute import start_run
from comity.runs.pretraining import check_target, save_agent, start_pretraining
from comity.searches.comparison import PLAN as SEARCHES
from comity.searches.comparison import SearchComparison, run_search_plan, start_searches
from comity.searches.directory import Search
from comity.searches.execution import start_search
from comity.tuning import PLAN as TUNING
from comity.tuning import Tuning, run_tuning, start_tuning

PLANS: dict[str, Callable[..., Comparison | SearchComparison | Tuning]] = {
    COMPARISON: run_plan,
    SEARCHES: run_search_plan,
    TUNING: run_tuning,
}
"""Function that executes a plan, by the name of the plan's file."""


def run(
    problem: str | Problem | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    on_round: OnRound | None = None,
    callbacks: Sequence[Callback] = (),
    figures: FigureKind = "png",
    **settings: Unpack[RunSettings],
) -> Run:
    """Run one federation to its end: ``comity.run("deep-sea-treasure", algorithm="fedpref")``.

    Args:
        problem: A registered name, ``"module:attribute"``, a problem, or a table that describes
            your own data.
        out: The run directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the clients; results do not depend on it. Default: 1.
        cluster: Instead of ``workers``, a Dask cluster: ``"tcp://HOST:8786"``, or ``"local:4"`` to
            start four workers here (see docs/cluster.md).
        on_round: Called after each round with a `RoundEvent`.
        callbacks: Objects that get the start, each round and the end, such as `comity.JsonLines`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Run-level settings by name (``algorithm``, ``clients``, ``rounds``, ``seed``,
            ``preferences``, ...), and tables by the name of the algorithm or the learner:
            ``fedpref={"top_r": 0.4}, dqn={"local_steps": 1000}``. ``algorithm`` is a registered
            name, ``"module:class"``, or a class.
    """
    with working(workers, cluster, figures) as workforce, notifying(callbacks, on_round) as notify:
        started = start_run({"problem": named(problem), **settings}, out)
        return finish(started, workforce, notify, figures)


def compare(
    problem: str | Problem | Mapping[str, Any],
    *,
    algorithms: Sequence[str | type[Algorithm]],
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    on_round: OnRound | None = None,
    callbacks: Sequence[Callback] = (),
    figures: FigureKind = "png",
    **settings: Unpack[CompareSettings],
) -> Comparison:
    """Run each algorithm under each preference distribution with each seed, and tabulate.

    Args:
        problem: What is learned, as for `run`.
        algorithms: Entries, such as ``"fedavg"``, ``"fedavg+ft"`` (the last mixing replaced by
            local training), ``"fedpref[clustering=false]"`` or ``"module:class"``; or classes.
        seeds: Number of seeds, or the seeds.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the runs. Default: 1.
        cluster: Instead of ``workers``, a Dask cluster: ``"tcp://HOST:8786"``, or ``"local:4"`` to
            start four workers here (see docs/cluster.md).
        on_round: Called after each round of any run, as in `run`.
        callbacks: Those of any run, as in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Settings of `run`, the same for all entries; tables of algorithms that take no
            part are refused. ``preferences`` may be several distributions. And ``encodings``,
            ``attacks``: each entry under each; ``target``: on data with one objective, a validation
            accuracy; the table has when entries reach it.
    """
    with working(workers, cluster, figures) as workforce, notifying(callbacks, on_round) as notify:
        path = start_comparison(problem, algorithms=algorithms, seeds=seeds, out=out, **settings)
        return finish_plan(run_plan, path, workforce, notify, figures)


def tune(
    problem: str | Problem | Mapping[str, Any],
    *,
    over: str | Path | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    on_round: OnRound | None = None,
    callbacks: Sequence[Callback] = (),
    figures: FigureKind = "png",
    **settings: Unpack[TuneSettings],
) -> Tuning:
    """Choose settings by validation: ``comity.tune("adult-gender-dp", algorithm="fedprox")``.

    Args:
        problem: What is learned, as for `run`.
        over: What is tried, by setting: a TOML file, or the same as a mapping, such as
            ``{"mu": [0.01, 0.1], "supervised.learning_rate": {"low": 1e-4, "high": 0.1, "log":
            True}}``; default: the grid that the papers print for this algorithm and problem.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the runs of a batch of trials; results do not depend on it.
            Default: 1.
        cluster: Instead of ``workers``, a Dask cluster: ``"tcp://HOST:8786"``, or ``"local:4"`` to
            start four workers here (see docs/cluster.md).
        on_round: Called after each round of any run, as in `run`.
        callbacks: Those of any run, as in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: ``trials``, ``seeds`` (a number, or the seeds of each trial's runs),
            ``objectives``, ``sampler``, ``batch``, ``seed`` (of the proposals), and settings of
            `run`, the same for all trials. ``algorithm`` is a name or a class.

    Returns:
        The finished tuning: ``best`` has the chosen settings by name, ``config`` is the file with
        them, ``results`` and ``rows()`` have all trials, ``runs`` the runs behind them.
    """
    with working(workers, cluster, figures) as workforce, notifying(callbacks, on_round) as notify:
        path = start_tuning({"problem": problem, **settings}, over, out)
        return finish_plan(run_tuning, path, workforce, notify, figures)


def search(
    problem: str | Problem,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    on_round: OnRound | None = None,
    callbacks: Sequence[Callback] = (),
    figures: FigureKind = "png",
    **settings: Unpack[SearchSettings],
) -> Search:
    """Search for a whole front: ``comity.search("deep-sea-treasure", generator="gap")``.

    Args:
        problem: A problem with several objectives, or the name of one.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the clients; results do not depend on it. Default: 1.
        cluster: Instead of ``workers``, a Dask cluster: ``"tcp://HOST:8786"``, or ``"local:4"`` to
            start four workers here (see docs/cluster.md).
        on_round: Called after each round with a `RoundEvent`.
        callbacks: Objects that get the start, each round and the end, such as `comity.JsonLines`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Settings of the search by name (``iterations``, ``candidates``,
            ``warm_start``, ...), those of its federations (``algorithm``, ``clients``, ``rounds``,
            ...), and tables by the name of the algorithm, the learner or the generator.
    """
    with working(workers, cluster, figures) as workforce, notifying(callbacks, on_round) as notify:
        started = start_search({"problem": named(problem), **settings}, out)
        return finish(started, workforce, notify, figures)


def compare_searches(
    problem: str | Problem,
    *,
    generators: Sequence[str],
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    on_round: OnRound | None = None,
    callbacks: Sequence[Callback] = (),
    figures: FigureKind = "png",
    **settings: Unpack[SearchSettings],
) -> SearchComparison:
    """Run each search with each seed, and tabulate. Random weights always take part.

    Args:
        problem: A problem with several objectives, or the name of one.
        generators: Entries, such as ``"gap"`` or ``"annealing[warm_start=true]"``.
        seeds: Number of seeds, or the seeds.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the searches. Default: 1.
        cluster: Instead of ``workers``, a Dask cluster: ``"tcp://HOST:8786"``, or ``"local:4"`` to
            start four workers here (see docs/cluster.md).
        on_round: Called after each round of any search, as in `run`.
        callbacks: Those of any search, as in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Settings of `search`, the same for all entries.
    """
    with working(workers, cluster, figures) as workforce, notifying(callbacks, on_round) as notify:
        path = start_searches(problem, generators=generators, seeds=seeds, out=out, **settings)
        return finish_plan(run_search_plan, path, workforce, notify, figures)


def resume(
    path: str | Path | Run | Search,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    on_round: OnRound | None = None,
    callbacks: Sequence[Callback] = (),
    figures: FigureKind = "png",
) -> Finished:
    """Continue an interrupted run, search, comparison or tuning, as if never interrupted.

    Where only the report is missing, it is drawn.

    Args:
        path: Its directory, or the run or search itself.
        workers: Processes to use; results do not depend on it. Default: 1.
        cluster: Instead of ``workers``, a Dask cluster: ``"tcp://HOST:8786"``, or ``"local:4"`` to
            start four workers here (see docs/cluster.md).
        on_round: Called after each round with a `RoundEvent`.
        callbacks: Objects that get the start, each round and the end, such as `comity.JsonLines`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
    """
    with working(workers, cluster, figures) as workforce, notifying(callbacks, on_round) as notify:
        if not isinstance(path, Run | Search):
            path = Path(path)
            for plan, execute_plan in PLANS.items():
                if (path / plan).is_file():
                    return finish_plan(execute_plan, path, workforce, notify, figures)
            path = open_directory(path)
        if path.finished and not lacks_report(path):
            raise UserError(
                f"{path.path} is finished already; see it with: comity report {path.path}"
            )
        return finish(path, workforce, notify, figures)


def pretrain(
    problem: str | Problem,
    out: str | Path,
    *,
    run: str | Path | None = None,
    workers: int | None = None,
    on_round: OnRound | None = None,
    callbacks: Sequence[Callback] = (),
    figures: FigureKind = "png",
    **settings: Unpack[RunSettings],
) -> Path:
    """Train pFedRLLA's agent on one federation and write it to a file.

    Other runs name the file as ``pfedrlla.agent``. The federation in which the agent learns is a
    run like any other.

    Args:
        problem: What is learned, as for `run`.
        out: The file to write, which must not exist yet.
        run: The run directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the clients; results do not depend on it. Default: 1.
        on_round: Called after each round, as in `run`.
        callbacks: As in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Settings of `run`.
    """
    check_target(Path(out))
    with working(workers, figures=figures) as workforce, notifying(callbacks, on_round) as notify:
        started = start_pretraining({"problem": named(problem), **settings}, run)
        return save_agent(finish(started, workforce, notify, figures), Path(out))


def reproduce(
    table: str,
    *,
    rows: Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    on_round: OnRound | None = None,
    callbacks: Sequence[Callback] = (),
    figures: FigureKind = "png",
    **settings: Any,
) -> Reproduction:
    """Run a printed table and set our figures beside the printed ones.

    Args:
        table: Its name, such as ``"thesis-4.1"``.
        rows: Some of its rows; default: those that the table's function chooses.
        out: The directory; runs already in it are used again. Default: a new one under ``runs/``.
        workers: Processes that share the runs. Default: 1.
        cluster: Instead of ``workers``, a Dask cluster: ``"tcp://HOST:8786"``, or ``"local:4"`` to
            start four workers here (see docs/cluster.md).
        on_round: Called after each round of any run, as in `run`.
        callbacks: Those of any run, as in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: ``only`` (the problem, if the table has several), ``seeds``, ``preferences``
            where the table does not fix them, other arguments of the table's plan, and settings of
            `run` or `search`.
    """
    with working(workers, cluster, figures) as workforce, notifying(callbacks, on_round) as notify:
        reproduction = reproductions.reproduce(
            table, rows=rows, out=out, workers=workforce, notify=notify, **settings
        )
    for comparison in reproduction.comparisons:
        draw(comparison, figures)
    reports.write_reproduction(
        reproduction.path, reproduction.results, reproduction.comparisons, figures
    )
    return reproduction
