"""The page of a search, and of several side by side."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

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
from comity.report.html.search_charts import found_chart, growth_chart
from comity.report.measures import folded, graded, number, present, starred, vector
from comity.report.series.growth import growth_of, growths_of
from comity.report.tables import (
    baselines,
    origin_of,
    preference_text,
    search_caption,
    searched,
    searches_caption,
)
from comity.searches import Search
from comity.searches.comparison import SearchComparison

_FRONT = (
    "The archive's front at several times, the later the darker. Objectives are maximised: up and "
    "to the right is better. Earlier fronts are as the server evaluated them; in the chart, the "
    "last one is as tested."
)
_MISSING = (
    "On the right: what is missing to the best known; a line that ends early has reached it. "
)
_WEIGHTS = (
    "Which preference weights were tried, and when. A ring marks those that a model of the final "
    "front was trained for."
)


def search_page(search: Search, pictures: Pictures) -> str:
    """The page of a finished search."""
    results, configuration = search.results, search.configuration
    title = f"{configuration.label} search"
    charts = {"front": found_chart(search), "growth": growth_chart(growth_of(search))}
    body = [
        f"<h1>{text(configuration.problem.title)}: {text(title)}</h1>",
        f'<p class="lead">{text(_sentence(results))}</p>',
        _tiles(results),
        _facts(results),
        section("The front", figure("front", _FRONT, pictures, charts)),
        section("Measures", measures_table(searched(results), search_caption(results))),
        section("Growth", figure("growth", _growth_caption(results), pictures, charts)),
        section("Where it looked", figure("weights", _WEIGHTS, pictures, {})),
        section("Points of the front", _points(results)),
        section("Effort", _effort(search)),
        settings(tomllib.loads(configuration.to_toml())),
    ]
    return page(f"{title} on {results['problem']}", body)


def searches_page(comparison: SearchComparison, pictures: Pictures) -> str:
    """The page of a finished comparison of searches."""
    results = comparison.results
    title = f"Searches on {results['problem']}"
    charts = {"growth": growth_chart(growths_of(comparison))}
    caption = _growth_caption(results) + "Mean over seeds, with the standard deviation as a band."
    body = [
        f"<h1>{text(title)}</h1>",
        section("Measures", _comparison(results)),
        section("Growth", figure("growth", caption, pictures, charts)),
    ]
    return page(title, body)


def _growth_caption(results: Mapping[str, Any]) -> str:
    """The reference point belongs to every hypervolume."""
    return (
        "Hypervolume of all that was found so far, as the server evaluated it, above the reference "
        f"point {vector(results['reference_point'])}. " + (_MISSING if "optimum" in results else "")
    )


# -- parts of a search's page --------------------------------------------------------------


def _sentence(results: Mapping[str, Any]) -> str:
    clients = f"{results['clients']} clients"
    each = f"{clients}, each with a candidate of its own" if results["spread"] else clients
    return (
        f"Weights from {results['generator']}, models from {results['algorithm']} with {each}; "
        f"{results['candidates']} candidates in {results['iterations']} iterations, "
        f"seed {results['seed']}."
    )


def _tiles(results: Mapping[str, Any]) -> str:
    """The few numbers that a reader looks for first."""
    metrics, steps = results["metrics"], sum(results["environment_steps"].values())
    told = [(measure.label, number(metrics[measure.name])) for measure in present(metrics)[:4]]
    costs = [("candidates", f"{results['candidates']:,}"), ("environment steps", f"{steps:,}")]
    return tiles([*told, *costs])


def _facts(results: Mapping[str, Any]) -> str:
    """What was run, in short."""
    episodes = results["episodes"]
    return facts(
        {
            "problem": results["problem"],
            "rounds": f"{results['rounds']} a candidate",
            "keep": results["keep"],
            "warm start": "on" if results["warm_start"] else "off",
            "harvest": "every round" if results["harvest"] else "final models",
            "episodes": f"{episodes['evaluation']} evaluation, {episodes['test']} test",
            "reference point": vector(results["reference_point"]),
        }
    )


def _points(results: Mapping[str, Any]) -> str:
    """The front, with where each point comes from and where its model is."""
    names = list(results["front"][0]["objectives"])
    rows = [
        [
            str(point["point"]),
            *(number(value) for value in point["objectives"].values()),
            preference_text(point["weight"]),
            *origin_of(point),
            point["model"],
        ]
        for point in results["front"]
    ]
    header = ["point", *names, "trained for", "iteration", "candidate", "round", "model"]
    note = (
        f"On test episodes. Trained for: the weights on {', '.join(names)}. Iterations count "
        "from 1, candidates from 0; round: the one after which the server held the model."
    )
    return table(header, rows, note)


def _effort(search: Search) -> str:
    """Environment steps by kind, of the search and of its control."""
    control = search.control
    columns = {"search": search.results} | ({} if control is None else {"control": control.results})
    steps = [results["environment_steps"] for results in columns.values()]
    rows = [[kind, *(f"{own[kind]:,}" for own in steps)] for kind in steps[0]]
    rows.append(["in all", *(f"{sum(own.values()):,}" for own in steps)])
    each = [results["environment_steps_per_client"] for results in columns.values()]
    rows.append(["training and validation, per client", *(f"{count:,}" for count in each)])
    note = "Evaluation is the server's, of every model that might enter the archive."
    return table(["environment steps", *columns], rows, note)


# -- parts of a comparison's page ----------------------------------------------------------


def _comparison(results: Mapping[str, Any]) -> str:
    """Searches side by side: measures, also on the way, and what they cost."""
    measures, rows = graded(results["rows"], [25, 50])
    cells = [
        [folded(row["search"]), *own, number(row["candidates"]), f"{row['environment_steps']:,.0f}"]
        for row, own in zip(rows, starred(rows, measures), strict=True)
    ]
    for name, values in baselines(results).items():
        known = (number(values.get(measure.name)) for measure in measures)
        cells.append([name, *known, "–", "–"])
    labels = [measure.label + measure.arrow for measure in measures]
    header = ["search", *labels, "candidates", "environment steps"]
    return table(header, cells, searches_caption(results))
