"""Test vectors: small cases computed by hand or by independent code, shared by the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from comity.algorithms import Round
from comity.core.fleet import Fleet


def fleet(*layers: Any) -> Fleet:
    """A fleet whose tensors are given as one matrix (clients x entries) each."""
    return Fleet({f"{i}": torch.tensor(layer).float() for i, layer in enumerate(layers)})


def round_of(sent: Fleet, start: Fleet, number: int = 1, sizes: Any = None) -> Round:
    n = len(sent)
    if len(start) == 1 and n > 1:
        start = Fleet({k: t.expand(n, *t.shape[1:]) for k, t in start.tensors.items()})
    return Round(
        number=number,
        participants=tuple(range(n)),
        clients=tuple(range(n)),
        sent=sent,
        start=start,
        sizes=np.ones(n) if sizes is None else np.array(sizes, dtype=float),
    )


FEDAVG: dict[str, Any] = {
    "theta": [[1.0, 2.0], [3.0, 6.0]],
    "n_samples": [1.0, 3.0],
    "avg": [2.5, 5.0],
    "avg_if_client1_dropped": [1.0, 2.0],
}

CFL: dict[str, Any] = {
    "delta": [
        [2.0, 0.0],
        [1.732051, 1.0],
        [0.969619, 1.749239],
        [0.0, 2.0],
        [-1.285575, 1.532089],
    ],
    "cos": [
        [1.0, 0.866025, 0.48481, 0.0, -0.642788],
        [0.866025, 1.0, 0.857167, 0.5, -0.173648],
        [0.48481, 0.857167, 1.0, 0.87462, 0.358368],
        [0.0, 0.5, 0.87462, 1.0, 0.766044],
        [-0.642788, -0.173648, 0.358368, 0.766044, 1.0],
    ],
    "mean_update_norm": 1.430032,
    "split_single_linkage": ([0, 1, 2, 3], [4]),
    "split_complete_linkage": ([0, 1], [2, 3, 4]),
    "norm_history": [2.4, 1.9, 2.1, 1.8, 1.7],
}

MATFL: dict[str, Any] = {
    "layer1": [[1.0, 0.0], [0.9, 0.2], [0.0, 1.0], [0.1, 0.8]],
    "layer2": [[1.0], [0.0], [0.8], [-0.2]],
    "cos_layer1": [
        [1.0, 0.989949, -1.0, -0.989949],
        [0.989949, 1.0, -0.989949, -1.0],
        [-1.0, -0.989949, 1.0, 0.989949],
        [-0.989949, -1.0, 0.989949, 1.0],
    ],
    "weights_layer1": [
        [0.502525, 0.497475, 0.0, 0.0],
        [0.497475, 0.502525, 0.0, 0.0],
        [0.0, 0.0, 0.502525, 0.497475],
        [0.0, 0.0, 0.497475, 0.502525],
    ],
    "weights_layer2": [
        [0.5, 0.0, 0.5, 0.0],
        [0.0, 0.5, 0.0, 0.5],
        [0.5, 0.0, 0.5, 0.0],
        [0.0, 0.5, 0.0, 0.5],
    ],
    "new_layer1": [
        [0.950253, 0.099495],
        [0.949747, 0.100505],
        [0.049747, 0.900505],
        [0.050253, 0.899495],
    ],
    "new_layer2": [[0.9], [-0.1], [0.9], [-0.1]],
    "cos_flat": [
        [1.0, 0.185247, -0.345106, -0.980267],
        [0.185247, 1.0, -0.980407, -0.019996],
        [-0.345106, -0.980407, 1.0, 0.173363],
        [-0.980267, -0.019996, 0.173363, 1.0],
    ],
    "soft_grouping": [
        [0.843706, 0.156294, 0.0, 0.0],
        [0.156294, 0.843706, 0.0, 0.0],
        [0.0, 0.0, 0.852251, 0.147749],
        [0.0, 0.0, 0.147749, 0.852251],
    ],
    "vote_mode": [
        [0.5, 0.25, 0.25, 0.0],
        [0.25, 0.5, 0.0, 0.25],
        [0.25, 0.0, 0.5, 0.25],
        [0.0, 0.25, 0.25, 0.5],
    ],
}

FEDPREF: dict[str, Any] = {
    "reference": [10.0, 20.0, 30.0, 40.0, 5.0, 6.0],
    "delta_layer1": [
        [4.0, -3.0, 1.0, 0.5],
        [3.0, -4.0, 0.5, 1.0],
        [-1.0, 0.5, 4.0, 3.0],
        [0.5, -1.0, 3.0, 4.0],
    ],
    "delta_layer2": [[1.0, 0.2], [0.8, -0.1], [-0.3, 1.0], [-0.9, 0.4]],
    "sim": [
        [1.0, 0.98, 0.0, -0.5],
        [0.98, 1.0, 0.0, -0.5],
        [0.0, 0.0, 1.0, 0.48],
        [-0.5, -0.5, 0.48, 1.0],
    ],
    "sim_R1": [
        [1.0, 0.950532, -0.046961, -0.217732],
        [0.950532, 1.0, -0.201966, -0.269041],
        [-0.046961, -0.201966, 1.0, 0.763891],
        [-0.217732, -0.269041, 0.763891, 1.0],
    ],
    "weights_smin_minus1": [
        [0.364964, 0.361314, 0.182482, 0.091241],
        [0.361314, 0.364964, 0.182482, 0.091241],
        [0.182482, 0.182482, 0.364964, 0.270073],
        [0.111607, 0.111607, 0.330357, 0.446429],
    ],
    "new_models_smin_minus1": [
        [12.406934, 17.459854, 31.54927, 41.456204, 5.517153, 6.255839],
        [12.403285, 17.456204, 31.547445, 41.458029, 5.516423, 6.254745],
        [11.047445, 18.635036, 32.543796, 42.448905, 4.975912, 6.491241],
        [10.674107, 18.9375, 32.828125, 42.944196, 4.7, 6.520089],
    ],
    "weights_smin_0": [
        [0.505051, 0.494949, 0.0, 0.0],
        [0.494949, 0.505051, 0.0, 0.0],
        [0.0, 0.0, 0.675676, 0.324324],
        [0.0, 0.0, 0.324324, 0.675676],
    ],
    "new_models_smin_0": [
        [13.505051, 16.505051, 30.752525, 40.747475, 5.90101, 6.051515],
        [13.494949, 16.494949, 30.747475, 40.752525, 5.89899, 6.048485],
        [9.486486, 20.013514, 33.675676, 43.324324, 4.505405, 6.805405],
        [10.013514, 19.486486, 33.324324, 43.675676, 4.294595, 6.594595],
    ],
    "cluster_mean_change_norm": 3.917987,
    "split": ([0, 1], [2, 3]),
}

FEDPREF_SUBCLUSTER: dict[str, Any] = {
    "prev_models": [
        [11.0, 20.0, 30.0, 40.0, 5.0, 6.0],
        [11.0, 20.0, 30.0, 40.0, 5.0, 6.0],
        [9.0, 20.0, 30.0, 40.0, 5.0, 6.0],
        [9.0, 20.0, 30.0, 40.0, 5.0, 6.0],
    ],
    "trained": [
        [14.0, 17.0, 31.0, 40.5, 6.0, 6.2],
        [13.0, 16.0, 30.5, 41.0, 5.8, 5.9],
        [9.0, 20.5, 34.0, 43.0, 4.7, 7.0],
        [10.5, 19.0, 33.0, 44.0, 4.1, 6.4],
    ],
    "sim_members_01": 0.974342,
    "sim_members_23": 0.48,
}

FEDPER_LG: dict[str, Any] = {
    "sizes": [100.0, 300.0],
    "body": [1.0, 2.0],
    "head": [10.0, 20.0],
    "fedper_body": 1.75,
    "lg_head": 17.5,
    "lg_head_uniform": 15.0,
}
"""The third client, who is absent, gets the shared part and keeps the other."""

FEDBN: dict[str, Any] = {
    "sizes": [100.0, 300.0],
    "conv": [1.0, 2.0],
    "gamma": [0.5, 1.5],
    "beta": [0.0, 0.4],
    "running_mean": [-1.0, 3.0],
    "running_var": [1.0, 4.0],
    "new_conv": 1.75,
    "input": 2.0,
    "outputs": [2.249989, 0.775],
    "output_if_statistics_were_averaged": 1.340061,
}

PER_FEDAVG: dict[str, Any] = {
    "w": 1.0,
    "alpha": 0.1,
    "beta": 0.2,
    "delta": 0.01,
    "adapted": 0.9,
    "gradient_at_adapted": 0.729,
    "new": {"fo": 0.8542, "exact": 0.89794, "hf": 0.89794077},
    "from_the_adapted": 0.7542,
}
"""f(w) = w⁴ / 4 on every batch."""

PFEDME: dict[str, Any] = {
    "curvature": [1.0, 3.0],
    "optimum": [0.0, 4.0],
    "pull": 2.0,
    "personal_rate": 0.1,
    "inner_steps": 3,
    "rate": 0.05,
    "x": 1.0,
    "theta": [[0.781, 0.696291], [2.575, 2.827]],
    "w": [[0.9781, 0.949919], [1.1575, 1.32445]],
    "x_new": {1.0: 1.137185, 2.0: 1.274369},
}
"""f_i(θ) = curvature / 2 · (θ − optimum)²; values after each of two batches."""

PFEDRLLA: dict[str, Any] = {
    "data_sizes": [100.0, 300.0],
    "size_self": 100.0,
    "rho": [0.2, 0.6, 0.2],
    "bodies": [[1.0, 1.0], [3.0, 0.0], [0.0, 5.0]],
    "body_new": [2.0, 1.2],
    "embeddings": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
    "likeness": [0.315301, 0.315301, 0.369398],
    "weights": [0.2, 0.3, 0.5],
    "score": 0.7,
    "target": 0.9,
    "before": 0.65,
    "terms": [-0.181269, 0.05, -0.030585],
    "betas": [1, 1, 2],
    "reward": -0.19244,
    "largest_weight": 0.424926,
    "least_weight": 0.013353,
    "observation": 1408,
    "actions": 11,
    "actor_parameters": 429_323,
    "critic_parameters": 429_569,
    "encoder_parameters": 722_944,
    "published_decoder_parameters": 13_123_584,
    "cnn_parameters": 878_538,
    "cnn_head_parameters": 824_842,
}
