"""The page of a run or a comparison: one HTML file that needs nothing else, not even a network.

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

from comity.report.charts import Chart, front_chart, learning_chart, rewards_chart
from comity.report.figures.learning import Runs
from comity.report.measures import arranged, best, compared, number, present, spread, vector
from comity.report.tables import (
    comparison_caption,
    judged,
    preference_text,
    regret_of,
    yardsticks,
)
from comity.runs import Run
from comity.version import __version__

Pictures = Mapping[str, Path]
_EVENTS = 50

_CAPTIONS = {
    "front": "Each client's model among the objectives, coloured by the client's preference. "
    "Objectives are maximised: up and to the right is better.",
    "rewards": "Mean scalarised validation return over the rounds: of the models that clients "
    "keep, that they have just trained, and that they received.",
    "mixing": "Who learns from whom: each row is a receiver, each column a giver.",
    "clusters": "One line a client: together while in one cluster, apart after a split.",
    "bars": "Mean over seeds with its standard deviation. Dots stand where bars from zero would "
    "hide the differences.",
    "learning": "How good kept models are against the environment steps that a client has spent; "
    "mean over seeds, with its standard error as a band.",
}


def text(value: object) -> str:
    """Data as HTML."""
    return escape(str(value))


def run_page(run: Run, pictures: Pictures) -> str:
    """The page of a finished run."""
    results = run.results
    problem = run.configuration.get_problem()
    charts = {"front": front_chart(run), "rewards": rewards_chart(run)}
    body = [
        f"<h1>{text(problem.title)}: {text(run.configuration.label)}</h1>",
        f'<p class="lead">{_sentence(run)}</p>',
        _tiles(results),
        _facts(run),
        _section("Where the clients ended", _figure("front", pictures, charts)),
        _section("Measures", _measures(results)),
        _section("Over the rounds", _figure("rewards", pictures, charts)),
        *(
            _section(title, _figure(name, pictures, charts))
            for name, title in (("mixing", "Who learned from whom"), ("clusters", "Clusters"))
            if name in pictures
        ),
        _section("Clients", _clients(results)),
        _section("Communication and effort", _effort(run)),
        _section("Events", _events(run.history)),
        f"<details><summary>All settings</summary>{_settings(run)}</details>",
    ]
    return _page(f"{run.configuration.label} on {run.configuration.problem}", body)


def comparison_page(comparison: Mapping[str, Any], runs: Runs, pictures: Pictures) -> str:
    """The page of a finished comparison."""
    title = f"Algorithms on {comparison['problem']}"
    chart = learning_chart(comparison, runs)
    charts = {} if chart is None else {"learning": chart}
    body = [f"<h1>{text(title)}</h1>", _section("Measures", _comparison(comparison, "metrics"))]
    if all("metrics_last" in row for row in comparison["rows"]):
        last = _comparison(comparison, "metrics_last")
        body.append(f"<details><summary>The same of the last models</summary>{last}</details>")
    for name, heading in (("bars", "Side by side"), ("learning", "Learning curves")):
        if name in pictures:
            body.append(_section(heading, _figure(name, pictures, charts)))
    return _page(title, body)


# -- parts of a run's page -----------------------------------------------------------------


def _sentence(run: Run) -> str:
    results = run.results
    return (
        f"{results['clients']} clients, {results['rounds']} rounds, "
        f"{text(results['preferences'])} preferences, seed {results['seed']}."
    )


def _tiles(results: Mapping[str, Any]) -> str:
    """The few numbers that a reader looks for first."""
    tiles = [
        (measure.label, number(results["metrics"][measure.name]))
        for measure in present(results["metrics"])[:4]
    ]
    sent = sum(results["communication"].values())
    tiles.append(("sent in all", _bytes(sent)))
    cells = (f'<div class="tile"><b>{v}</b><span>{text(k)}</span></div>' for k, v in tiles)
    return f'<div class="tiles">{"".join(cells)}</div>'


def _facts(run: Run) -> str:
    """What was run, in short."""
    results = run.results
    episodes = results["episodes"]
    facts = {
        "problem": results["problem"],
        "algorithm": results["algorithm"],
        "participation": f"{run.configuration.participation:.0%} a round",
        "keep": results["keep"],
        "guard": "on" if results["guard"] else "off",
        "fine-tuning": results["fine_tune"],
        "episodes": f"{episodes['validation']} validation, {episodes['test']} test",
        "reference point": vector(results["reference_point"]),
        "seed": results["seed"],
    }
    items = (f"<div><dt>{k}</dt><dd>{text(v)}</dd></div>" for k, v in facts.items())
    return f'<dl class="facts">{"".join(items)}</dl>'


def _measures(results: Mapping[str, Any]) -> str:
    columns = {**judged(results), **yardsticks(results)}
    rows = [
        [measure.label + measure.arrow]
        + [number(values.get(measure.name)) for values in columns.values()]
        for measure in present(results["metrics"])
    ]
    note = (
        f"On test episodes. Kept: the models that clients end with (keep = {results['keep']}); "
        f"last: those of the last round; trivial: doing nothing. "
        f"Reference point of the hypervolume: {vector(results['reference_point'])}."
    )
    return _table(["measure", *columns], rows, note)


def _clients(results: Mapping[str, Any]) -> str:
    clients = results["per_client"]
    names = list(clients[0]["objectives"])
    regret = "optimum" in clients[0]
    rows = [
        [
            str(client["client"]),
            preference_text(client["preference"]),
            *(number(client["objectives"][name]) for name in names),
            number(client["scalarised"]),
            *([number(regret_of(client))] if regret else []),
        ]
        for client in clients
    ]
    header = ["client", "preference", *names, "scalarised", *(["regret"] if regret else [])]
    return _table(header, rows, f"Preferences are weights on {', '.join(names)}.")


def _effort(run: Run) -> str:
    results = run.results
    sent, steps = results["communication"], results.get("environment_steps", {})
    rows = [
        ["from clients to the server", _bytes(sent["bytes_up"])],
        ["from the server to clients", _bytes(sent["bytes_down"])],
        *([f"environment steps, {kind}", f"{count:,}"] for kind, count in steps.items()),
        ["mixed models declined by clients", str(sum(sum(e["declined"]) for e in run.history))],
    ]
    return _table(["", "all clients together"], rows)


def _events(history: Iterable[Mapping[str, Any]]) -> str:
    events = [event for entry in history for event in entry["events"]]
    if not events:
        return "<p>Nothing went wrong.</p>"
    items = "".join(f"<li>{text(event)}</li>" for event in events[:_EVENTS])
    rest = len(events) - _EVENTS
    return f"<ul>{items}</ul>" + (f"<p>And {rest} more.</p>" if rest > 0 else "")


def _settings(run: Run) -> str:
    """Everything that decided the run's bits, as in its ``config.toml``."""
    configuration = run.configuration
    values = configuration.model_dump(exclude={"algorithm_settings", "learner_settings"})
    values["preferences"] = run.results["preferences"]  # those given are in the clients' table
    learner = configuration.get_problem().learner
    for table, inside in (
        (configuration.algorithm, configuration.algorithm_settings),
        (learner, configuration.learner_settings),
    ):
        values |= {f"{table}.{name}": value for name, value in inside.items()}
    rows = [[name, _setting(value)] for name, value in values.items()]
    return _table(["setting", "value"], rows, words=True)


