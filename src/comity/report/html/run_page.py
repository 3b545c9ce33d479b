"""Page of a run."""

from __future__ import annotations

from collections.abc import Iterable

from comity.report.captions import marks_text, reference_text, run_remarks
from comity.report.html.charts import front_chart, rewards_chart
from comity.report.html.groups_section import cross_section, groups_section
from comity.report.html.markup import (
    Pictures,
    facts,
    measures_table,
    page,
    section,
    settings,
    table,
    text,
    tiles,
    verdict,
)
from comity.report.html.pictures import baselines_note, picture
from comity.report.html.single_charts import rounds_chart, scores_chart
from comity.report.measures import (
    available_measures,
    baselines,
    has_single_objective,
    kept_and_last,
    main_measures,
    number,
    preference_text,
    range_text,
    regret_of,
    vector,
    with_unit,
)
from comity.report.names import name_of
from comity.report.over_alone import COMPANION_HEADINGS, companion_cells, companions_text
from comity.report.series.clusters import agreement
from comity.report.series.partition import MOST_CLIENTS
from comity.report.terms import Terms, terms_of
from comity.runs.directory import Run
from comity.runs.schema import HistoryEntry, Results

_MOST_EVENTS = 50
_PICTURES = {
    "hours": "Over the hours of the contact plan",
    "contacts": "Contacts",
    "ages": "Late updates",
    "conflict": "Conflicts between clients",
    "mixing": "Who learned from whom",
    "similarity": "Similarity of updates",
    "allotted": "Decisions of the agent",
    "agent_rewards": "Rewards of the agent",
    "embeddings": "Embeddings of the clients",
    "clusters": "Clusters",
}
"""Pictures that only some runs have, with their headings."""
_BYTES = ("bytes", "kB", "MB", "GB", "TB")


def run_page(run: Run, pictures: Pictures, script: str) -> str:
    """Return the page of a finished run.

    Args:
        run: The run.
        pictures: The files of its pictures.
        script: The path of plotly's script relative to the page.
    """
    results = run.results
    problem = run.configuration.get_problem()
    terms, single_objective = terms_of(results), has_single_objective(results)
    charts = (
        {"scores": scores_chart(run), "rounds": rounds_chart(run)}
        if single_objective
        else {"front": front_chart(run), "rewards": rewards_chart(run)}
    )
    hollow = " Hollow: dropped, see below." if results["metrics"].get("dropped") else ""
    front = (
        picture("scores", pictures, charts, terms)
        if single_objective
        else picture("front", pictures, charts, terms, baselines_note(results) + hollow)
    )
    rounds = picture("rounds" if single_objective else "rewards", pictures, charts, terms)
    body = [
        f"<h1>{text(problem.title)}: {text(run.configuration.label)}</h1>",
        verdict(results["verdict"]["sentences"] if "verdict" in results else []),
        f'<p class="lead">{_sentence(run)}</p>',
        _tiles(results),
        _facts(run),
        section("Models of the clients", front),
        *_spanned(run, pictures, terms),
        section("Measures", _measures(results)),
        section("Over the rounds", rounds),
        *(
            section(title, picture(name, pictures, charts, terms, _remark(run, name)))
            for name, title in _PICTURES.items()
            if name in pictures
        ),
        section("Clients", _clients(results)),
        *groups_section(run, pictures),
        *cross_section(run, pictures),
        *([section("Data", _data(results, pictures, terms))] if "samples" in results else []),
        section("Communication and effort", _effort(run)),
        section("Events", _events(run.history)),
        _settings(run),
    ]
    title = f"{run.configuration.label} on {run.configuration.problem_name}"
    return page(title, body, script)


def _sentence(run: Run) -> str:
    results = run.results
    preferences = (
        "" if has_single_objective(results) else f"{text(results['preferences'])} preferences, "
    )
    return (
        f"{results['clients']} clients, {results['rounds']} rounds, {preferences}"
        f"seed {results['seed']}."
    )


def _remark(run: Run, name: str) -> str:
    """Return what a picture's caption adds for this run: contacts, or the fit of clusters."""
    if name == "mixing" and (contacts := run.results.get("neighbours")) is not None:
        return (
            " There is no server: a dot marks a giver that the receiver has heard in that round. A "
            f"client heard {contacts['heard']:.3g} others on average; {contacts['pairs']} of "
            f"{contacts['possible_pairs']} pairs have met."
        )
    indices = agreement(run) if name == "clusters" else {}
    if not indices:
        return ""
    listed = ", ".join(f"{value:.2f} (round {number})" for number, value in indices.items())
    return f" Adjusted Rand index against groups of equal preferences: {listed}."


