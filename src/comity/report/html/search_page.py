"""Pages of a search, and of several side by side."""

from __future__ import annotations

import tomllib

from comity.report.captions import origin_of, search_caption, search_columns, searches_caption
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
    verdict,
)
from comity.report.html.search_charts import growth_chart, search_front_chart
from comity.report.measures import (
    Cell,
    available_measures,
    baselines,
    compared_cells,
    fold_label,
    number,
    preference_text,
    vector,
    with_progress,
)
from comity.report.series.growth import growth_of, growths_of
from comity.report.terms import ENVIRONMENTS, search_terms
from comity.runs.search_schema import SearchComparisonResults, SearchResults
from comity.searches import Search
from comity.searches.comparison import SearchComparison
from comity.searches.effort import mean_steps, total_steps

_FRONT = (
    "The archive's front at several times, the later the darker. Objectives are maximised: up and "
    "to the right is better. Earlier fronts are as the server evaluated them; in the chart, the "
    "last one is as tested."
)
_MISSING = (
    "On the right: what is missing to the best known; a line that ends early has reached it. "
)
_SOLUTIONS = (
    "The fronts of all seeds' searches, on test episodes; large points are those that no other "
    "model of the same entry dominates. Objectives are maximised: up and to the right is better."
)
_WEIGHTS = (
    "The preference weights that were tried, the later the darker. A ring marks those that a model "
    "of the final front was trained for."
)


def search_page(search: Search, pictures: Pictures, script: str) -> str:
    """Return the page of a finished search; ``script`` is the relative path of plotly."""
    results, configuration = search.results, search.configuration
    title = f"{configuration.label} search"
    charts = {"front": search_front_chart(search), "growth": growth_chart(growth_of(search))}
    body = [
        f"<h1>{text(configuration.problem.title)}: {text(title)}</h1>",
        verdict(results["verdict"]["sentences"] if "verdict" in results else []),
        f'<p class="lead">{text(_sentence(results))}</p>',
        _tiles(results),
        _facts(results),
        section("The front", figure("front", _FRONT, pictures, charts)),
        section("Measures", measures_table(search_columns(results), search_caption(results))),
        section("Growth", figure("growth", _growth_caption(results), pictures, charts)),
        section("Weights tried", figure("weights", _WEIGHTS, pictures, {})),
        section("Points of the front", _points(results)),
        section("Effort", _effort(search)),
        settings(tomllib.loads(configuration.to_toml())),
    ]
    return page(f"{title} on {results['problem']}", body, script)


def searches_page(comparison: SearchComparison, pictures: Pictures, script: str) -> str:
    """Return the page of a finished comparison of searches."""
    results = comparison.results
    title = f"Searches on {results['problem']}"
    charts = {"growth": growth_chart(growths_of(comparison))}
    caption = (
        _growth_caption(results)
        + "Mean over seeds; band: population standard deviation over seeds."
    )
    body = [
        f"<h1>{text(title)}</h1>",
        section("Measures", _comparison(results)),
        section("Growth", figure("growth", caption, pictures, charts)),
    ]
    if "solutions" in pictures:
        body.append(section("Solutions", figure("solutions", _SOLUTIONS, pictures, {})))
    return page(title, body, script)


def _growth_caption(results: SearchResults | SearchComparisonResults) -> str:
    """Return the caption of the growth, with the reference point of the hypervolume."""
    return (
        "Hypervolume of all that was found so far, as the server evaluated it, above the reference "
        f"point {vector(results['reference_point'])}. " + (_MISSING if "optimum" in results else "")
    )


# -- parts of a search's page --------------------------------------------------------------


def _sentence(results: SearchResults) -> str:
    clients = f"{results['clients']} clients"
    each = f"{clients}, each with a candidate of its own" if results["spread"] else clients
    return (
        f"Weights from {results['generator']}, models from {results['algorithm']} with {each}; "
        f"{results['candidates']} candidates in {results['iterations']} iterations, "
        f"seed {results['seed']}."
    )


def _tiles(results: SearchResults) -> str:
    """Return the most important numbers."""
    metrics, unit = results["metrics"], search_terms(results).unit
    first = available_measures(metrics)[:4]
    values = [(measure.label, number(metrics[measure.name])) for measure in first]
    costs = [("candidates", f"{results['candidates']:,}"), (unit, f"{total_steps(results):,}")]
    return tiles([*values, *costs])


def _facts(results: SearchResults) -> str:
    """Return the main settings."""
    if "samples" in results:
        samples = results["samples"]
        judged = {
            "samples": f"{samples['training']:,} training, {samples['evaluation']:,} the server's, "
            f"{samples['test']:,} test"
        }
    else:
        episodes = results["episodes"]
        judged = {"episodes": f"{episodes['evaluation']} evaluation, {episodes['test']} test"}
    return facts(
        {
            "problem": results["problem"],
            "rounds": f"{results['rounds']} per candidate",
            "keep": results["keep"],
            "warm start": "on" if results["warm_start"] else "off",
            "harvest": "every round" if results["harvest"] else "final models",
            **judged,
            "reference point": vector(results["reference_point"]),
        }
    )


def _points(results: SearchResults) -> str:
    """Return the table of the front, with the origin and the model file of each point."""
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
        f"On {search_terms(results).tests}. Trained for: the weights on {', '.join(names)}. "
        "Iterations count from 1, candidates from 0; round: the one after which the server held "
        "the model."
    )
    return table(header, rows, note)


def _effort(search: Search) -> str:
    """Return the table of steps, in environments by kind, of the search and of its control."""
    control = search.control
    columns = {"search": search.results} | ({} if control is None else {"control": control.results})
    terms = search_terms(search.results)
    if terms is not ENVIRONMENTS:
        in_all = [f"{results['training_steps']:,}" for results in columns.values()]
        one = [f"{results['training_steps_per_client']:,}" for results in columns.values()]
        return table([terms.unit, *columns], [["all clients", *in_all], ["per client", *one]])
    steps = [results["environment_steps"] for results in columns.values()]
    rows = [[kind, *(f"{counts[kind]:,}" for counts in steps)] for kind in steps[0]]
    rows.append(["in all", *(f"{sum(counts.values()):,}" for counts in steps)])
    each = [results["environment_steps_per_client"] for results in columns.values()]
    rows.append(["training and validation, per client", *(f"{count:,}" for count in each)])
    note = "Evaluation is the server's, of every model that might enter the archive."
    return table([terms.unit, *columns], rows, note)


# -- parts of a comparison's page ----------------------------------------------------------


def _comparison(results: SearchComparisonResults) -> str:
    """Return the table of searches side by side: measures, also on the way, and costs."""
    measures, rows = with_progress(results["rows"], [25, 50])
    cells: list[list[str | Cell]] = [
        [
            fold_label(row["search"]),
            *values,
            number(row["candidates"]),
            f"{mean_steps(row):,.0f}",
        ]
        for row, values in zip(
            rows, compared_cells(rows, measures, results.get("trivial")), strict=True
        )
    ]
    for name, metrics in baselines(results).items():
        known = (number(metrics.get(measure.name)) for measure in measures)
        cells.append([name, *known, "–", "–"])
    labels = [measure.label + measure.arrow for measure in measures]
    header = ["search", *labels, "candidates", search_terms(rows[0]).unit]
    return table(header, cells, searches_caption(results))