def _setting(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str) else value


# -- parts of a comparison's page ----------------------------------------------------------


def _comparison(comparison: Mapping[str, Any], field: str) -> str:
    """The table of a comparison, of kept (``metrics``) or of last models."""
    rows = [{**row, "metrics": row[field]} for row in arranged(comparison["rows"])]
    measures = compared(rows)
    marks = {measure.name: best(rows, measure) for measure in measures}
    cells = [
        [row["algorithm"], row["preferences"]]
        + [
            ("★ " if marks[m.name][place] else "")
            + (spread(row["metrics"][m.name]) if m.name in row["metrics"] else "–")
            for m in measures
        ]
        for place, row in enumerate(rows)
    ]
    for name, values in yardsticks(comparison).items():
        cells.append([name, "all", *(number(values.get(m.name)) for m in measures)])
    header = ["algorithm", "preferences", *(m.label + m.arrow for m in measures)]
    return _table(header, cells, comparison_caption(comparison))


# -- HTML ----------------------------------------------------------------------------------


def _section(title: str, content: str) -> str:
    return f"<section><h2>{text(title)}</h2>{content}</section>"


def _table(
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


def _figure(name: str, pictures: Pictures, charts: Mapping[str, Chart]) -> str:
    """A picture, with the chart that takes its place where scripts run."""
    caption = _CAPTIONS[name]
    data = base64.b64encode(pictures[name].read_bytes()).decode()
    image = f'<img alt="{text(caption)}" src="data:image/png;base64,{data}">'
    live, chart = "", ""
    if name in charts:
        live = ' class="live"'
        # inside a script element only "<" could end it early
        spec = json.dumps(charts[name]).replace("<", "\\u003c")
        chart = f'<div class="chart"></div><script type="application/json">{spec}</script>'
    return f"<figure{live}>{image}{chart}<figcaption>{text(caption)}</figcaption></figure>"


def _bytes(count: int) -> str:
    size, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"


def _page(title: str, body: Sequence[str]) -> str:
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
    return (files("comity.report") / name).read_text()


@cache
def _plotly() -> str:
    """plotly.js, packed: 1.9 MB instead of 4.8, and unpacked by the browser itself."""
    from plotly.offline import get_plotlyjs

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode()
