"""What attackers of a simulation send in place of their updates.

An attack changes the messages of some clients between the engine and the server, so it works with
every engine and every algorithm. Δ_i is what client i has learned, honestly, in this round; m and s
are mean and standard deviation of the updates of honest clients, which colluding attackers know.

| attack | an attacker's update |
| --- | --- |
| ``sign-flip`` | −factor Δ_i |
| ``scale`` | factor Δ_i |
| ``size`` | −3 Δ_i, with a data size of factor times its own |
| ``collude`` | −factor m, of all attackers |
| ``ipm`` | −factor m, small (inner product manipulation, Xie et al., 2020) |
| ``alie`` | m − factor s (a little is enough, Baruch et al., 2019); 0: their z_max |
| ``replay`` | what it sent in its first round, again and again |
| ``label-flip`` | honest, of training data whose labels are turned around |
"""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from comity.configuration import Configuration, Travel
from comity.configuration.attack import LABEL_FLIP, NONE
from comity.core.fleet import Fleet
from comity.core.mixing import TARGET
from comity.core.typing import IntArray, NamedArrays
from comity.federation.encoder import encode_fleet
from comity.federation.initial_model import initial_fleet
from comity.federation.messages import ClientUpdate, RoundRequest, expanded

_FLIP = 3.0  # of a client that also lies about its size


class Attackers:
    """The attackers of one simulated federation.

    Args:
        configuration: The run's configuration.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._attack, self._attackers = configuration.get_attack(), configuration.attackers
        sends = configuration.get_algorithm().travelling(configuration.get_module())
        self._travel = Travel(configuration)
        self._initial = initial_fleet(configuration, 1).group(*sends)
        self._replayed: dict[int, Fleet] = {}

    def changed(self, request: RoundRequest, update: ClientUpdate) -> ClientUpdate:
        """Return an update in which attackers send what they like.

        Args:
            request: What the clients were asked.
            update: What they would send if all were honest.
        """
        clients = update.clients
        bad = np.array([p for p, c in enumerate(clients) if c in self._attackers], dtype=np.int64)
        if self._attack.name in (NONE, LABEL_FLIP):  # they send what they learned
            return update
        if not len(bad) or update.models is None:
            return update
        if self._attack.name == "size":
            sizes = update.statistics["size"].copy()
            sizes[bad] *= self._attack.factor
            update = replace(update, statistics={**update.statistics, "size": sizes})
        assert update.models is not None
        models = update.models.clone()
        if self._attack.name == "replay":
            self._replay(clients, bad, models)
        else:
            finite = models.finite().reshape(len(clients), -1).all(axis=1)
            honest = np.flatnonzero(finite & ~np.isin(np.arange(len(clients)), bad))
            for name, tensor in models.tensors.items():
                start = self._start(request, clients, name, tensor)
                rows = tensor.view(len(clients), -1, *tensor.shape[1:])  # client, model of it
                moved = self._update(rows - start, bad, honest)
                rows[torch.as_tensor(bad)] = start[torch.as_tensor(bad)] + moved
        update = replace(update, models=models)
        return self._encoded(request, update, bad) if update.encoded else update

    def _encoded(self, request: RoundRequest, update: ClientUpdate, bad: IntArray) -> ClientUpdate:
        """Return an update in which the models of attackers travel encoded, as all others do."""
        encoding, posted = self._travel.encoding, request.only(update.clients).posted
        assert encoding is not None
        assert posted is not None
        assert update.models is not None
        models, encoded = update.models, list(update.encoded)
        rows = expanded(bad, len(models) // len(update.clients))
        order = tuple(self._travel.sent)
        decoded, bodies = encode_fleet(encoding, order, models.select(rows), posted.select(bad))
        models.put(rows, decoded)
        for place, body in zip(bad.tolist(), bodies, strict=True):
            encoded[place] = body
        return replace(update, encoded=tuple(encoded))

    def _start(
        self, request: RoundRequest, clients: tuple[int, ...], name: str, tensor: Tensor
    ) -> Tensor:
        """Return one tensor of the model that each client was sent (clients x 1 x shape)."""
        if request.models is None:
            initial = self._initial[name.removeprefix(TARGET)]
            return initial[None].expand(len(clients), *initial.shape)
        delivered = request.only(clients).models
        assert delivered is not None
        start = delivered[name]
        # of several delivered models, their mean
        return start[:, None] if start.dim() == tensor.dim() else start.mean(dim=1, keepdim=True)

    def _update(self, moved: Tensor, bad: IntArray, honest: IntArray) -> Tensor:
        """Return the updates of the attackers, from those of all clients (client first)."""
        name, factor = self._attack.name, self._attack.factor
        own = moved[torch.as_tensor(bad)]
        if name in ("sign-flip", "size"):
            return -(_FLIP if name == "size" else factor) * own
        if name == "scale":
            return factor * own
        if name not in ("collude", "ipm", "alie") or not len(honest):
            return own
        others = moved[torch.as_tensor(honest)]
        mean = others.mean(dim=0, keepdim=True)
        if name == "alie":
            spread = others.std(dim=0, keepdim=True, correction=0)
            update = mean - (factor or largest_shift(len(moved), len(bad))) * spread
        else:
            update = -factor * mean
        return update.expand(own.shape)

    def _replay(self, clients: tuple[int, ...], bad: IntArray, models: Fleet) -> None:
        """Remember what attackers send for the first time, and put it in place of all later."""
        each = len(models) // len(clients)
        for place in bad.tolist():
            rows = np.arange(place * each, (place + 1) * each)
            first = self._replayed.setdefault(clients[place], models.select(rows).clone())
            models.put(rows, first)

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Return what attackers remember between rounds."""
        return {
            f"{client}/{name}": tensor.numpy(force=True)
            for client, models in self._replayed.items()
            for name, tensor in models.tensors.items()
        }

    def load(self, state: NamedArrays) -> None:
        """Restore what `state` returned."""
        arrays_of: dict[int, NamedArrays] = {}
        for key, array in state.items():
            client, _, name = key.partition("/")
            arrays_of.setdefault(int(client), {})[name] = array
        models = {client: Fleet.from_arrays(arrays) for client, arrays in arrays_of.items()}
        self._replayed = {client: fleet for client, fleet in models.items() if fleet is not None}


def largest_shift(clients: int, attackers: int) -> float:
    """Return z_max of Baruch et al. (2019): the shift that hides behind the honest spread.

    s = ⌊n / 2 + 1⌋ − m supporters are needed for a majority; Φ(z) = (n − m − s) / (n − m).

    Args:
        clients: n, all clients of a round.
        attackers: m, those that attack.
    """
    honest = clients - attackers
    needed = clients // 2 + 1 - attackers
    share = min(max((honest - needed) / honest, 0.5), 1 - 1e-6)
    return NormalDist().inv_cdf(share)