def _spanned(run: Run, pictures: Pictures, terms: Terms) -> list[str]:
    """Return the section on models that take any preference, if the run has such."""
    if "spans" not in pictures:
        return []
    parts = [picture("spans", pictures, {}, terms, baselines_note(run.results))]
    if "response" in pictures:
        parts.append(picture("response", pictures, {}, terms))
    else:
        parts.append(
            "<p>A picture from preference to outcome is left out: with more than two objectives a "
            "preference is more than one number.</p>"
        )
    parts += [picture("served", pictures, {}, terms)] if "served" in pictures else []
    if "losses" in pictures:
        parts.append(picture("losses", pictures, {}, terms))
    return [section("Reach of each client", "".join(parts))]


def _tiles(results: Results) -> str:
    """Return the most important numbers."""
    metrics, single_objective = results["metrics"], has_single_objective(results)
    first = (
        main_measures(metrics, single_objective)
        if "samples" in results
        else available_measures(metrics, single_objective)[:4]
    )
    numbers = [(measure.label, number(metrics[measure.name])) for measure in first]
    communication = results["communication"]
    sent = communication["bytes_up"] + communication["bytes_down"]
    numbers.append(("sent in all", with_unit(sent, _BYTES)))
    return tiles(numbers)


def _facts(run: Run) -> str:
    """Return the main settings."""
    results = run.results
    strict, wrapper = results.get("strict_reference_point"), run.configuration.wrapper
    topology, graph = results.get("topology"), results.get("graph", "by the contact plan")
    values = {
        "problem": results["problem"],
        "algorithm": results["algorithm"],
        **({} if wrapper == "none" else {"with": wrapper}),
        **({} if topology is None else {"topology": f"{topology}, {graph}"}),
        "participation": _participation(run),
        "keep": results["keep"],
        "guard": "on" if results["guard"] else "off",
        **({"alone share": results["alone_share"]} if "alone_share" in results else {}),
        "fine-tuning": results["fine_tune"],
        **_protocol(results),
        **(
            {}
            if has_single_objective(results)
            else {"reference point": vector(results["reference_point"])}
        ),
        **({"strict reference point": vector(strict)} if strict else {}),
        "seed": results["seed"],
    }
    return facts(values)


def _participation(run: Run) -> str:
    """Return who takes part in a round: a share of the clients, or whom the contact plan lets."""
    if run.configuration.links is None:
        return f"{run.configuration.participation:.0%} per round"
    links = run.results.get("links")
    if links is None:
        return "by the contact plan"
    each = links["updates_per_client"]
    return (
        f"by the contact plan: {links['updates']:,} updates in {links['rounds']:,} rounds, "
        f"{range_text([each['least'], each['most']])} per client"
    )


def _protocol(results: Results) -> dict[str, str]:
    """Return the settings of the data or the episodes that models are judged on."""
    if "samples" not in results:
        episodes = results["episodes"]
        return {"episodes": f"{episodes['validation']} validation, {episodes['test']} test"}
    parts = (f"{range_text(counts)} {part}" for part, counts in results["samples"].items())
    return {
        "partition": results["partition"],
        "sizes": results["sizes"],
        "samples per client": " / ".join(parts),
    }


def _measures(results: Results) -> str:
    terms, single_objective = terms_of(results), has_single_objective(results)
    note = (
        f"On {terms.tests}. Kept: the models that clients end with (keep = {results['keep']}); "
        f"last: those of the last round; trivial: {terms.trivial}."
    )
    strict = results.get("strict_reference_point")
    reference = reference_text(results["reference_point"], strict)
    note = " ".join([note, *([f"{reference}."] if reference else []), *run_remarks(results)])
    columns = {**kept_and_last(results), **baselines(results)}
    return measures_table(columns, note, single_objective)


def _clients(results: Results) -> str:
    clients, single_objective = results["per_client"], has_single_objective(results)
    names = list(clients[0]["objectives"])
    reached = results["spanned"]["per_client"] if "spanned" in results else None
    regret, marked = "optimum" in clients[0], all("mark" in client for client in clients)
    accompanied = all("alone" in client for client in clients)
    rows = [
        [
            name_of(client),
            *([] if single_objective else [preference_text(client["preference"])]),
            *(number(client["objectives"][name]) for name in names),
            *([] if single_objective else [number(client["scalarised"])]),
            *([number(regret_of(client))] if regret else []),
            *([number(reached[client["client"]])] if reached else []),
            *([number(client["trivial"]), client["mark"]] if marked else []),
            *(companion_cells(client["alone"]) if accompanied else []),
        ]
        for client in clients
    ]
    header = ["client", *names]
    if not single_objective:
        header = ["client", "preference", *names, "scalarised"]
    header += [*(["regret"] if regret else []), *(["hypervolume"] if reached else [])]
    header += ["trivial", "outcome"] if marked else []
    header += COMPANION_HEADINGS if accompanied else ()
    note = "" if single_objective else f"Preferences are weights on {', '.join(names)}. "
    return table(header, rows, note + marks_text(clients) + companions_text(clients))


