"""Scores of the clients' models in a single objective."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.report.colours import PALETTE
from comity.report.figures.style import canvas, legend_above, styled
from comity.report.measures import number, objective_label
from comity.report.names import client_names, turned
from comity.report.series.baselines import CONSTANT
from comity.report.series.curves import objectives_of
from comity.report.series.partition import constant_scores
from comity.runs.directory import Run

_NAMED = 40  # more clients than this have no room for their names


@styled
def scores(run: Run) -> Figure:
    """Draw one bar per client, the constant classifier's score as a dash, the mean as a line."""
    values, constant = objectives_of(run)[:, 0], constant_scores(run)
    clients = np.arange(len(values))
    figure = canvas(min(7.2, 3.4 + 0.12 * len(values)), 2.7)
    axes = figure.subplots()
    axes.bar(clients, values, 0.8, color=PALETTE[5], label="client's kept model")
    if np.isfinite(values).any():
        mean = float(np.nanmean(values))
        label = f"mean, {number(mean, 3)}"
        axes.axhline(mean, color=PALETTE[0], linewidth=1.2, label=label, gid="mean")
    if constant is not None:
        width = 0.4 * np.ones(len(clients))
        label = f"{CONSTANT}, mean {number(float(constant.mean()), 3)}"
        axes.hlines(constant, clients - width, clients + width, "#222222", label=label, lw=1.4)
    objective = run.configuration.get_problem().objectives[0]
    if objective.unit == "share":
        axes.set_ylim(0, 1)
    axes.set_xlim(-0.7, len(clients) - 0.3)
    axes.set(xlabel="client", ylabel=f"{objective_label(objective)}, test")
    if len(clients) <= _NAMED:
        names = client_names(run.results)
        axes.set_xticks(clients, names, rotation=turned(names))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    axes.tick_params(axis="x", length=0)
    axes.grid(True, axis="y")
    legend_above(figure, axes)
    return figure
