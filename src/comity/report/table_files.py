"""Tables of a comparison as files: CSV for programs, LaTeX for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from comity.report.gains import gain_headings, gain_rows
from comity.report.measures import (
    Cell,
    baselines,
    by_preferences,
    compared_cells,
    compared_measures,
    display_names,
    has_single_objective,
    number,
    with_pooled,
)
from comity.runs.schema import ComparisonResults, ComparisonRow

CSV, LATEX = "comparison.csv", "comparison.tex"
"""The names of the files in a comparison's directory."""
_SENT = ("megabytes", "bytes_per_update")
_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
}


def comparison_csv(comparison: ComparisonResults) -> str:
    """Return the table of a comparison as CSV, one line per row and baseline, in full precision.

    A measure has its mean, its population standard deviation over seeds (``_std``) and whether it
    is worse than the trivial baseline (``_below_trivial``). A gain over another entry has its mean,
    95 % interval and p values. At the end stand the megabytes of a run, both directions and all
    clients together, and the bytes of one client's update.

    Args:
        comparison: The content of ``comparison.json``.
    """
    rows = by_preferences(with_pooled(comparison))
    measures = compared_measures(rows, has_single_objective(comparison))
    cells = compared_cells(rows, measures, comparison.get("trivial"))
    others = list(dict.fromkeys(other for row in rows for other in row.get("paired", {})))
    header = ["algorithm", "preferences", "seeds"]
    for measure in measures:
        header += [measure.name, f"{measure.name}_std"]
        header += [] if measure.better is None else [f"{measure.name}_below_trivial"]
    for other in others:
        header += [f"over {other}{part}" for part in ("", " low", " high", " p", " p_holm")]
    header += [f"{name}{part}" for name in _SENT for part in ("", "_std")]
    lines: list[list[object]] = [list(header)]
    for row, row_cells in zip(rows, cells, strict=True):
        line: list[object] = [row["algorithm"], row["preferences"], len(row["seeds"])]
        for measure, cell in zip(measures, row_cells, strict=True):
            metric = row["metrics"].get(measure.name)
            values = [None, None] if metric is None else [metric["mean"], metric.get("std")]
            line += [*values, *([] if measure.better is None else [int(cell.below)])]
        for other in others:
            gain = row.get("paired", {}).get(other)
            if gain is None:
                line += [None] * 5
                continue
            low, high = gain.get("interval") or (None, None)
            line += [gain["mean"], low, high, gain.get("p"), gain.get("p_holm")]
        sent = [row.get("communication", {}).get(name) for name in _SENT]
        for spread in sent:
            line += [None, None] if spread is None else [spread["mean"], spread.get("std")]
        lines.append(line)
    for name, known in baselines(comparison).items():
        line = [name, "all", None]
        for measure in measures:
            line += [known.get(measure.name), None, *([] if measure.better is None else [None])]
        lines.append([*line, *[None] * (5 * len(others) + 2 * len(_SENT))])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _megabytes(row: ComparisonRow) -> str:
    """Return what all messages of a run weigh, on average over seeds."""
    spread = row.get("communication", {}).get("megabytes")
    return number(None if spread is None else spread["mean"], 3)


def comparison_latex(comparison: ComparisonResults) -> str:
    """Return the tables of a comparison as LaTeX: measures, and gains seed by seed.

    They are plain ``tabular`` environments, which need no package.

    Args:
        comparison: The content of ``comparison.json``.
    """
    single_objective = has_single_objective(comparison)
    rows = by_preferences(with_pooled(comparison))
    measures, names = compared_measures(rows, single_objective), display_names(rows)
    several = not single_objective
    header = ["algorithm", *(["preferences"] if several else [])]
    header += [measure.label + measure.arrow for measure in measures]
    sent = ["MB sent"] if any("communication" in row for row in rows) else []
    header += sent
    lines: list[list[str | Cell]] = [
        [
            names[row["algorithm"]],
            *([row["preferences"]] if several else []),
            *cells,
            *([_megabytes(row)] if sent else []),
        ]
        for row, cells in zip(
            rows, compared_cells(rows, measures, comparison.get("trivial")), strict=True
        )
    ]
    for name, known in baselines(comparison).items():
        values = [number(known.get(measure.name)) for measure in measures]
        lines.append([name, *(["all"] if several else []), *values, *["–" for _ in sent]])
    parts = [
        "% Plain LaTeX: no package is needed. Mean +- population standard deviation over seeds.\n"
        "% Bold: the best of its preferences; dagger: worse than the trivial baseline.\n"
        "% MB sent: sealed messages of a run, both directions, all clients.\n",
        latex_tabular(header, lines, 2 if several else 1),
    ]
    if gains := gain_rows(rows):
        headings = gain_headings(rows)
        parts.append(
            "\n% Gains seed by seed: mean +- population standard deviation, Student's 95 per cent "
            "interval,\n% p of the paired t-test, the same after Holm's correction, clients better/"
            "level/worse.\n" + latex_tabular(headings, gains, headings.index("over") + 1)
        )
    return "".join(parts)


def latex_tabular(
    header: Sequence[str], rows: Iterable[Sequence[str | Cell]], texts: int = 1
) -> str:
    """Return a ``tabular`` environment; all that LaTeX would read as a command is escaped.

    Args:
        header: The headings of the columns.
        rows: The cells.
        texts: Number of first columns with text, which are set flush left.
    """
    columns = "l" * texts + "r" * (len(header) - texts)
    body = "".join(" & ".join(map(_latex_cell, row)) + " \\\\\n" for row in rows)
    top = " & ".join(escape_latex(heading) for heading in header)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{top} \\\\\n\\hline\n{body}\\hline\n"
        "\\end{tabular}\n"
    )


def _latex_cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return escape_latex(cell)
    text = escape_latex(cell.text)
    if cell.best:
        return f"\\textbf{{{text}}}"
    return f"{text}$^\\dagger$" if cell.below else text


def escape_latex(text: str) -> str:
    """Return text as LaTeX prints it."""
    return "".join(_SPECIAL.get(sign, sign) for sign in text)