def _data(results: Results, pictures: Pictures, terms: Terms) -> str:
    """Return the picture of the partition, and notes on the preparation of the samples."""
    items = "".join(f"<li>{text(note)}</li>" for note in results["notes"])
    notes = f"<ul>{items}</ul>" if items else "<p>The samples are as they came.</p>"
    if "partition" in pictures:
        return picture("partition", pictures, {}, terms) + notes
    if results["clients"] > MOST_CLIENTS:
        notes += f"<p>More than {MOST_CLIENTS} clients have no room in a picture.</p>"
    return notes


def _effort(run: Run) -> str:
    results = run.results
    steps = results.get("environment_steps", {})
    data = "samples" in results
    trained = {}
    if data:
        trained["training steps"] = results["training_steps"]
        trained["loss terms skipped"] = results["skipped_terms"]
    rows = [
        *_travelled(run),
        *([f"environment steps, {kind}", f"{count:,}"] for kind, count in steps.items()),
        *([label, f"{count:,}"] for label, count in trained.items()),
        ["mixed models declined by clients", str(sum(sum(e["declined"]) for e in run.history))],
        *_links(results),
        *_privacy(results),
        *_server_time(run),
    ]
    note = (
        "A training step is one batch. A loss term is skipped where a batch lacks the groups that "
        "it compares."
    )
    return table(["", "all clients together"], rows, note if data else "")


def _travelled(run: Run) -> list[list[str]]:
    """Return what travelled between whom."""
    up, down = (
        with_unit(run.results["communication"][name], _BYTES) for name in ("bytes_up", "bytes_down")
    )
    if run.configuration.topology == "neighbours":
        return [["from clients to clients", up]]
    return [["from clients to the server", up], ["from the server to clients", down]]


def _links(results: Results) -> list[list[str]]:
    """Return the use of links, if the run has any."""
    if "links" not in results:
        return []
    links = results["links"]
    counts, age = links["updates_per_client"], links["age"]
    spread = f"{counts['least']}, {counts['median']:g}, {counts['most']}"
    rows = [
        ["days of the contact plan", number(links["days"], 3)],
        ["updates", f"{links['updates']:,}"],
        ["updates per client: least, median, most", spread],
        ["age of updates: mean, most", f"{age['mean']:.2f}, {age['most']}"],
        ["updates too old to be mixed", str(links["late_dropped"])],
        ["transmitters of clients on", f"{links['radio_seconds']:,.0f} s"],
        ["use of passes, planned", f"{links['pass_use']:.1%}"],
    ]
    if "energy_joules" in links:
        rows.append(["energy of transmitters", f"{links['energy_joules']:,.0f} J"])
    return rows


def _privacy(results: Results) -> list[list[str]]:
    """Return epsilon and delta, if the run has any."""
    if "privacy" not in results:
        return []
    privacy = results["privacy"]
    where = "simulated: nothing is private" if privacy["simulated"] else "of the sites' own noise"
    rows = [
        [f"epsilon of a client, at delta = {privacy['delta']:g}", number(privacy["epsilon"], 4)],
        ["noise multiplier, clip", f"{privacy['noise']:.4g}, {privacy['clip']:g} ({where})"],
    ]
    if "per_client" in privacy:
        each = ", ".join(number(value, 3) for value in privacy["per_client"])
        rows.append(["epsilon of each client", each])
    return rows


def _server_time(run: Run) -> list[list[str]]:
    spent = run.spent
    if not spent.get("clients"):
        return []
    return [["the server's time, of the clients'", f"{spent['server'] / spent['clients']:.1%}"]]


def _events(history: Iterable[HistoryEntry]) -> str:
    events = [event for entry in history for event in entry["events"]]
    if not events:
        return "<p>Nothing went wrong.</p>"
    items = "".join(f"<li>{text(event)}</li>" for event in events[:_MOST_EVENTS])
    rest = len(events) - _MOST_EVENTS
    return f"<ul>{items}</ul>" + (f"<p>And {rest} more.</p>" if rest > 0 else "")


def _settings(run: Run) -> str:
    configuration = run.configuration
    values = configuration.model_dump(exclude={"algorithm_settings", "learner_settings"})
    for name in ("links", "privacy"):
        if values[name] is None:
            del values[name]
    values["problem"] = run.described_problem
    values["preferences"] = run.results["preferences"]  # those given are in the clients' table
    values[configuration.algorithm_name] = configuration.algorithm_settings
    values[configuration.get_problem().learner] = configuration.learner_settings
    return settings(values)
