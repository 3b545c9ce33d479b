"""Colours that figures and interactive charts share; readers with poor colour vision included."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap

GREY, FAINT = "#6b6b6b", "#c9c9c9"

# Okabe and Ito's palette without its yellow, which is too faint on white
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")

# viridis without its brightest end, for the same reason
WEIGHTS = ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0.0, 0.93, 256)), "weights")

# the later the darker; blues without their faintest end
TIMES = ListedColormap(matplotlib.colormaps["Blues"](np.linspace(0.35, 1.0, 256)), "times")
