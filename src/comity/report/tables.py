"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from comity.report.measures import (
    Measure,
    arranged,
    best,
    compared,
    folded,
    graded,
    has_data,
    number,
    present,
    scaled,
    shown_names,
    spread,
    vector,
    with_pooled,
)
from comity.report.words import DATA

if TYPE_CHECKING:
    from comity.report.figures.learning import Runs

# so that all columns fit on a terminal of 80 characters
_NARROW = {
    "pooled_hypervolume": "pooled hyper- volume",
    "hypervolume": "hyper- volume",
    "strict_hypervolume": "strict hyper- volume",
    "own_hypervolume": "hyper- volume per client",
    "cardinality": "cardi- nality",
    "sparsity": "spar- sity",
    "mean_scalarised": "return",
    "hypervolume_50": "hyper- volume halfway",
    "accuracy": "accu- racy",
    "fairness": "fair- ness",
}

_REMARKS = {
    "own_hypervolume": "Hypervolume per client: of what a client's own model reaches, mean over "
    "clients; a single point, or all that it spans where the model takes any preference.",
    "dropped": "Dropped: the share of clients whose models count for no front and no hypervolume "
    "because they are perfectly fair, as one that always gives the same answer is.",
    "undefined": "Undefined: the share of clients for whom a score means nothing, because their "
    "samples lack a group that it compares; they count for no front either.",
}


def run_table(results: Mapping[str, Any]) -> Table:
    """A run's measures: kept and last models beside the trivial policy and the optimum."""
    table = _table(
        f"{results['algorithm']} on {results['problem']}, seed {results['seed']}",
        _run_caption(results),
    )
    return _measured(table, {**judged(results), **yardsticks(results)})


def _run_caption(results: Mapping[str, Any]) -> str:
    caption = reference_text(results)
    if "samples" not in results:
        return caption
    return " ".join([f"{caption}.", f"Trivial: {DATA.trivial}.", *remarks(results)])


def _measured(table: Table, columns: Mapping[str, Mapping[str, float]]) -> Table:
    """One row a measure that the first of the columns has."""
    table.add_column("measure")
    main = next(iter(columns))
    for name in columns:
        table.add_column(name, justify="right", style="bold" if name == main else "")
    for measure in present(columns[main]):
        cells = [number(values.get(measure.name)) for values in columns.values()]
        table.add_row(Text(measure.label + measure.arrow), *cells)
    return table


