"""Parts of pages, as HTML that needs no network.

All that comes from data passes through `text`, which escapes it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from comity.report.html.charts import Chart
from comity.report.measures import Cell, available_measures, number
from comity.runs.schema import Metrics
from comity.version import __version__

Pictures = Mapping[str, Path]
"""Files of pictures by name, beside the page."""


def text(value: object) -> str:
    """Return data as HTML."""
    return escape(str(value))


def section(title: str, content: str) -> str:
    """Return a part of a page with its heading; the content is HTML."""
    return f"<section><h2>{text(title)}</h2>{content}</section>"


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str | Cell]],
    note: str = "",
    prose: bool = False,
) -> str:
    """Return a table of plain strings, or cells of a comparison.

    Args:
        header: The headings of the columns.
        rows: The cells; the first of a row is its heading.
        note: A remark above the table.
        prose: Whether cells are text that may wrap, and not numbers.
    """
    top = "".join(f'<th scope="col">{text(cell)}</th>' for cell in header)
    lines = "".join(
        f'<tr><th scope="row">{text(row[0])}</th>{"".join(map(_cell, row[1:]))}</tr>'
        for row in rows
    )
    # beside the table, not inside it: a wide table scrolls, its note should not
    caption = f'<p class="note">{text(note)}</p>' if note else ""
    kind = ' class="prose"' if prose else ""
    return (
        f'{caption}<div class="scroll"><table{kind}><thead><tr>{top}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cell(content: str | Cell) -> str:
    cell = content if isinstance(content, Cell) else Cell(content)
    kinds = {"best": cell.best, "below": cell.below, "spread": "±" in cell.text}
    names = " ".join(name for name, has in kinds.items() if has)
    kind = f' class="{names}"' if names else ""
    # a line may break before ±, and nowhere else
    words = text(("★\u00a0" if cell.best else "") + cell.text).replace("± ", "±\u00a0")
    return f"<td{kind}>{words}</td>"


def measures_table(
    columns: Mapping[str, Metrics], note: str, single_objective: bool = False
) -> str:
    """Return a table with one row per measure that the first of the columns has."""
    rows = [
        [measure.label + measure.arrow, *(number(v.get(measure.name)) for v in columns.values())]
        for measure in available_measures(next(iter(columns.values())), single_objective)
    ]
    return table(["measure", *columns], rows, note)


def figure(name: str, caption: str, pictures: Pictures, charts: Mapping[str, Chart]) -> str:
    """Return a chart if there is one, otherwise a picture, with its caption.

    A picture is part of the page. A chart refers to the picture's file, which stands in its place
    where no script runs.

    Args:
        name: The name of the picture.
        caption: The caption, as plain text.
        pictures: The files of the pictures.
        charts: The specifications of the charts by picture.
    """
    bottom = f"<figcaption>{text(caption)}</figcaption></figure>"
    if name not in charts:
        data = base64.b64encode(pictures[name].read_bytes()).decode()
        image = f'<img alt="{text(caption)}" src="data:image/png;base64,{data}">'
        return f"<figure>{image}{bottom}"
    image = f'<img alt="{text(caption)}" src="{text(pictures[name].name)}">'
    # inside a script element only "<" could end it early
    spec = json.dumps(charts[name]).replace("<", "\\u003c")
    chart = f'<div class="chart"></div><script type="application/json">{spec}</script>'
    return f'<figure class="live">{image}{chart}{bottom}'


def verdict(sentences: Sequence[str]) -> str:
    """Return the verdict of a run, a search or a comparison; the first sentence is the boldest."""
    lines = "".join(f"<p>{text(sentence)}</p>" for sentence in sentences)
    return f'<section class="verdict">{lines}</section>' if lines else ""


def tiles(numbers: Iterable[tuple[str, str]]) -> str:
    """Return a few important numbers with their names."""
    cells = (f'<div class="tile"><b>{text(v)}</b><span>{text(k)}</span></div>' for k, v in numbers)
    return f'<div class="tiles">{"".join(cells)}</div>'


def facts(values: Mapping[str, object]) -> str:
    """Return a short list of names and values."""
    items = (f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in values.items())
    return f'<dl class="facts">{"".join(items)}</dl>'


def settings(values: Mapping[str, Any]) -> str:
    """Return all settings as in ``config.toml``, folded away."""
    rows = []
    for name, value in values.items():
        nested = {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {}
        rows += [[key, _setting(v)] for key, v in (nested or {name: value}).items()]
    content = table(["setting", "value"], rows, prose=True)
    return f"<details><summary>All settings</summary>{content}</details>"


def _setting(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str) else value


def page(title: str, body: Sequence[str], script: str | None = None) -> str:
    """Return a whole page.

    Args:
        title: Its title, as plain text.
        body: Its sections, as HTML.
        script: The relative path of plotly's script; None for a page without charts.
    """
    plotly = "" if script is None else f'<script src="{text(script)}"></script>\n'
    charts = "" if script is None else f"<script>{_asset('page.js')}</script>\n"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="comity {text(__version__)}">
<title>{text(title)} · Comity</title>
<style>{_asset("page.css")}</style>
</head>
<body>
<main>
{"".join(body)}
<p class="note">To look closer, round by round and client by client, and to take models home, call
<code>comity explore</code> with the directory of this page.</p>
</main>
{plotly}{charts}</body>
</html>
"""


def _asset(name: str) -> str:
    return (files("comity.report.html") / name).read_text()
