"""Regret of policies that take any preference, over the preferences at which they were tested."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.spans import regrets
from comity.report.colours import PALETTE
from comity.report.figures.style import canvas, styled
from comity.runs.directory import Run


@styled
def served(run: Run) -> Figure | None:
    """Draw each client's regret over the weight of an objective, and the mean over clients.

    With two objectives a weight is the whole preference, so one panel has lines; with more, there
    is one panel per objective, with one dot per client and preference. None where models take no
    preference, or no good returns are known.
    """
    spans, problem = run.spans, run.configuration.get_problem()
    if spans is None or "regret" not in run.results["spanned"].get("served", {}):
        return None
    result = run.results["spanned"]["served"]["regret"]
    best = problem.target()
    assert best is not None
    missed, mean = regrets(spans.preferences, spans.vectors, best), result["per_preference"]
    names = [objective.name for objective in problem.objectives]
    lines = len(names) == 2
    shown = names[:1] if lines else names
    figure = canvas(4.6 if lines else 2.5 * len(shown), 3.0)
    look = "-" if lines else "o"
    panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    for column, axes in enumerate(panels):
        weight = spans.preferences[:, column]
        order = np.argsort(weight, kind="stable")
        for client, row in enumerate(missed):
            faint: dict[str, Any] = {"linewidth": 0.7, "markersize": 2, "alpha": 0.4}
            name = f"client-{client}"
            axes.plot(weight[order], row[order], look, color=PALETTE[0], gid=name, **faint)
        strong: dict[str, Any] = {"linewidth": 1.7, "markersize": 4, "gid": "mean"}
        axes.plot(weight[order], np.array(mean)[order], look, color="#222222", **strong)
        rest = f" (the rest: {names[1]})" if lines else ""
        axes.set(xlim=(-0.03, 1.03), xlabel=f"importance of {shown[column]}{rest}")
        axes.grid(True)
    panels[0].set_ylabel("regret")
    style: dict[str, Any] = {"linestyle": "-"} if lines else {"linestyle": "", "marker": "o"}
    handles = [
        Line2D([], [], color="#222222", label=f"mean over clients: {result['mean']:.3g}", **style),
        Line2D([], [], color=PALETTE[0], label=f"each of {len(missed)} clients", **style),
    ]
    title = f"0: the best value on the {result['against']}"
    figure.legend(
        handles=handles, loc="outside upper center", ncols=2, title=title, title_fontsize=7
    )
    return figure
