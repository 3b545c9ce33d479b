"""The uplink of clients: what their updates are measured from, and have lost.

Updates that are noised or encoded are measured from a base. The base is the model that a client
last received, as it decoded it; at first the initial one. With
``int4`` a client adds what its updates have lost so far to the next one, so that the sum of what
the server decodes follows the sum of what was sent. Both stay with the client.
"""

from __future__ import annotations

import numpy as np
import torch

from comity.configuration import Travel
from comity.core.encodings import Encoded
from comity.core.fleet import Fleet
from comity.core.mixing import TARGET
from comity.core.storage import strip_prefix
from comity.core.typing import IntArray, NamedArrays
from comity.federation.encoder import encode_fleet, posted_after


class Uplink:
    """Base and residual of some clients, one row per client; nothing where models travel whole.

    Args:
        travel: What travels, and how.
        models: The models that the clients start from.
        private: Updates are noised, for which there must be a base, too.
    """

    def __init__(self, travel: Travel, models: Fleet, private: bool = False) -> None:
        self._encoding = encoding = travel.encoding
        self._residual: NamedArrays = {}
        self._posted: Fleet | None = None
        if encoding is None and not private:
            return
        names = tuple(travel.sent)
        self._posted = Fleet({name: models[name.removeprefix(TARGET)] for name in names}).clone()
        for name in encoding.lossy if encoding is not None and encoding.feeds_back else ():
            clients, *shape = self._posted[name].shape
            self._residual[name] = np.zeros((clients, travel.rows, *shape), dtype=np.float32)

    @property
    def posted(self) -> NamedArrays:
        """The base, by name, one row per client."""
        if self._posted is None:
            return {}
        return self._posted.arrays()

    def received(self, rows: IntArray, models: Fleet) -> None:
        """Take delivered models as the base, also where a client declines them.

        Args:
            rows: Rows of the clients in the fleet.
            models: The models as the clients decoded them.
        """
        if self._posted is None:
            return
        sent = Fleet({name: models[name] for name in self._posted if name in models.tensors})
        self._posted.put(rows, posted_after(self._posted.select(rows), sent))

    def base(self, rows: IntArray) -> Fleet:
        """Return the base of some clients, one row per client."""
        assert self._posted is not None
        return self._posted.select(rows)

    def encode(self, rows: IntArray, models: Fleet) -> tuple[Fleet, tuple[Encoded, ...]]:
        """Return the models that the server decodes, and what travels, one per client.

        Args:
            rows: Rows of the clients in the fleet.
            models: The models to send, one row per client or several.
        """
        if self._encoding is None:
            return models, ()
        base = self.base(rows)
        order = tuple(base)
        if not self._encoding.feeds_back:
            return encode_fleet(self._encoding, order, models, base)
        residual = {name: array[rows] for name, array in self._residual.items()}
        result = encode_fleet(self._encoding, order, models, base, residual)
        for name, array in residual.items():
            self._residual[name][rows] = array
        return result

    def rolled_back(self, rows: IntArray) -> None:
        """Forget what updates of these clients have lost: the server left the last one out."""
        for array in self._residual.values():
            array[rows] = 0.0

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Return everything that is remembered between rounds, client first."""
        posted = {f"posted/{name}": array for name, array in self.posted.items()}
        return posted | {f"residual/{name}": array for name, array in self._residual.items()}

    def load(self, state: NamedArrays) -> None:
        """Restore what `state` returned."""
        base = {} if self._posted is None else self._posted.tensors
        for name, array in strip_prefix(state, "posted/").items():
            base[name].copy_(torch.from_numpy(array))
        for name, array in strip_prefix(state, "residual/").items():
            self._residual[name] = array.copy()
