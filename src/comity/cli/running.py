"""Commands that train: run, search, compare, resume, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.options import (
    Clients,
    Guard,
    Json,
    Keep,
    Out,
    Participation,
    Partition,
    Rounds,
    Seeds,
    Set,
    Sizes,
    With,
    Workers,
    apply_settings,
    given,
    seeds_of,
    workers_of,
)
from comity.cli.terminal import (
    print_json,
    print_tables,
    progress,
    show_comparison,
    show_run,
    show_search,
    show_searches,
)
from comity.errors import UserError, unknown


def run(
    problem: Annotated[
        str | None, typer.Argument(help="What to learn; see: list problems.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with a whole run.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="See: list algorithms.")] = None,
    clients: Clients = None,
    rounds: Rounds = None,
    seed: Annotated[int | None, typer.Option(help="Where all random numbers come from.")] = None,
    preferences: Annotated[str | None, typer.Option(help="See: list preferences.")] = None,
    partition: Partition = None,
    sizes: Sizes = None,
    participation: Participation = None,
    keep: Keep = None,
    guard: Guard = None,
    fine_tune: Annotated[str | None, typer.Option(help="none, replace-last or extra:K.")] = None,
    wrapper: With = None,
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Run one federation: a personal model for each client, tables and pictures."""
    from comity.configuration import configure, read_toml
    from comity.runs.directory import Run
    from comity.runs.execute import default_name, execute, free_path

    values = read_toml(config) if config is not None else {}
    values |= given(problem=problem, algorithm=algorithm, clients=clients, rounds=rounds, seed=seed)
    values |= given(preferences=preferences, participation=participation, keep=keep, guard=guard)
    values |= given(fine_tune=fine_tune, partition=partition, sizes=sizes, wrapper=wrapper)
    apply_settings(values, settings)
    configuration = configure(values)
    processes = workers_of(workers, configuration.clients / configuration.chunk)
    path = out if out is not None else free_path(default_name(configuration))
    made = Run.create(path, configuration)
    title = f"{configuration.problem_name}, {configuration.label}"
    with progress(title, f"comity resume {path}") as tell:
        execute(made, processes, tell)
    show_run(made, as_json)


