"""What pages are made of: HTML that needs nothing else, not even a network.

Everything that comes from data passes through `text`, which escapes it.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from comity.report.html.charts import Chart
from comity.report.measures import number, present
from comity.version import __version__

Pictures = Mapping[str, Path]


def text(value: object) -> str:
    """Data as HTML."""
    return escape(str(value))


def section(title: str, content: str) -> str:
    return f"<section><h2>{text(title)}</h2>{content}</section>"


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "", words: bool = False
) -> str:
    """A table of plain strings; the first column heads its row."""
    top = "".join(f'<th scope="col">{text(cell)}</th>' for cell in header)
    lines = "".join(
        f'<tr><th scope="row">{text(row[0])}</th>{"".join(_cell(cell) for cell in row[1:])}</tr>'
        for row in rows
    )
    # beside the table, not inside it: a wide table scrolls, its note should not
    caption = f'<p class="note">{text(note)}</p>' if note else ""
    kind = ' class="words"' if words else ""
    return (
        f'{caption}<div class="scroll"><table{kind}><thead><tr>{top}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cell(content: str) -> str:
    marked = ' class="best"' if content.startswith("★") else ""
    return f"<td{marked}>{text(content)}</td>"


def measures_table(
    columns: Mapping[str, Mapping[str, float]], note: str, alone: bool = False
) -> str:
    """One row a measure that the first of the columns has."""
    rows = [
        [measure.label + measure.arrow, *(number(v.get(measure.name)) for v in columns.values())]
        for measure in present(next(iter(columns.values())), alone)
    ]
    return table(["measure", *columns], rows, note)


def figure(name: str, caption: str, pictures: Pictures, charts: Mapping[str, Chart]) -> str:
    """A picture, with the chart that takes its place where scripts run."""
    data = base64.b64encode(pictures[name].read_bytes()).decode()
    image = f'<img alt="{text(caption)}" src="data:image/png;base64,{data}">'
    live, chart = "", ""
    if name in charts:
        live = ' class="live"'
        # inside a script element only "<" could end it early
        spec = json.dumps(charts[name]).replace("<", "\\u003c")
        chart = f'<div class="chart"></div><script type="application/json">{spec}</script>'
    return f"<figure{live}>{image}{chart}<figcaption>{text(caption)}</figcaption></figure>"


def tiles(numbers: Iterable[tuple[str, str]]) -> str:
    """The few numbers that a reader looks for first, with their names."""
    cells = (f'<div class="tile"><b>{text(v)}</b><span>{text(k)}</span></div>' for k, v in numbers)
    return f'<div class="tiles">{"".join(cells)}</div>'


def facts(values: Mapping[str, object]) -> str:
    """What was done, in short."""
    items = (f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in values.items())
    return f'<dl class="facts">{"".join(items)}</dl>'


def settings(values: Mapping[str, Any]) -> str:
    """Everything that decided the bits, as in ``config.toml``; folded away."""
    rows = []
    for name, value in values.items():
        inside = {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {}
        rows += [[key, _setting(v)] for key, v in (inside or {name: value}).items()]
    content = table(["setting", "value"], rows, words=True)
    return f"<details><summary>All settings</summary>{content}</details>"


def _setting(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str) else value


def page(title: str, body: Sequence[str]) -> str:
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
</main>
<script type="application/octet-stream" id="plotly">{_plotly()}</script>
<script>{_asset("page.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return (files("comity.report.html") / name).read_text()


@cache
def _plotly() -> str:
    """plotly.js, packed: 1.9 MB instead of 4.8, and unpacked by the browser itself."""
    from plotly.offline import get_plotlyjs

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode()
