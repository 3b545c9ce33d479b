"""What terminal tables are made of, and the words that pages share with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from comity.report.measures import Measure, number, present, single, spread, vector

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
    "dropped": "drop- ped",
}

_REMARKS = {
    "own_hypervolume": "Hypervolume per client: of what a client's own model reaches, mean over "
    "clients; a single point, or all that it spans where the model takes any preference.",
    "dropped": "Dropped: the share of clients whose models count for no front and no hypervolume "
    "because they are perfectly fair, as one that always gives the same answer is.",
    "undefined": "Undefined: the share of clients for whom a score means nothing, because their "
    "samples lack a group that it compares; they count for no front either.",
}
_OWN = "Each client's model is judged on the client's own test samples; global: on everyone's."


def judged(results: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Measures of the kept and of the last models; equal ones are stored once."""
    metrics = results["metrics"]
    return {"kept": metrics, "last": results.get("metrics_last", metrics)}


def baselines(results: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Measures of the idle policy and of the best possible, where they are known."""
    return {name: results[name] for name in ("trivial", "optimum") if name in results}


def reference_text(results: Mapping[str, Any]) -> str:
    """The reference point belongs to every hypervolume; one objective has none."""
    if single(results):
        return ""
    text = f"Reference point of the hypervolume: {vector(results['reference_point'])}"
    if "strict_reference_point" not in results:
        return text
    strict = vector(results["strict_reference_point"])
    return f"{text}; of the strict one, above which only models of some use are: {strict}"


def remarks(results: Mapping[str, Any]) -> list[str]:
    """What measures mean that need explaining, where a run or a comparison has some."""
    if single(results):
        return [_OWN]
    if "rows" in results:
        metrics = [row["metrics"] for row in results["rows"]]
        found = {name for own in metrics for name, metric in own.items() if metric["mean"]}
    else:
        found = {name for own in judged(results).values() for name, value in own.items() if value}
    return [meaning for name, meaning in _REMARKS.items() if name in found]


def preference_text(preference: Sequence[float]) -> str:
    return "  ".join(f"{weight:.2f}" for weight in preference)


def regret_of(client: Mapping[str, Any]) -> float | None:
    """How far a client is from its optimum, where that is known."""
    if "optimum" not in client or client["scalarised"] is None:
        return None
    # returns are sums of float32 rewards: what is below is noise, of either sign
    return round(float(client["optimum"] - client["scalarised"]), 5)


def over_seeds(comparison: Mapping[str, Any]) -> str:
    seeds = sorted({len(row["seeds"]) for row in comparison["rows"]})
    return (
        f"Mean ± standard deviation over {' or '.join(map(str, seeds))} "
        f"{'seed' if seeds == [1] else 'seeds'}"
    )


def blank(title: str, caption: str | None) -> Table:
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


def measured(
    table: Table, columns: Mapping[str, Mapping[str, float]], alone: bool = False
) -> Table:
    """One row a measure that the first of the columns has."""
    table.add_column("measure")
    main = next(iter(columns))
    for name in columns:
        table.add_column(name, justify="right", style="bold" if name == main else "")
    for measure in present(columns[main], alone):
        cells = [number(values.get(measure.name)) for values in columns.values()]
        table.add_row(Text(measure.label + measure.arrow), *cells)
    return table


def add_measures(table: Table, measures: Sequence[Measure], narrow: bool = True) -> None:
    if len(measures) > 6:
        table.padding = 0
    for measure in measures:
        short = _NARROW.get(measure.name, measure.label.replace("fairness-", "fair- ness- "))
        heading = short if narrow else measure.label
        # a strict hypervolume has zeros before its digits
        width = 7 if measure.name == "strict_hypervolume" else 6
        table.add_column(
            Text(heading + measure.arrow), justify="right", overflow="fold", min_width=width
        )


def add_yardsticks(
    table: Table, results: Mapping[str, Any], measures: Sequence[Measure], *others: str
) -> None:
    """Rows of the trivial baseline and the optimum below those that can be best."""
    for name, values in baselines(results).items():
        cells = [Text(f"{number(values.get(measure.name))}  ") for measure in measures]
        table.add_row(Text(name, style="dim"), *cells, *others)


def measure_cell(row: Mapping[str, Any], measure: Measure, marked: bool) -> Text:
    if measure.name not in row["metrics"]:
        return Text("–")
    text = spread(row["metrics"][measure.name])
    return Text(f"{text} ★", style="bold green") if marked else Text(f"{text}  ")