def search(
    problem: Annotated[
        str | None, typer.Argument(help="What to learn; see: list problems.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with a whole search.")] = None,
    generator: Annotated[
        str | None,
        typer.Option(help="annealing, gap, grid or random; several, with settings: a comparison."),
    ] = None,
    iterations: Annotated[int | None, typer.Option(help="How often to propose weights.")] = None,
    candidates: Annotated[int | None, typer.Option(help="Weights in one iteration.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Stop after so many candidates.")] = None,
    stall: Annotated[
        int | None, typer.Option(help="Stop after so many iterations without gain.")
    ] = None,
    warm_start: Annotated[
        bool | None, typer.Option(help="Start from the nearest solved weight's model.")
    ] = None,
    spread: Annotated[
        bool | None, typer.Option(help="Each client carries a weight of its own.")
    ] = None,
    harvest: Annotated[
        bool | None, typer.Option(help="Evaluate the server's models of every round too.")
    ] = None,
    control: Annotated[
        bool | None, typer.Option(help="Run the same search with random weights beside it.")
    ] = None,
    algorithm: Annotated[str | None, typer.Option(help="What trains each candidate.")] = None,
    clients: Annotated[int | None, typer.Option(help="Clients of each candidate.")] = None,
    rounds: Rounds = None,
    seed: Annotated[int | None, typer.Option(help="Where all random numbers come from.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="A comparison over several: 3, or 11,17,29.")
    ] = None,
    keep: Keep = None,
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Search for a whole front of models (MOFL/D), when nobody knows the preferences yet."""
    from comity.configuration import read_toml
    from comity.runs.compare import split_entries
    from comity.runs.execute import free_path
    from comity.searches import Search, configure_search
    from comity.searches.comparison import compare_searches
    from comity.searches.configuration import split_search_settings
    from comity.searches.execution import default_name, execute_search

    values = read_toml(config) if config is not None else {}
    values |= given(problem=problem, algorithm=algorithm, clients=clients, rounds=rounds, seed=seed)
    values = split_search_settings(values | given(keep=keep))
    values["search"] |= given(iterations=iterations, candidates=candidates, evaluations=evaluations)
    values["search"] |= given(stall=stall, warm_start=warm_start, spread=spread)
    values["search"] |= given(harvest=harvest, control=control)
    apply_settings(values, settings)
    entries = split_entries(generator or "")
    if seeds is not None or len(entries) > 1 or "[" in (generator or ""):
        if "problem" not in values:
            raise UserError("problem is missing: name what is to be learned.")
        if not isinstance(values["problem"], str):
            configure_search(split_search_settings(values))  # which refuses a table of data
        name = str(values.pop("problem"))
        asked = seeds_of(seeds) if seeds is not None else [values.get("seed", 1)]
        values.pop("seed", None)
        path = out if out is not None else free_path(f"{name}-searches".replace(":", "-"))
        with progress(f"{name}, searches", f"comity resume {path}") as tell:
            made = compare_searches(
                name,
                generators=entries or ["annealing"],
                seeds=asked,
                out=path,
                workers=workers_of(workers),
                on_round=tell,
                **values,
            )
        show_searches(made, as_json)
        return
    if entries:
        values["search"]["generator"] = entries[0]
    configuration = configure_search(split_search_settings(values))
    path = out if out is not None else free_path(default_name(configuration))
    found = Search.create(path, configuration)
    title = f"{configuration.federation.problem_name}, {configuration.label} search"
    with progress(title, f"comity resume {path}") as tell:
        execute_search(found, workers_of(workers, configuration.chunks), tell)
    show_search(found, as_json)


def compare(
    algorithms: Annotated[
        str,
        typer.Option(help="Comma-separated: fedavg,fedavg+ft,'fedpref[clustering=false]'."),
    ],
    problem: Annotated[
        str | None, typer.Argument(help="What to learn; see: list problems.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with a [problem] of your own, and settings.")
    ] = None,
    seeds: Seeds = "3",
    preferences: Annotated[
        str | None, typer.Option(help="One or more distributions, separated by spaces.")
    ] = None,
    clients: Clients = None,
    rounds: Rounds = None,
    partition: Partition = None,
    sizes: Sizes = None,
    participation: Participation = None,
    keep: Keep = None,
    guard: Guard = None,
    wrapper: With = None,
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Run several algorithms over several seeds and set them side by side."""
    from comity.configuration import read_toml
    from comity.runs.compare import compare, default_name, split_entries, with_wrapper
    from comity.runs.execute import free_path

    values = read_toml(config) if config is not None else {}
    values |= given(problem=problem, clients=clients, rounds=rounds, participation=participation)
    values |= given(keep=keep, guard=guard, partition=partition, sizes=sizes)
    apply_settings(values, settings)
    if "problem" not in values:
        raise UserError("problem is missing: name what is to be learned.")
    for name in ("algorithm", "seed"):  # a comparison has several
        values.pop(name, None)
    asked, spread = values.pop("problem"), values.pop("preferences", "dirichlet")
    path = out if out is not None else free_path(default_name(asked))
    with progress(path.name, f"comity resume {path}") as tell:
        made = compare(
            asked,
            algorithms=with_wrapper(split_entries(algorithms), wrapper),
            seeds=seeds_of(seeds),
            preferences=preferences.split() if preferences is not None else spread,
            out=path,
            workers=workers_of(workers),
            on_round=tell,
            **values,
        )
    show_comparison(made, as_json)


def pretrain(
    algorithm: Annotated[str, typer.Argument(help="What has something to train: pfedrlla.")],
    problem: Annotated[
        str | None, typer.Argument(help="What to learn; see: list problems.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write: agent.safetensors.")] = None,
    finished: Annotated[
        Path | None,
        typer.Option("--from", help="Write the agent of a run that has ended, and train nothing."),
    ] = None,
    clients: Clients = None,
    rounds: Rounds = None,
    seed: Annotated[int | None, typer.Option(help="Where all random numbers come from.")] = None,
    partition: Partition = None,
    sizes: Sizes = None,
    participation: Participation = None,
    settings: Set = None,
    run: Annotated[
        Path | None, typer.Option(help="Directory of the run in which it learns; must not exist.")
    ] = None,
    workers: Workers = None,
) -> None:
    """Train an agent on one federation, as a file that others take (pfedrlla.agent=FILE)."""
    from comity.pretraining import ALGORITHM, check_target, default_name, pretraining, save_agent
    from comity.runs.directory import Run
    from comity.runs.execute import execute, free_path

    if algorithm != ALGORITHM:
        raise unknown("algorithm with something to pretrain", algorithm, [ALGORITHM])
    if out is None:
        raise UserError("out is missing: name the file to write, e.g. --out agent.safetensors.")
    check_target(out)
    if finished is not None:
        found = Run.open(finished)
    else:
        values = given(problem=problem, clients=clients, rounds=rounds, seed=seed, sizes=sizes)
        values |= given(partition=partition, participation=participation)
        apply_settings(values, settings)
        configuration = pretraining(values)
        processes = workers_of(workers, configuration.clients / configuration.chunk)
        path = run if run is not None else free_path(default_name(configuration))
        found = Run.create(path, configuration)
        again = f"comity resume {path}, then: comity pretrain {ALGORITHM} --from {path} --out {out}"
        with progress(f"{configuration.problem_name}, {ALGORITHM} pretraining", again) as tell:
            execute(found, processes, tell)
    save_agent(found, out)
    print(f"Agent: {out} (--set {ALGORITHM}.agent={out})\nRun:   {found.path}")


def resume(
    path: Annotated[Path, typer.Argument(help="A run, search or comparison that stopped.")],
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Go on with an interrupted run, search or comparison; it ends as if never interrupted."""
    from comity.runs.compare import PLAN, run_plan
    from comity.runs.directory import Run
    from comity.runs.execute import resume
    from comity.searches import Search
    from comity.searches.comparison import PLAN as SEARCHES
    from comity.searches.comparison import run_search_plan
    from comity.searches.execution import resume_search

    with progress(str(path), f"comity resume {path}") as tell:
        if (path / PLAN).is_file():
            show_comparison(run_plan(path, workers_of(workers), tell), as_json)
        elif (path / SEARCHES).is_file():
            show_searches(run_search_plan(path, workers_of(workers), tell), as_json)
        elif Search.is_at(path):
            chunks = Search.open(path).configuration.chunks
            show_search(resume_search(path, workers_of(workers, chunks), tell), as_json)
        else:
            configuration = Run.open(path).configuration
            share = configuration.clients / configuration.chunk
            show_run(resume(path, workers=workers_of(workers, share), on_round=tell), as_json)


def reproduce(
    table: Annotated[
        str,
        typer.Argument(
            help="thesis-3.2, -3.3, -4.1, -4.3 to -4.6, -5.2 to -5.5, -A.17 or -A.20; "
            "praffl-2, -3 or -7."
        ),
    ],
    only: Annotated[
        str | None, typer.Option(help="The problem to run; unless given, the table's first.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many seeds (5), or which ones (11,17,29).")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--rows", "--algorithms", help="Some only: fedavg,fedpref+ft; 3/10k,alone."),
    ] = None,
    preferences: Annotated[
        str | None, typer.Option(help="Some distributions only, separated by spaces.")
    ] = None,
    settings: Set = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory; runs already in it are used again.")
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Run a printed table and set our figures beside the printed ones."""
    from comity.report.tables import reproduction_table, search_reproduction_table
    from comity.reproductions import TABLES, federations, searches
    from comity.runs.compare import split_entries
    from comity.runs.execute import free_path

    if table not in TABLES:
        raise unknown("table", table, TABLES)
    path = out if out is not None else free_path(f"{table}-{only}" if only else table)
    values: dict[str, Any] = given(only=only, seeds=None if seeds is None else seeds_of(seeds))
    if preferences is not None:
        if table in searches.TABLES:
            raise UserError(f"--preferences means nothing for {table}: a search chooses them.")
        if table not in federations.TABLES:
            raise UserError(f"--preferences means nothing for {table}: the table has its own.")
        values["preferences"] = preferences.split()
    apply_settings(values, settings)
    with progress(table, f"the same command and --out {path}") as tell:
        made = TABLES[table](
            table,
            rows=split_entries(rows) if rows else None,
            out=path,
            workers=workers_of(workers),
            on_round=tell,
            **values,
        )
    if as_json:
        print_json({**made.results, "run": str(made.path)})
        return
    shown = search_reproduction_table if table in searches.TABLES else reproduction_table
    print_tables(shown(made.results), footer=f"Runs: {made.path}")
