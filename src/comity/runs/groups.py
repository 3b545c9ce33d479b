"""Measures per attribute value: selection, confusion, ranking, calibration, and the gaps between.

A yes is a logit above 0, a probability above one half. Rates have Wilson's intervals, differences
Newcombe's, areas under the curve DeLong's; see `comity.core.intervals`. What is undefined is None
with its reason, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from comity.configuration import Configuration
from comity.core.intervals import Estimate, area_under_curve, difference, share
from comity.core.typing import AnyArray, BoolArray, FloatArray, IntArray
from comity.problems import DataProblem, Problem
from comity.problems.answers import logit_of_yes
from comity.runs.group_schema import (
    Attribute,
    Bin,
    Calibration,
    ClientGroups,
    Gap,
    Group,
    Groups,
    Measured,
    Rate,
    Ratio,
)

BINS = 10
"""Number of bins of equal width in which probabilities are compared with labels."""
FEW = 30
"""Fewer rows than this are called few: intervals are wide."""


@dataclass(frozen=True)
class AnsweredRows:
    """Rows with a model's answers."""

    label: BoolArray
    """Whether the label is yes."""
    logit: FloatArray
    """Logit of yes that the model gives."""
    attributes: Mapping[str, IntArray]
    """Value of each row by attribute, an index into the attribute's values."""


class TestedModels(Protocol):
    """The final models of some clients: those of an engine, or a site's."""

    def test_outputs(self, kept: bool) -> list[AnyArray]:
        """Return the models' outputs for their clients' test samples, client by client."""


def groups_of(
    configuration: Configuration, models: TestedModels, clients: Sequence[int]
) -> Groups | None:
    """Return the measures of the models that clients end with; None where there are no groups.

    They are measured from the outputs behind the clients' test scores.

    Args:
        configuration: The run's configuration.
        models: The models of these clients.
        clients: Ids of the clients.
    """
    problem = configuration.get_problem()
    if not isinstance(problem, DataProblem) or not has_groups(problem):
        return None
    outputs = models.test_outputs(configuration.keep == "best")
    return measure_clients(problem, outputs, clients, configuration.get_names())


def has_groups(problem: Problem) -> bool:
    """Return whether a problem has attributes and labels of yes and no, so that groups count."""
    if not isinstance(problem, DataProblem) or not problem.attributes:
        return False
    label = problem.samples().columns.get("label")
    return label is not None and bool(((label == 0) | (label == 1)).all())


def measure_clients(
    problem: DataProblem, outputs: Sequence[AnyArray], clients: Sequence[int], names: Sequence[str]
) -> Groups | None:
    """Return the measures of each client's model on the client's test rows.

    None if outputs are no answers of yes or no.

    Args:
        problem: The partitioned problem, which has groups.
        outputs: Outputs of each client's model for its test rows, in their order.
        clients: The clients.
        names: Name of every client of the federation.
    """
    columns, values = problem.columns(), problem.attribute_values()
    parts = []
    for client, output in zip(clients, outputs, strict=True):
        logit = logit_of_yes(torch.from_numpy(output))
        if logit is None:
            return None
        rows = torch.from_numpy(problem.client_rows()[client].test)
        codes = {
            attribute: columns[column][rows].numpy().astype(np.int64)
            for attribute, column in zip(values, problem.attributes, strict=True)
        }
        label = (columns["label"][rows] == 1).numpy()
        parts.append(AnsweredRows(label, logit.double().numpy(), codes))
    measured: list[ClientGroups] = [
        {"client": client, "name": names[client], **measure(part, values)}
        for client, part in zip(clients, parts, strict=True)
    ]
    together = AnsweredRows(
        np.concatenate([part.label for part in parts]),
        np.concatenate([part.logit for part in parts]),
        {name: np.concatenate([part.attributes[name] for part in parts]) for name in values},
    )
    return {"clients": measured, "together": measure(together, values)}


def measure(rows: AnsweredRows, values: Mapping[str, Sequence[str]]) -> Measured:
    """Return the measures of a model on some rows: of all, and per attribute value.

    Args:
        rows: The rows with the model's answers.
        values: Names of the values, by attribute.
    """
    everybody = np.ones(len(rows.label), dtype=bool)
    attributes = {}
    for attribute, names in values.items():
        codes = rows.attributes[attribute]
        groups = {name: _group(rows, codes == code) for code, name in enumerate(names)}
        attributes[attribute] = _attribute(attribute, groups)
    return {"all": _group(rows, everybody), "attributes": attributes}


def short_gaps(measured: Measured) -> dict[str, dict[str, float | None]]:
    """Return the differences between values alone, by attribute: what ``results.json`` holds."""
    return {
        name: {
            "demographic_parity": attribute["demographic_parity_difference"]["value"],
            "equal_opportunity": attribute["equal_opportunity_difference"]["value"],
            "equalised_odds": attribute["equalised_odds_difference"]["value"],
        }
        for name, attribute in measured["attributes"].items()
    }


# -- one group -----------------------------------------------------------------------------


