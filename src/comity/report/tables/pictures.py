"""Printed tables of accuracies on pictures beside ours."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.captions import seeds_text
from comity.report.columns import first_text
from comity.report.measures import PICTURE_HEADINGS, mean_and_std, number, percent
from comity.report.tables.layout import empty_table
from comity.runs.reproduction_schema import PictureResults, PictureRow
from comity.runs.schema import Difference, Spread

_SHORT = {"participation": "share", "local_epochs": "passes"}
PAPERS = {"pfedrlla": "paper", "confree": "poster"}


def picture_table(results: PictureResults) -> Table:
    """Return a table of accuracies or times beside the printed one; one row per row and part."""
    rows, measures = results["rows"], results["measures"]
    parts = [{name: str(_value(row, name)) for name in _parts(results)} for row in rows]
    differing = [name for name in _parts(results) if len({part[name] for part in parts}) > 1]
    same = "".join(f", {value}" for name, value in parts[0].items() if name not in differing)
    title = f"{results['table']} on {results['problem']}{same}: {_lower(results['title'])}"
    table = empty_table(title, picture_caption(results))
    for name in (*differing, "algorithm"):
        table.add_column(_SHORT.get(name, name), no_wrap=name == "algorithm")
    printed = [name for name in measures if any(name in row["printed"] for row in rows)]
    for measure in measures:
        table.add_column(PICTURE_HEADINGS[measure], justify="right")
        if measure in printed:
            table.add_column("printed", justify="right")
    gains = [name for name in ("host", "control") if any(name in _over(row) for row in rows)]
    for name in gains:
        table.add_column(f"over {name}", justify="right")
    soon = _shows_how_soon(results)
    for heading in ("rounds to target", "seconds to target") if soon else ():
        table.add_column(heading, justify="right")
    for row, part, previous in zip(rows, parts, [None, *parts], strict=False):
        cells = []
        for measure in measures:
            cells.append(_spread(row["ours"][measure], percent(measure)))
            if measure in printed:
                value = row["printed"].get(measure)
                cells.append("–" if value is None else number(percent(measure) * value))
        cells += [_gain(_over(row).get(name)) for name in gains]
        cells += _soon(row) if soon else []
        first = ["" if part == previous else part[name] for name in differing]
        table.add_row(*first, Text(row["algorithm"]), *cells)
    return table


def picture_caption(results: PictureResults) -> str:
    """Return what a reader must know of the runs and of the printed figures."""
    rows, protocol = results["rows"], results["protocol"]
    parts = [seeds_text(rows)]
    people = [f"{protocol['clients']} clients"] if "clients" in protocol else []
    if "participation" in protocol:
        people.append(f"a share of {protocol['participation']:g} per round")
    if "rounds" in protocol:
        people.append(f"{protocol['rounds']} rounds")
    parts.append(", ".join(people))
    if "preset" in protocol:
        parts.append(f"Preset {protocol['preset']}")
    plain = "; fedavg does not" if any("fine_tune=none" in row["entry"] for row in rows) else ""
    if protocol.get("fine_tune", "none") != "none":
        parts.append(f"After the last delivery clients train once more{plain}")
    if "before" in results["measures"]:
        parts.append("Before and after that: on validation data; accuracy: after it, on test data")
    if "alone" in protocol:
        parts.append(f"Alone (no-communication): all clients in each of {protocol['alone']} rounds")
    if "agent" in protocol:
        parts.append(f"The agent of pfedrlla has learned for {protocol['agent']} rounds before")
    if "seconds" in results["measures"]:
        parts.append(
            "Seconds of training and mixing here. Stable: 99 % of a run's highest validation "
            "accuracy, our definition"
        )
    if any("over" in row for row in rows):
        parts.append(
            "Over host, over control: gain in points, seed by seed; the control, scaled-mean, is "
            "the plain mean made as long as ConFREE's step"
        )
    if _shows_how_soon(results):
        parts.append(
            f"Target, in validation accuracy of all clients, measured in some rounds: "
            f"{_targets(results)}"
        )
    parts.append(_printed_text(results))
    return ". ".join(part for part in parts if part) + "."


def _printed_text(results: PictureResults) -> str:
    """Return what is said on printed figures."""
    source = PAPERS[results["table"].partition("-")[0]]
    data, elsewhere = results["stands_in_for"], results["printed_elsewhere"]
    if not elsewhere and not any(row["printed"] for row in results["rows"]):
        figures = f"he {source} has a picture without figures"
        stands = f"{results['problem']} stands in for {data}, of which t" if data else "T"
        return stands + figures
    if data:
        return (
            f"{results['problem']} stands in for {data}: no printed figure is of these pictures, "
            "so print is only in the JSON file, under printed_elsewhere"
        )
    if not any(row["printed"] for row in results["rows"]):
        return "Nothing is printed for these settings; see printed_elsewhere in the JSON file"
    return f"Printed: after 500 rounds, on the authors' machine. {results['note']}".rstrip(" .")


def _lower(title: str) -> str:
    return (
        title if title[:2] == "pF" or title.startswith("ConFREE") else title[0].lower() + title[1:]
    )


def _parts(results: PictureResults) -> list[str]:
    """Return the names of what differs between parts of the table."""
    return ["partition", *results["varied"]]


def _shows_how_soon(results: PictureResults) -> bool:
    """Return whether there is room for when rows reach the target."""
    rows = results["rows"]
    crowded = len(results["measures"]) > 1 or any("over" in row for row in rows)
    return not crowded and any("how_soon" in row for row in rows)


def _targets(results: PictureResults) -> str:
    """Return the target of each part of the table."""
    targets: dict[str, float] = {}
    for row in results["rows"]:
        if "how_soon" in row:
            part = ", ".join(str(_value(row, name)) for name in _parts(results))
            targets[part] = row["how_soon"]["target"]
    if len(set(targets.values())) == 1:
        return f"{number(100 * next(iter(targets.values())), 3)} %"
    return "; ".join(f"{number(100 * value, 3)} % ({part})" for part, value in targets.items())


def _value(row: PictureRow, name: str) -> object:
    values: dict[str, object] = dict(row)
    return values[name]


def _over(row: PictureRow) -> dict[str, Difference]:
    return row.get("over", {})


def _spread(value: Spread | None, factor: float) -> str:
    """Return mean ± standard deviation; the mean alone where all values are equal."""
    if value is None:
        return "–"
    shown: Spread = {"mean": value["mean"], "std": value["std"] or None}
    return mean_and_std(shown, 3, factor)


def _gain(difference: Difference | None) -> str:
    if difference is None:
        return "–"
    sign = "+" if difference["mean"] > 0 else ""
    text = f"{sign}{number(100 * difference['mean'], 2)}"
    return f"{text} ± {number(100 * difference['std'], 2)}" if difference["std"] else text


def _soon(row: PictureRow) -> list[str]:
    soon = row.get("how_soon")
    if soon is None:
        return ["–", "–"]
    return [first_text(soon["rounds"]), first_text(soon["seconds"])]
