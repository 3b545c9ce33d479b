"""Captions and remarks that terminal tables and pages share."""

from __future__ import annotations

from collections.abc import Sequence

from comity.report.columns import BYTES, EPSILON, sent_headings
from comity.report.measures import (
    baselines,
    has_data,
    has_single_objective,
    kept_and_last,
    vector,
)
from comity.report.series.learning import Runs
from comity.report.terms import ENVIRONMENTS, comparison_terms, search_terms
from comity.runs.privacy_schema import PrivacyResult
from comity.runs.reproduction_schema import ReproductionNotes
from comity.runs.schema import ClientResult, ComparisonResults, Metrics, Results, SeededRow
from comity.runs.search_schema import (
    FrontPoint,
    SearchComparisonResults,
    SearchControl,
    SearchResults,
)
from comity.runs.verdict import MARKS, TOLERANCE
from comity.searches.effort import total_steps

_REMARKS = {
    "own_hypervolume": "Hypervolume per client: of what a client's own model reaches, mean over "
    "clients; a single point, or all that it spans where the model takes any preference.",
    "served_regret": "Regret over preferences: of policies that take any preference, the mean over "
    "evenly spaced ones of the best value that is known minus the policy's.",
    "dropped": "Dropped: the share of clients whose models count for no front and no hypervolume "
    "because they are perfectly fair, as one that always gives the same answer is.",
    "undefined": "Undefined: the share of clients for whom a score means nothing, because their "
    "samples lack a group that it compares; they count for no front either.",
}
_SOON = (
    "To {target}: until the validation accuracy of all clients, absent ones included, is that high "
    "in a round in which it is measured; seconds are of training and mixing"
)
_SENT = {
    BYTES: "Bytes per update: mean of what one client sends in one round, envelopes included",
    EPSILON: "Epsilon: differential privacy of everything that one client holds, over all rounds; "
    "none: no noise; simulated, so nothing here is private",
}
_OWN_SAMPLES = (
    "Each client's model is judged on the client's own test samples; global: on everyone's."
)


def reference_text(point: Sequence[float], strict: Sequence[float] | None = None) -> str:
    """Return the sentence on the reference point of a hypervolume; empty for one objective.

    Args:
        point: The reference point.
        strict: The strict reference point, where a problem has one.
    """
    if len(point) == 1:
        return ""
    text = f"Reference point of the hypervolume: {vector(point)}"
    if strict is None:
        return text
    return f"{text}; of the strict one, above which only models of some use are: {vector(strict)}"


def privacy_text(privacy: PrivacyResult) -> str:
    """Return the sentence on the differential privacy of a run."""
    number = "epsilon {epsilon:.3g}, delta {delta:.3g} per client, over {updates} updates"
    text = f"Differential privacy: {number}; noise {{noise:.3g}}, clip {{clip:.3g}}"
    simulated = ". Simulated: its noise can be repeated, so nothing here is private"
    return text.format(**privacy) + (simulated if privacy["simulated"] else "")


def run_remarks(results: Results) -> list[str]:
    """Return explanations of the measures of a run that need one."""
    if has_single_objective(results):
        return [_OWN_SAMPLES]
    metrics = kept_and_last(results).values()
    return _remarks({name for values in metrics for name, value in values.items() if value})


def comparison_remarks(comparison: ComparisonResults) -> list[str]:
    """Return explanations of the measures of a comparison that need one."""
    if has_single_objective(comparison):
        return [_OWN_SAMPLES]
    metrics = [row["metrics"] for row in comparison["rows"]]
    return _remarks({name for row in metrics for name, metric in row.items() if metric["mean"]})


def _remarks(names: set[str]) -> list[str]:
    return [meaning for name, meaning in _REMARKS.items() if name in names]


def marks_text(clients: Sequence[ClientResult]) -> str:
    """Return the legend of the marks that some clients have; empty without marks."""
    marks = {client["mark"] for client in clients if "mark" in client}
    if not marks:
        return ""
    meanings = [f"{mark} ({meaning})" for mark, meaning in MARKS.items() if mark in marks]
    return f"Outcome: {'; '.join(meanings)}. Values within {TOLERANCE:g} are level."


def seeds_text(rows: Sequence[SeededRow]) -> str:
    """Return the beginning of a comparison's caption: how many seeds it is a mean over."""
    seeds = sorted({len(row["seeds"]) for row in rows})
    if seeds == [1]:
        return "Values of one seed"
    return f"Mean ± population standard deviation over {' or '.join(map(str, seeds))} seeds"