def _group(rows: AnsweredRows, chosen: BoolArray) -> Group:
    label, logit = rows.label[chosen], rows.logit[chosen]
    yes, count = logit > 0, len(label)
    positives = int(label.sum())
    right, wrong = int((yes & label).sum()), int((yes & ~label).sum())
    negatives = count - positives
    no_rows = "no rows"
    return {
        "rows": count,
        "true_positives": right,
        "false_positives": wrong,
        "true_negatives": negatives - wrong,
        "false_negatives": positives - right,
        "selection_rate": _rate(share(right + wrong, count), no_rows),
        "true_positive_rate": _rate(share(right, positives), _lack(count, "positives")),
        "false_positive_rate": _rate(share(wrong, negatives), _lack(count, "negatives")),
        "accuracy": _rate(share(right + negatives - wrong, count), no_rows),
        "auc": _area(label, logit),
        "calibration": _calibration(label, logit),
    }


def _lack(count: int, kind: str) -> str:
    return f"no {kind} among {count} rows" if count else "no rows"


def _area(label: BoolArray, logit: FloatArray) -> Rate:
    positives = int(label.sum())
    reason = _lack(len(label), "negatives" if positives else "positives")
    if 0 < positives < len(label):
        one = min(positives, len(label) - positives) == 1
        reason = (
            "no interval: a single row of a label"
            if one
            else "no interval: the ranking is perfect, or all answers are equal"
        )
    return _rate(area_under_curve(label, logit), reason)


def _calibration(label: BoolArray, logit: FloatArray) -> Calibration:
    count = len(label)
    chance = np.exp(-np.logaddexp(0.0, -logit))
    place = np.minimum((chance * BINS).astype(np.int64), BINS - 1)
    bins: list[Bin] = []
    error = 0.0
    for number in np.unique(place):
        inside = place == number
        size, mean = int(inside.sum()), float(chance[inside].mean())
        positive = share(int(label[inside].sum()), size)
        error += size / count * abs(mean - positive.value)
        bins.append(
            {
                "low": int(number) / BINS,
                "high": (int(number) + 1) / BINS,
                "rows": size,
                "mean_probability": round(mean, 6),
                "share_of_yes": _rate(positive, ""),
            }
        )
    return {
        "error": round(error, 6) if count else None,
        "mean_probability": round(float(chance.mean()), 6) if count else None,
        "share_of_yes": _rate(share(int(label.sum()), count), "no rows"),
        "bins": bins,
    }


def _rate(estimate: Estimate, reason: str) -> Rate:
    """Return an estimate for JSON; the reason is for what is undefined in it."""
    value, low, high = (round(x, 6) if math.isfinite(x) else None for x in estimate)
    rate: Rate = {"value": value, "low": low, "high": high}
    if low is None:
        rate["reason"] = reason
    return rate


# -- between groups ------------------------------------------------------------------------


def _attribute(attribute: str, groups: dict[str, Group]) -> Attribute:
    selection, true, false = {}, {}, {}
    for name, group in groups.items():
        right, wrong = group["true_positives"], group["false_positives"]
        selection[name] = share(right + wrong, group["rows"])
        true[name] = share(right, right + group["false_negatives"])
        false[name] = share(wrong, wrong + group["true_negatives"])
    few = f"fewer than two values of {attribute} have rows"
    opportunity, other = _gap(true, f"{few} with label yes"), _gap(false, f"{few} with label no")
    return {
        "values": groups,
        "demographic_parity_difference": _gap(selection, few),
        "demographic_parity_ratio": _ratio(selection, few),
        "equal_opportunity_difference": opportunity,
        "equalised_odds_difference": _larger(opportunity, other),
    }


def _gap(shares: Mapping[str, Estimate], reason: str) -> Gap:
    """Return the largest rate minus the smallest, with the values that have them."""
    rates = {name: estimate for name, estimate in shares.items() if math.isfinite(estimate.value)}
    if len(rates) < 2:
        return {"value": None, "low": None, "high": None, "reason": reason}
    highest = max(rates, key=lambda name: rates[name].value)
    lowest = min(rates, key=lambda name: rates[name].value)
    if highest == lowest:  # all rates are equal
        highest, lowest = list(rates)[:2]
    rate = _rate(difference(rates[highest], rates[lowest]), "")
    return {**rate, "highest": highest, "lowest": lowest}


def _larger(first: Gap, second: Gap) -> Gap:
    """Return the larger of two gaps; if one is unknown, so is the larger."""
    if first["value"] is None or second["value"] is None:
        return first if first["value"] is None else second
    return max(first, second, key=lambda gap: gap["value"] or 0.0)


def _ratio(shares: Mapping[str, Estimate], reason: str) -> Ratio:
    """Return the smallest rate over the largest."""
    values = [estimate.value for estimate in shares.values() if math.isfinite(estimate.value)]
    if len(values) < 2:
        return {"value": None, "reason": reason}
    if max(values) == 0:
        return {"value": None, "reason": "nobody is answered yes"}
    return {"value": round(min(values) / max(values), 6)}