def judged(results: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Measures of the kept and of the last models; equal ones are stored once."""
    metrics = results["metrics"]
    return {"kept": metrics, "last": results.get("metrics_last", metrics)}


def yardsticks(results: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Measures of the idle policy and of the best possible, where they are known."""
    return {name: results[name] for name in ("trivial", "optimum") if name in results}


def reference_text(results: Mapping[str, Any]) -> str:
    """The reference point belongs to every hypervolume."""
    text = f"Reference point of the hypervolume: {vector(results['reference_point'])}"
    if "strict_reference_point" not in results:
        return text
    strict = vector(results["strict_reference_point"])
    return f"{text}; of the strict one, above which only models of some use are: {strict}"


def remarks(results: Mapping[str, Any]) -> list[str]:
    """What measures mean that need explaining, where a run or a comparison has some."""
    if "rows" in results:
        metrics = [row["metrics"] for row in results["rows"]]
        found = {name for own in metrics for name, metric in own.items() if metric["mean"]}
    else:
        found = {name for own in judged(results).values() for name, value in own.items() if value}
    return [meaning for name, meaning in _REMARKS.items() if name in found]


def clients_table(results: Mapping[str, Any]) -> Table:
    """What each client wants and what it got."""
    clients = results["per_client"]
    table = _table("Clients", None)
    table.add_column("client", justify="right")
    table.add_column("preference")
    for name in clients[0]["objectives"]:
        table.add_column(Text(name), justify="right")
    table.add_column("scalarised", justify="right", style="bold")
    if "optimum" in clients[0]:
        table.add_column("regret", justify="right")
    for client in clients:
        table.add_row(
            str(client["client"]),
            preference_text(client["preference"]),
            *(number(value) for value in client["objectives"].values()),
            number(client["scalarised"]),
            *([number(regret_of(client))] if "optimum" in client else []),
        )
    return table


def preference_text(preference: Sequence[float]) -> str:
    return "  ".join(f"{weight:.2f}" for weight in preference)


def regret_of(client: Mapping[str, Any]) -> float | None:
    """How far a client is from its optimum, where that is known."""
    if "optimum" not in client or client["scalarised"] is None:
        return None
    # returns are sums of float32 rewards: what is below is noise, of either sign
    return round(float(client["optimum"] - client["scalarised"]), 5)


def comparison_tables(comparison: Mapping[str, Any], runs: Runs | None = None) -> list[Table]:
    """One table a preference distribution, one row an algorithm: mean ± std over seeds."""
    rows = arranged(with_pooled(comparison))
    measures, names = compared(rows), shown_names(rows)
    caption = comparison_caption({**comparison, "rows": rows}, runs or {})
    marks = {measure.name: best(rows, measure) for measure in measures}
    tables: dict[str, Table] = {}
    for place, row in enumerate(rows):
        kind = row["preferences"]
        if kind not in tables:
            title = f"{comparison['problem']}, {kind} preferences"
            tables[kind] = _table(title, caption)
            tables[kind].add_column("algorithm", no_wrap=True)
            _add_measures(tables[kind], measures)
        cells = [_cell(row, measure, marks[measure.name][place]) for measure in measures]
        # a label like fedpref[top_r=1] must not be read as markup
        tables[kind].add_row(Text(names[row["algorithm"]].replace(" (", "\n(")), *cells)
    if has_data(comparison):
        for table in tables.values():
            _add_yardsticks(table, comparison, measures)
    return list(tables.values())


def _add_measures(table: Table, measures: Sequence[Measure]) -> None:
    for measure in measures:
        heading = _NARROW.get(measure.name, measure.label.replace("fairness-", "fair- ness- "))
        # a strict hypervolume has zeros before its digits
        width = 8 if measure.name == "strict_hypervolume" else 6
        table.add_column(
            Text(heading + measure.arrow), justify="right", overflow="fold", min_width=width
        )


def _add_yardsticks(
    table: Table, results: Mapping[str, Any], measures: Sequence[Measure], *others: str
) -> None:
    """Rows of the trivial baseline and the optimum below those that can be best."""
    for name, values in yardsticks(results).items():
        cells = [Text(f"{number(values.get(measure.name))}  ") for measure in measures]
        table.add_row(Text(name, style="dim"), *cells, *others)


def comparison_caption(comparison: Mapping[str, Any], runs: Runs) -> str:
    first = next((run.results for seeds in runs.values() for run in seeds), comparison)
    caption = (
        f"{_over_seeds(comparison)}; the best of each preference distribution is marked ★. "
        f"{reference_text(first)}"
    )
    if not has_data(comparison):
        return caption
    parts = [f"{caption}."]
    if any("pooled_hypervolume" in row["metrics"] for row in comparison["rows"]):
        parts.append("Pooled: of all seeds' clients as one set.")
    return " ".join([*parts, f"Trivial: {DATA.trivial}.", *remarks(comparison)])


def _over_seeds(comparison: Mapping[str, Any]) -> str:
    seeds = sorted({len(row["seeds"]) for row in comparison["rows"]})
    return (
        f"Mean ± standard deviation over {' or '.join(map(str, seeds))} "
        f"{'seed' if seeds == [1] else 'seeds'}"
    )


def reproduction_table(results: Mapping[str, Any]) -> Table:
    """A printed table beside what we measured, under the paper's protocol and our defaults."""
    if results["measure"] == "own_hypervolume":
        return _per_client(results)
    table = _table(f"{results['table']}: {results['measure']} on {results['problem']}", None)
    if any("dropped" in row for row in results["rows"]):
        return _with_dropped(table, results["rows"])
    for heading in ("preferences", "algorithm"):
        table.add_column(heading, no_wrap=True)
    for heading in ("printed", "paper's protocol", "our defaults", "trivial", "optimum"):
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        table.add_row(
            Text(row["preferences"]),
            Text(row["algorithm"]),
            *(spread(row[name]) for name in ("printed", "paper_protocol", "our_defaults")),
            number(row["trivial"]),
            number(row["optimum"]),
        )
    return table


def _per_client(results: Mapping[str, Any]) -> Table:
    """The same of hypervolumes per client: under one protocol, but for several problems."""
    caption = (
        f"Reference point: {vector(results['reference_point'])}. Constant: the classifier that "
        "gives one answer to everything. Possible: for one centralised model, which knows the "
        "densities and has a threshold for each group."
    )
    table = _table(f"{results['table']}: hypervolume per client", caption)
    first = "clients" if results["across"] == "clients" else "problem"
    for heading in (first, "algorithm", "printed", "ours", "constant", "possible"):
        table.add_column(heading, no_wrap=True, justify="right" if table.columns[1:] else "left")
    for row in results["rows"]:
        name = shown_names([row])[row["algorithm"]].replace(" (", "\n(")
        ours = f"{row['ours']['mean']:.3f} ± {row['ours']['std']:.3f}"
        others = (number(value, 3) for value in (row["trivial"], row["reference"]))
        about = str(row[first]).removeprefix("praffl-"), Text(name)
        table.add_row(*about, number(row["printed"]["mean"], 3), ours, *others)
    return table


def _with_dropped(table: Table, rows: Sequence[Mapping[str, Any]]) -> Table:
    """The same of clients with data: with the shares of points that count for nothing."""
    table.caption = (
        "Last: the models of the last round, the paper's protocol; kept: the best validated ones, "
        "our default. Constant: the classifier that gives one answer to everything. Dropped: the "
        "share of points left out as trivially fair."
    )
    table.add_column("algorithm", no_wrap=True)
    for heading in ("printed", "last", "kept", "constant", "dropped, last", "dropped, kept"):
        table.add_column(heading, justify="right", min_width=len(heading.partition(" ")[0]))
    table.add_column("strict, kept", justify="right")
    for row in rows:
        means = [row[name]["mean"] for name in ("printed", "paper_protocol", "our_defaults")]
        values = [*means, row["trivial"], *row["dropped"].values(), row["strict_hypervolume"]]
        table.add_row(Text(row["algorithm"]), *(number(value, 3) for value in values))
    return table


def points_table(results: Mapping[str, Any]) -> Table:
    """The front that a search found: its points, and where each comes from."""
    points = results["front"]
    caption = (
        f"Iterations and rounds count from 1, candidates from 0. Models: {points[0]['model']}, …"
    )
    table = _table("Front", caption)
    table.add_column("point", justify="right")
    for name in points[0]["objectives"]:
        table.add_column(Text(name), justify="right", style="bold")
    table.add_column("trained for")
    for heading in ("iteration", "candidate", "round"):
        table.add_column(heading, justify="right")
    for point in points:
        table.add_row(
            str(point["point"]),
            *(number(value) for value in point["objectives"].values()),
            preference_text(point["weight"]),
            *origin_of(point),
        )
    return table


def origin_of(point: Mapping[str, Any]) -> list[str]:
    """Iteration, candidate and round that a point of a front comes from."""
    round = point["round"]
    return [
        str(point["iteration"]),
        str(point["candidate"]),
        "end" if round is None else str(round),
    ]


def search_table(results: Mapping[str, Any]) -> Table:
    """A search's measures beside its control, the trivial policy and the optimum."""
    title = f"{results['generator']} search on {results['problem']}, seed {results['seed']}"
    return _measured(_table(title, search_caption(results)), searched(results))


def searched(results: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Measures of what a search and its control found, and the yardsticks."""
    control = {"control": results["control"]["metrics"]} if "control" in results else {}
    return {"found": results["metrics"], **control, **yardsticks(results)}


def search_caption(results: Mapping[str, Any]) -> str:
    """What a search's measures rest on."""
    reference = vector(results["reference_point"])
    parts = [f"On test episodes. Reference point of the hypervolume: {reference}."]
    if cut := results["cut_by_reference_point"]:
        verbs = ("does", "counts") if cut == 1 else ("do", "count")
        parts.append(
            f"Attention: {cut} of the points found {verbs[0]} not lie above it and {verbs[1]} "
            "nothing for the hypervolume."
        )
    parts.append(f"Found with {_cost(results)}.")
    if "control" in results:
        parts.append(f"Control: random weights, {_cost(results['control'])}.")
    return " ".join(parts)


def _cost(results: Mapping[str, Any]) -> str:
    steps = sum(results["environment_steps"].values())
    return f"{results['candidates']} candidates and {steps:,} environment steps"


def searches_table(results: Mapping[str, Any]) -> Table:
    """Searches side by side, one row each: mean ± std over seeds, and what it cost."""
    measures, rows = graded(results["rows"], [50])
    table = _table(f"Searches on {results['problem']}", searches_caption(results))
    table.add_column("search", no_wrap=True)
    _add_measures(table, measures)
    for heading in ("candi- dates", "steps"):
        table.add_column(heading, justify="right", min_width=6)
    marks = {measure.name: best(rows, measure) for measure in measures}
    for place, row in enumerate(rows):
        cells = [_cell(row, measure, marks[measure.name][place]) for measure in measures]
        steps = scaled(row["environment_steps"], ("", "k", "M", "G"))
        table.add_row(Text(folded(row["search"])), *cells, number(row["candidates"]), steps)
    _add_yardsticks(table, results, measures, "–", "–")
    return table


def searches_caption(comparison: Mapping[str, Any]) -> str:
    return (
        f"{_over_seeds(comparison)}; the best is marked ★. Hypervolume after a part of the "
        "iterations is on the server's evaluation, all else on test episodes. Steps are those of "
        "all clients and the server in the environment. "
        f"Reference point of the hypervolume: {vector(comparison['reference_point'])}"
    )


def search_reproduction_table(results: Mapping[str, Any]) -> Table:
    """A printed table of searches beside ours, with the control of random weights."""
    table = _table(
        f"{results['table']} on {results['problem']}",
        f"Rows: clients/steps between averagings. Reference point of the hypervolume: "
        f"{vector(results['reference_point'])}",
    )
    for heading in ("measure", "row"):
        table.add_column(heading, no_wrap=True)
    columns = ("printed", "paper_protocol", "our_defaults", "random_control")
    for heading in ("printed", "paper's protocol", "our defaults", "random weights", "optimum"):
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        cells = [spread(row[name]) for name in columns]
        table.add_row(row["measure"], row["row"], *cells, number(row["optimum"]))
    return table


def _cell(row: Mapping[str, Any], measure: Measure, marked: bool) -> Text:
    if measure.name not in row["metrics"]:
        return Text("–")
    text = spread(row["metrics"][measure.name])
    return Text(f"{text} ★", style="bold green") if marked else Text(f"{text}  ")


def _table(title: str, caption: str | None) -> Table:
    return Table(
        title=Text(title, style="bold"),
        caption=None if caption is None else Text(caption),
        title_justify="left",
        caption_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