def comparison_caption(comparison: ComparisonResults, runs: Runs) -> str:
    """Return the caption of a comparison's table.

    Args:
        comparison: The content of ``comparison.json``; rows may have pooled measures.
        runs: The runs behind it, of which the first gives the strict reference point.
    """
    rows, single_objective = comparison["rows"], has_single_objective(comparison)
    first = next((run.results for seeds in runs.values() for run in seeds), None)
    reference = (
        reference_text(comparison["reference_point"])
        if first is None
        else reference_text(first["reference_point"], first.get("strict_reference_point"))
    )
    among = "" if single_objective else " of each preference distribution"
    parts = [f"{seeds_text(rows)}; the best{among} is marked ★"]
    if "trivial" in comparison or any("trivial" in row for row in rows):
        parts.append("Grey: worse than the trivial baseline; ★ only where better than that")
    parts.append(reference)
    if has_data(comparison):
        if not single_objective and any("pooled_hypervolume" in row["metrics"] for row in rows):
            parts.append("Pooled: of all seeds' clients as one set")
        parts.append(f"Trivial: {comparison_terms(comparison).trivial}")
        parts += comparison_remarks(comparison)
    if soon := rows[0].get("how_soon"):
        parts.append(_SOON.format(target=f"{soon['target']:g}"))
    headings = sent_headings(rows)
    parts += [text for heading, text in _SENT.items() if heading in headings]
    return ". ".join(part.removesuffix(".") for part in parts if part) + "."


def search_columns(results: SearchResults) -> dict[str, Metrics]:
    """Return the measures of a search, of its control and of the baselines, by heading."""
    control = {"control": results["control"]["metrics"]} if "control" in results else {}
    return {"found": results["metrics"], **control, **baselines(results)}


def search_caption(results: SearchResults) -> str:
    """Return the caption of a search's measures."""
    terms, reference = search_terms(results), vector(results["reference_point"])
    parts = [f"On {terms.tests}. Reference point of the hypervolume: {reference}."]
    if cut := results["cut_by_reference_point"]:
        verbs = ("does", "counts") if cut == 1 else ("do", "count")
        parts.append(
            f"Attention: {cut} of the points found {verbs[0]} not lie above it and {verbs[1]} "
            "nothing for the hypervolume."
        )
    if dropped := results.get("dropped"):
        parts.append(
            f"{dropped} of the points found {'counts' if dropped == 1 else 'count'} for nothing: "
            "perfectly fair, as one that always gives the same answer is."
        )
    parts.append(f"Found with {_cost(results)}.")
    if "control" in results:
        parts.append(f"Control: random weights, {_cost(results['control'])}.")
    if "samples" in results:
        parts.append(f"Trivial: {terms.trivial}.")
    return " ".join(parts)


def _cost(results: SearchResults | SearchControl) -> str:
    unit = search_terms(results).unit
    return f"{results['candidates']} candidates and {total_steps(results):,} {unit}"


def searches_caption(comparison: SearchComparisonResults) -> str:
    """Return the caption of a comparison of searches."""
    terms = search_terms(comparison["rows"][0])
    steps = f"{terms.unit} of all clients"
    if terms is ENVIRONMENTS:
        steps += " and the server"
    return (
        f"{seeds_text(comparison['rows'])}; the best is marked ★, if better than the trivial "
        "baseline; grey: worse than that. Hypervolume after a part of the "
        f"iterations is on the server's evaluation, all else on {terms.tests}. Steps: {steps}. "
        f"Reference point of the hypervolume: {vector(comparison['reference_point'])}"
    )


def origin_of(point: FrontPoint) -> list[str]:
    """Return the iteration, candidate and round that a point of a search's front comes from."""
    round = point["round"]
    return [
        str(point["iteration"]),
        str(point["candidate"]),
        "end" if round is None else str(round),
    ]


_COLUMNS = {
    "printed": "printed",
    "paper_protocol": "paper's protocol",
    "our_defaults": "our defaults",
    "ours": "ours",
}


def model_heading(results: ReproductionNotes, column: str) -> str:
    """Return the heading of a column of a reproduction: with the models that it is about."""
    models = results.get("models", {}).get(column)
    return _COLUMNS[column] + (f" ({models.partition(',')[0]})" if models else "")


def reproduction_caption(
    results: ReproductionNotes, reference_point: Sequence[float] | None = None
) -> str:
    """Return the caption of a printed table beside ours.

    Args:
        results: The JSON content of the reproduction.
        reference_point: The reference point, where the table has hypervolumes.
    """
    parts = []
    if models := results.get("models"):
        named = ", ".join(f"{_COLUMNS[column]}: {kind}" for column, kind in models.items())
        parts.append(f"Models: {named} (last: of the last round; kept: best on validation)")
    if spreads := results.get("spreads"):
        parts.append(f"±: printed {spreads['printed']}, ours {spreads['ours']}")
    if reference_point is not None:
        source = results.get("reference_point_source")
        text = reference_text(reference_point)
        parts.append(f"{text}, {source}" if source else text)
    if "igd_reference" in results:
        parts.append(f"IGD is measured from {results['igd_reference']}")
    parts.append(results.get("note", ""))
    return "".join(f"{part.removesuffix('.')}. " for part in parts if part).rstrip()
