"""Sections of a run's page on groups, and on every model for every client."""

from __future__ import annotations

from comity.report.html.markup import Pictures, figure, section, table
from comity.report.measures import number
from comity.report.rates import GAPS, INTERVALS, gaps_of, rate_text
from comity.report.series.cross import served
from comity.runs.directory import Run
from comity.runs.group_schema import Group, Groups, Measured

_PICTURE = (
    "How often the answer is yes, by attribute value and client, on test rows of the kept models; "
    "bars are Wilson's intervals of 95 %. Together: the rows of all clients, each answered by its "
    "own client's model."
)
_NOTE = (
    f"{INTERVALS}: Wilson's for rates, DeLong's for AUC. Calibration error: the mean distance "
    "between probability and share of yes over ten bins, weighed by rows; the bins are in "
    "groups.json. A dash: undefined, with the reason in groups.json."
)
_GAPS = (
    "Largest rate minus smallest, and the interval of that difference (Newcombe's): one that "
    "includes 0 may be chance. With more than two values the pair was chosen by looking, so its "
    "interval is too narrow."
)
_CROSS = (
    "Whose model serves whom: a row's model on a column's test rows, weighed by the column's "
    "preference. Colour: gain over the client's own model; framed: the best of a column. Test rows "
    "serve here a second time: do not choose a model by them."
)
_ENVIRONMENTS = (
    "Whose model serves whom: the returns of a row's model, weighed by the column's preference. "
    "Colour: gain over the client's own model; framed: the best of a column."
)


def groups_section(run: Run, pictures: Pictures) -> list[str]:
    """Return the sections on groups, if the run has any.

    Args:
        run: The run.
        pictures: The files of its pictures.
    """
    measured = run.groups
    if measured is None:
        return []
    parts = [figure("groups", _PICTURE, pictures, {})] if "groups" in pictures else []
    sections = [section("Groups", "".join(parts))] if parts else []
    for attribute in measured["together"]["attributes"]:
        rates = _rates(measured, attribute)
        details = f"<details><summary>All rates</summary>{rates}</details>"
        sections.append(section(f"Groups by {attribute}", _gaps(measured, attribute) + details))
    return sections


def _parts(measured: Groups) -> list[tuple[str, Measured]]:
    clients: list[tuple[str, Measured]] = [(part["name"], part) for part in measured["clients"]]
    return [("together", measured["together"]), *clients]


def _gaps(measured: Groups, attribute: str) -> str:
    rows = []
    for name, part in _parts(measured):
        values = part["attributes"][attribute]
        ratio = number(values["demographic_parity_ratio"]["value"], 3)
        rows.append([name, *(rate_text(gap) for gap in gaps_of(values).values()), ratio])
    return table(["client", *GAPS.values(), "demographic parity ratio"], rows, _GAPS)


def _rates(measured: Groups, attribute: str) -> str:
    header = ["client", attribute, "rows", "TP", "FP", "TN", "FN", "answered yes"]
    header += ["true positive rate", "false positive rate", "accuracy", "AUC"]
    header += ["mean probability", "share of yes", "calibration error"]
    rows = [
        [name, value, *_cells(group)]
        for name, part in _parts(measured)
        for value, group in part["attributes"][attribute]["values"].items()
    ]
    return table(header, rows, _NOTE)


def _cells(group: Group) -> list[str]:
    calibration = group["calibration"]
    return [
        f"{group['rows']:,}",
        *(f"{group[kind]:,}" for kind in ("true_positives", "false_positives")),
        *(f"{group[kind]:,}" for kind in ("true_negatives", "false_negatives")),
        *(rate_text(group[rate]) for rate in ("selection_rate", "true_positive_rate")),
        *(rate_text(group[rate]) for rate in ("false_positive_rate", "accuracy", "auc")),
        number(calibration["mean_probability"], 3),
        rate_text(calibration["share_of_yes"]),
        number(calibration["error"], 3),
    ]


def cross_section(run: Run, pictures: Pictures) -> list[str]:
    """Return the section on every model for every client, once that has been measured.

    Args:
        run: The run.
        pictures: The files of its pictures.
    """
    measured = run.cross
    if measured is None:
        return []
    rows = [
        [
            row.client,
            number(row.own),
            "its own" if row.best == row.client else row.best,
            *(number(value) for value in (row.best_value, row.others, row.trivial)),
        ]
        for row in served(measured)
    ]
    header = ["client", "own model", "best model", "its value", "mean of others", "trivial"]
    caption = _CROSS if "samples" in run.results else _ENVIRONMENTS
    parts = [figure("cross", caption, pictures, {}), table(header, rows)]
    return [section("Every model for every client", "".join(parts))]
