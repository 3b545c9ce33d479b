"""The page of a run or a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from comity.report.figures.learning import Runs
from comity.report.figures.partition import MOST
from comity.report.html.charts import Chart, front_chart, learning_chart, rewards_chart
from comity.report.html.markup import (
    Pictures,
    facts,
    figure,
    measures_table,
    page,
    section,
    settings,
    table,
    text,
    tiles,
)
from comity.report.measures import (
    arranged,
    compared,
    extent,
    main,
    number,
    paired,
    pairings,
    present,
    scaled,
    shown_names,
    single,
    starred,
    vector,
    with_pooled,
)
from comity.report.series.curves import kept_round
from comity.report.tables import (
    baselines,
    comparison_caption,
    judged,
    preference_text,
    reference_text,
    regret_of,
    remarks,
)
from comity.report.terms import Terms, words_of
from comity.runs.directory import Run

_EVENTS = 50
_PICTURES = {
    "bars": "Side by side",
    "reaches": "What a client can reach",
    "fronts": "Fronts",
    "learning": "Learning curves",
    "conflicts": "Conflicts between clients",
}
"""Of a comparison, with their headings."""
_MORE = {
    "conflict": "Conflicts between clients",
    "mixing": "Who learned from whom",
    "allotted": "What the agent decided",
    "agent_rewards": "What it was rewarded for",
    "embeddings": "What it saw",
    "clusters": "Clusters",
}
"""Of a run, where there is something to show."""
_BYTES = ("bytes", "kB", "MB", "GB", "TB")

_APART = (
    "Updates point apart where what one client learned would undo what the other did (their inner "
    "product is negative). The step taken is the wrapper's; the plain mean is what it replaces."
)
_UP = "Objectives are maximised: up and to the right is better."
_CAPTIONS = {
    "front": "Each client's model among the objectives, coloured by the client's preference. "
    + _UP,
    "scores": "Each client's kept model on the client's own test samples. Black: the constant "
    "classifier, which gives the client's commonest answer to everything.",
    "rounds": "What clients received from the server, and what they made of it by training on "
    "their own samples; both on validation samples. Lines: mean over clients; bands: the middle "
    "half of them.",
    "partition": "Who has what: the area of a bubble is the number of training samples of a class "
    "that a client has.",
    "conflict": _APART,
    "conflicts": _APART + " Mean over seeds, with its standard deviation as a band.",
    "spans": "All that each client's model reaches, asked for one preference after another; the "
    "hypervolume per client is the mean over these sets. " + _UP,
    "response": "From preference to outcome: what a client gets, by how much it cares for the "
    "first objective.",
    "reaches": "An algorithm whose models take any preference has a mean over clients at one after "
    "another: a line, or a cloud with more than two objectives. One with a single model for a "
    "client has a single mean. " + _UP,
    "fronts": "The models of all seeds' clients as one set, apart from those that count for no "
    "front; large points are its front. Where the clients of each run share their weights, a point "
    "is the mean over the clients of one run. " + _UP,
    "rewards": "Mean scalarised validation {words.value} over the rounds: of the models that "
    "clients keep, that they have just trained, and that they received.",
    "mixing": "Who learns from whom: each row is a receiver, each column a giver.",
    "allotted": "Mean over the last quarter of the rounds: how much of whose head a client takes, "
    "how much of their classes two clients have in common, and the one against the other.",
    "agent_rewards": "The terms of the agent's reward before they are weighed: how good models are "
    "that were just delivered, how much better than before, and how far weights are from those "
    "that follow the likeness of embeddings.",
    "embeddings": "Each client's head after the last round, along the two directions in which "
    "clients differ most.",
    "clusters": "One line a client: together while in one cluster, apart after a split.",
    "bars": "Mean over seeds with its standard deviation. Dots stand where bars from zero would "
    "hide the differences.",
    "learning": "How good kept models are against the {words.unit} that a client has spent; "
    "mean over seeds, with its standard error as a band.",
}


def run_page(run: Run, pictures: Pictures) -> str:
    """The page of a finished run."""
    results = run.results
    problem = run.configuration.get_problem()
    words, alone = words_of(results), single(results)
    charts = {} if alone else {"front": front_chart(run), "rewards": rewards_chart(run)}
    hollow = " Hollow: dropped, see below." if results["metrics"].get("dropped") else ""
    where = (
        _figure("scores", pictures, charts, words)
        if alone
        else _figure("front", pictures, charts, words, _marks(results) + hollow)
    )
    rounds = _figure("rounds" if alone else "rewards", pictures, charts, words)
    body = [
        f"<h1>{text(problem.title)}: {text(run.configuration.label)}</h1>",
        f'<p class="lead">{_sentence(run)}</p>',
        _tiles(results),
        _facts(run),
        section("Where the clients ended", where),
        *_spanned(run, pictures, words),
        section("Measures", _measures(results)),
        section("Over the rounds", rounds),
        *(
            section(title, _figure(name, pictures, charts, words))
            for name, title in _MORE.items()
            if name in pictures
        ),
        section("Clients", _clients(results)),
        *([section("Data", _data(results, pictures, words))] if "samples" in results else []),
        section("Communication and effort", _effort(run)),
        section("Events", _events(run.history)),
        _settings(run),
    ]
    return page(f"{run.configuration.label} on {run.configuration.problem_name}", body)


def comparison_page(comparison: Mapping[str, Any], runs: Runs, pictures: Pictures) -> str:
    """The page of a finished comparison."""
    title = f"Algorithms on {comparison['problem']}"
    chart = learning_chart(comparison, runs)
    charts = {} if chart is None else {"learning": chart}
    words = words_of(comparison)
    kept = _comparison({**comparison, "rows": with_pooled(comparison)}, runs)
    body = [f"<h1>{text(title)}</h1>", section("Measures", kept)]
    if all("metrics_last" in row for row in comparison["rows"]):
        rows = [{**row, "metrics": row["metrics_last"]} for row in comparison["rows"]]
        for row in rows:  # what is paired are the kept ones
            row.pop("paired", None)
            row.pop("host", None)
        last = _comparison({**comparison, "rows": rows}, runs)
        body.append(f"<details><summary>The same of the last models</summary>{last}</details>")
    first = next((run.results for seeds in runs.values() for run in seeds), {})
    for name, heading in _PICTURES.items():
        if name in pictures:
            more = _marks(first) if name in ("fronts", "reaches") else ""
            body.append(section(heading, _figure(name, pictures, charts, words, more)))
    return page(title, body)


def _figure(
    name: str, pictures: Pictures, charts: Mapping[str, Chart], words: Terms, more: str = ""
) -> str:
    return figure(name, _CAPTIONS[name].format(words=words) + more, pictures, charts)


def _marks(results: Mapping[str, Any]) -> str:
    """What a picture of models of clients with data shows beside them."""
    if "samples" not in results:
        return ""
    parts = ["", "Cross: the constant classifier, mean over clients."]
    if "strict_reference_point" in results:
        parts.append("Dashed: the strict reference point.")
    return " ".join(parts)


# -- parts of a run's page -----------------------------------------------------------------


def _sentence(run: Run) -> str:
    results, kept = run.results, kept_round(run)
    chosen = (
        f" Round {kept} of {results['rounds']} was kept for all, by validation hypervolume."
        if kept is not None
        else ""
    )
    preferences = "" if single(results) else f"{text(results['preferences'])} preferences, "
    return (
        f"{results['clients']} clients, {results['rounds']} rounds, {preferences}"
        f"seed {results['seed']}.{chosen}"
    )


def _spanned(run: Run, pictures: Pictures, words: Terms) -> list[str]:
    """What clients reach whose models take any preference."""
    if "spans" not in pictures:
        return []
    parts = [_figure("spans", pictures, {}, words, _marks(run.results))]
    if "response" in pictures:
        parts.append(_figure("response", pictures, {}, words))
    else:
        parts.append(
            "<p>A picture from preference to outcome is left out: with more than two objectives a "
            "preference is more than one number.</p>"
        )
    return [section("What each client can reach", "".join(parts))]


def _tiles(results: Mapping[str, Any]) -> str:
    """The few numbers that a reader looks for first."""
    metrics, alone = results["metrics"], single(results)
    first = main(metrics, alone) if "samples" in results else present(metrics, alone)[:4]
    numbers = [(measure.label, number(metrics[measure.name])) for measure in first]
    sent = sum(results["communication"].values())
    numbers.append(("sent in all", scaled(sent, _BYTES)))
    return tiles(numbers)


def _facts(run: Run) -> str:
    """What was run, in short."""
    results = run.results
    strict, wrapper = results.get("strict_reference_point"), run.configuration.wrapper
    told = {
        "problem": results["problem"],
        "algorithm": results["algorithm"],
        **({} if wrapper == "none" else {"with": wrapper}),
        "participation": f"{run.configuration.participation:.0%} a round",
        "keep": results["keep"],
        "guard": "on" if results["guard"] else "off",
        "fine-tuning": results["fine_tune"],
        **_protocol(results),
        **({} if single(results) else {"reference point": vector(results["reference_point"])}),
        **({"strict reference point": vector(strict)} if strict else {}),
        "seed": results["seed"],
    }
    return facts(told)


def _protocol(results: Mapping[str, Any]) -> dict[str, str]:
    """What models are judged on."""
    if "samples" not in results:
        episodes = results["episodes"]
        return {"episodes": f"{episodes['validation']} validation, {episodes['test']} test"}
    parts = (f"{extent(counts)} {part}" for part, counts in results["samples"].items())
    return {
        "partition": results["partition"],
        "sizes": results["sizes"],
        "samples per client": " / ".join(parts),
    }


def _measures(results: Mapping[str, Any]) -> str:
    words = words_of(results)
    note = (
        f"On {words.tests}. Kept: the models that clients end with (keep = {results['keep']}); "
        f"last: those of the last round; trivial: {words.trivial}."
    )
    reference = [] if single(results) else [f"{reference_text(results)}."]
    note = " ".join([note, *reference, *remarks(results)])
    return measures_table({**judged(results), **baselines(results)}, note, single(results))


def _clients(results: Mapping[str, Any]) -> str:
    clients, alone = results["per_client"], single(results)
    names = list(clients[0]["objectives"])
    reached = results.get("spanned", {}).get("per_client")
    regret = "optimum" in clients[0]
    rows = [
        [
            str(client["client"]),
            *([] if alone else [preference_text(client["preference"])]),
            *(number(client["objectives"][name]) for name in names),
            *([] if alone else [number(client["scalarised"])]),
            *([number(regret_of(client))] if regret else []),
            *([number(reached[client["client"]])] if reached else []),
        ]
        for client in clients
    ]
    header = ["client", *names] if alone else ["client", "preference", *names, "scalarised"]
    header += [*(["regret"] if regret else []), *(["hypervolume"] if reached else [])]
    note = "" if alone else f"Preferences are weights on {', '.join(names)}."
    return table(header, rows, note)


def _data(results: Mapping[str, Any], pictures: Pictures, words: Terms) -> str:
    """Who has which samples, and what was done to them before they were dealt out."""
    items = "".join(f"<li>{text(note)}</li>" for note in results["notes"])
    notes = f"<ul>{items}</ul>" if items else "<p>The samples are as they came.</p>"
    if "partition" in pictures:
        return _figure("partition", pictures, {}, words) + notes
    if results["clients"] > MOST:
        notes += f"<p>More than {MOST} clients have no room in a picture of who has what.</p>"
    return notes


def _effort(run: Run) -> str:
    results = run.results
    sent, steps = results["communication"], results.get("environment_steps", {})
    data = "samples" in results
    trained = {"training steps": "training_steps", "loss terms skipped": "skipped_terms"}
    rows = [
        ["from clients to the server", scaled(sent["bytes_up"], _BYTES)],
        ["from the server to clients", scaled(sent["bytes_down"], _BYTES)],
        *([f"environment steps, {kind}", f"{count:,}"] for kind, count in steps.items()),
        *([label, f"{results[name]:,}"] for label, name in trained.items() if data),
        ["mixed models declined by clients", str(sum(sum(e["declined"]) for e in run.history))],
        *_server_time(run),
    ]
    note = (
        "A training step is one batch. A loss term is skipped where a batch lacks the groups that "
        "it compares."
    )
    return table(["", "all clients together"], rows, note if data else "")


def _server_time(run: Run) -> list[list[str]]:
    spent = run.spent
    if not spent.get("clients"):
        return []
    return [["the server's time, of the clients'", f"{spent['server'] / spent['clients']:.1%}"]]


def _events(history: Iterable[Mapping[str, Any]]) -> str:
    events = [event for entry in history for event in entry["events"]]
    if not events:
        return "<p>Nothing went wrong.</p>"
    items = "".join(f"<li>{text(event)}</li>" for event in events[:_EVENTS])
    rest = len(events) - _EVENTS
    return f"<ul>{items}</ul>" + (f"<p>And {rest} more.</p>" if rest > 0 else "")


def _settings(run: Run) -> str:
    configuration = run.configuration
    values = configuration.model_dump(exclude={"algorithm_settings", "learner_settings"})
    values["preferences"] = run.results["preferences"]  # those given are in the clients' table
    values[configuration.algorithm] = configuration.algorithm_settings
    values[configuration.get_problem().learner] = configuration.learner_settings
    return settings(values)


# -- parts of a comparison's page ----------------------------------------------------------


def _comparison(comparison: Mapping[str, Any], runs: Runs) -> str:
    """The table of a comparison, of kept or of last models."""
    rows, alone = arranged(comparison["rows"]), single(comparison)
    measures, names = compared(rows, alone), shown_names(rows)
    differences = pairings(rows, alone)
    cells = [
        [
            names[row["algorithm"]],
            *([] if alone else [row["preferences"]]),
            *own,
            *(paired(row, heading) for heading in differences),
        ]
        for row, own in zip(rows, starred(rows, measures), strict=True)
    ]
    for name, values in baselines(comparison).items():
        numbers = [number(values.get(m.name)) for m in measures]
        cells.append([name, *([] if alone else ["all"]), *numbers, *["–"] * len(differences)])
    header = ["algorithm", *([] if alone else ["preferences"])]
    header += [*(m.label + m.arrow for m in measures), *differences]
    return table(header, cells, comparison_caption(comparison, runs))
