"""Runs and comparisons as notebooks show them: short texts, small tables, rows of a history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from comity.runs.schema import HistoryEntry

_NUMBERS = ("steps", "validation_steps", "skipped", "declined")
_VECTORS = ("received", "trained", "kept")


class Shown:
    """Text and HTML of a finished comparison."""

    path: Path
    results: Mapping[str, Any]

    def __repr__(self) -> str:
        rows = self.results["rows"]
        return f"<comity comparison {self.path}: {len(rows)} rows, {len(rows[0]['seeds'])} seeds>"

    def _repr_html_(self) -> str:
        """Return mean and standard deviation over seeds, one line per row."""
        rows = self.results["rows"]
        names = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
        keys = [key for key in ("search", "algorithm", "preferences") if key in rows[0]]
        cells = [
            [*(row[key] for key in keys), *(_spread(row["metrics"].get(name)) for name in names)]
            for row in rows
        ]
        trivial = self.results.get("trivial", {})
        cells.append(["trivial", *[""] * (len(keys) - 1), *(_number(trivial, n) for n in names)])
        about = f"{self.results['problem']}, {len(rows[0]['seeds'])} seeds: {self.path}"
        return _table([*keys, *names], cells, _caption(self.results, about))


def run_html(results: Mapping[str, Any], path: Path) -> str:
    """Return the measures of a finished run, one line each, beside those of doing nothing.

    Args:
        results: The content of ``results.json``.
        path: The run's directory.
    """
    columns = {
        kind: results[kind] for kind in ("metrics", "metrics_last", "trivial") if kind in results
    }
    titles = {"metrics": "kept", "metrics_last": "last"}
    rows = [
        [name, *(_number(values, name) for values in columns.values())]
        for name in results["metrics"]
    ]
    about = (
        f"{results['algorithm']} on {results['problem']}, {results['clients']} clients, "
        f"{results['rounds']} rounds, seed {results['seed']}: {path}"
    )
    header = ["measure", *(titles.get(kind, kind) for kind in columns)]
    return _table(header, rows, _caption(results, about))


def history_rows(
    history: Iterable[HistoryEntry], objectives: Sequence[str]
) -> list[dict[str, Any]]:
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
    """Return the verdict, where results have one as a text, and what ran."""
    verdict = results.get("verdict")
    return f"{verdict} ({about})" if isinstance(verdict, str) else about


def _spread(value: Mapping[str, float] | None) -> str:
    return "" if value is None else f"{value['mean']:.4g} ± {value['std']:.2g}"


def _number(values: Mapping[str, float], name: str) -> str:
    return f"{values[name]:.4g}" if name in values else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """Return a small table as HTML; everything in it is escaped."""
    top = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{lines}</tbody></table>"
    )
