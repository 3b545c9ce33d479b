"""Runs, searches and comparisons in notebooks: short texts, small tables, rows for data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from comity.errors import UserError, unknown
from comity.runs.schema import ClientResult, HistoryEntry, Spread
from comity.runs.search_schema import FrontPoint, SearchEntry
from comity.runs.verdict import counted

if TYPE_CHECKING:
    from pandas import DataFrame

Rows = list[dict[str, Any]]
"""A table: one flat dict per row, with the same names in all of them."""
T = TypeVar("T", bound=str)
"""Names of the tables that an object has."""

_NUMBERS = ("steps", "validation_steps", "skipped", "declined")
_VECTORS = ("received", "trained", "kept")


class Tabular(Generic[T]):
    """An object that has tables, the first of them being the default."""

    def _tables(self) -> Mapping[T, Callable[[], Rows]]:
        """Return what makes each table, by name."""
        raise NotImplementedError

    def rows(self, table: T | None = None) -> Rows:
        """Return a table as a list of flat dicts, for any library of data frames.

        Args:
            table: Name of the table; None: the first one. Run: ``"clients"`` (one row per client)
                or ``"rounds"`` (per round and participant). Comparison: ``"clients"`` (per entry,
                preferences, seed and client) or ``"entries"`` (per row of its table). Search:
                ``"points"`` (per point of the front) or ``"iterations"``. Comparison of searches:
                ``"points"`` (per entry, seed and point) or ``"entries"``. Tuning: ``"trials"`` or
                ``"seeds"`` (per trial and seed).
        """
        tables = self._tables()
        name = next(iter(tables)) if table is None else table
        if name not in tables:
            raise unknown("table", name, tables)
        return tables[name]()

    def to_pandas(self, table: T | None = None) -> DataFrame:
        """Return a table as a data frame of pandas.

        Args:
            table: Name of the table, as for `rows`.
        """
        try:
            from pandas import DataFrame
        except ImportError:
            raise UserError(
                "to_pandas: pandas is not installed. Install it with: pip install "
                "'comity[pandas]'; or give what rows() returns to another library."
            ) from None
        return DataFrame(self.rows(table))


class Shown:
    """Text and HTML of a finished comparison."""

    path: Path
    results: Mapping[str, Any]

    def __repr__(self) -> str:
        rows = self.results["rows"]
        keys = "algorithm" if "algorithm" in rows[0] and "search" not in rows[0] else "search"
        entries = ", ".join(dict.fromkeys(row[keys] for row in rows))
        return (
            f"<comity comparison {self.path}: {entries} on {self.results['problem']}, "
            f"{counted(len(rows[0]['seeds']), 'seed')}>"
        )

    def _repr_html_(self) -> str:
        """Return mean and standard deviation over seeds, one line per row; of one seed the mean."""
        rows = self.results["rows"]
        names = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
        keys = [key for key in ("search", "algorithm", "preferences") if key in rows[0]]
        cells = [
            [*(row[key] for key in keys), *(_spread(row["metrics"].get(name)) for name in names)]
            for row in rows
        ]
        trivial = self.results.get("trivial", {})
        cells.append(["trivial", *[""] * (len(keys) - 1), *(_number(trivial, n) for n in names)])
        seeds = counted(len(rows[0]["seeds"]), "seed")
        about = f"{self.results['problem']}, {seeds}: {self.path}"
        return html_table([*keys, *names], cells, _caption(self.results, about))


def summary(results: Mapping[str, Any]) -> str:
    """Return what ran, in one line: algorithm or search, problem, size, seed.

    Args:
        results: The content of ``results.json`` of a run or search.
    """
    generator = results.get("generator")
    what = results["algorithm"] if generator is None else f"{generator} search"
    size = (
        f"{results['clients']} clients, {results['rounds']} rounds"
        if generator is None
        else f"{results['candidates']} candidates"
    )
    return f"{what} on {results['problem']}, {size}, seed {results['seed']}"


def results_html(results: Mapping[str, Any], path: Path) -> str:
    """Return the measures of a finished run or search, beside those of doing nothing.

    Args:
        results: The content of ``results.json``.
        path: The directory.
    """
    columns = {
        title: results[kind]
        for kind, title in (("metrics", "kept"), ("metrics_last", "last"), ("trivial", "trivial"))
        if kind in results
    }
    if "generator" in results:
        columns = {results["generator"]: results["metrics"], "trivial": results["trivial"]}
    if "control" in results:
        columns["random weights"] = results["control"]["metrics"]
    rows = [
        [name, *(_number(values, name) for values in columns.values())]
        for name in results["metrics"]
    ]
    return html_table(["measure", *columns], rows, _caption(results, f"{summary(results)}: {path}"))


def client_rows(clients: Iterable[ClientResult], objectives: Sequence[str], **common: Any) -> Rows:
    """Return one flat row per client.

    Args:
        clients: The clients of ``results.json``.
        objectives: Names of the objectives.
        **common: Values that every row begins with.
    """
    rows = []
    for client in clients:
        last = client.get("objectives_last", client["objectives"])
        row = {**common, "client": client["client"], "name": client["name"]}
        row |= {name: client["objectives"][name] for name in objectives}
        row |= {"scalarised": client["scalarised"]}
        row |= {name: client.get(name) for name in ("trivial", "optimum", "mark", "kept_round")}
        row |= {f"last/{name}": last[name] for name in objectives}
        weights = zip(objectives, client["preference"], strict=True)
        rows.append(row | {f"preference/{name}": weight for name, weight in weights})
    return rows


def point_rows(points: Iterable[FrontPoint], **common: Any) -> Rows:
    """Return one flat row per point of a front.

    Args:
        points: The points of ``results.json``.
        **common: Values that every row begins with.
    """
    rows = []
    for point in points:
        row = {**common, "point": point["point"], **point["objectives"]}
        weights = zip(point["objectives"], point["weight"], strict=True)
        row |= {f"weight/{name}": weight for name, weight in weights}
        row |= {"iteration": point["iteration"], "candidate": point["candidate"]}
        rows.append(row | {"round": point["round"], "model": point["model"]})
    return rows


def iteration_rows(history: Iterable[SearchEntry]) -> Rows:
    """Return one flat row per iteration of a search."""
    return [
        {
            "iteration": entry["iteration"],
            "candidates": len(entry["candidates"]),
            "evaluations": entry["evaluations"],
            "hypervolume": entry["hypervolume"],
            "points": len(entry["front"]),
            **{name: entry["communication"][name] for name in ("bytes_up", "bytes_down")},
        }
        for entry in history
    ]


def entry_rows(rows: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> Rows:
    """Return one flat row per row of a comparison's table: mean and deviation of each measure.

    Args:
        rows: The rows of the comparison.
        keys: What tells them apart.
    """

    def flat(metrics: Mapping[str, Spread]) -> dict[str, float | None]:
        means = {name: value["mean"] for name, value in metrics.items()}
        return {**means, **{f"{name}/std": value["std"] for name, value in metrics.items()}}

    return [
        {**{key: row[key] for key in keys}, "seeds": len(row["seeds"]), **flat(row["metrics"])}
        for row in rows
    ]


def history_rows(history: Iterable[HistoryEntry], objectives: Sequence[str]) -> Rows:
    """Return one flat row per round and participating client.

    Args:
        history: The rounds.
        objectives: Names of the objectives.
    """
    rows = []
    for line in history:
        entry: Mapping[str, Any] = line
        for place, client in enumerate(entry["clients"]):
            row = {"round": entry["round"], "client": client}
            row |= {name: entry[name][place] for name in _NUMBERS if name in entry}
            for kind in _VECTORS:
                vectors = entry.get(kind)
                values = [None] * len(objectives) if vectors is None else vectors[place]
                pairs = zip(objectives, values, strict=True)
                row |= {f"{kind}/{name}": value for name, value in pairs}
            rows.append(row)
    return rows


def _caption(results: Mapping[str, Any], about: str) -> str:
    """Return the verdict, where results have one, and what ran."""
    sentences = results.get("verdict", {}).get("sentences", ())
    return f"{' '.join(sentences)} ({about})" if sentences else about


def _spread(value: Spread | None) -> str:
    """Return mean ± standard deviation; the mean alone where there is no spread."""
    if value is None:
        return ""
    mean, std = f"{value['mean']:.4g}", value["std"]
    return mean if std is None else f"{mean} ± {std:.2g}"


def _number(values: Mapping[str, float], name: str) -> str:
    return f"{values[name]:.4g}" if name in values else ""


def html_table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return a small table as HTML; everything in it is escaped.

    Args:
        header: Names of the columns.
        rows: Cells of each row.
        caption: Text above the table; empty: none.
    """
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    top = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{above}<thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"
