"""Embeddings of clients' heads: pFedRLLA's multi-head auto-encoder.

Every weight matrix of a head becomes a token of the same width, whatever its size; an LSTM reads a
client's tokens, and the sum of its outputs is the client's embedding. It learns to reconstruct the
tokens.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from comity.algorithms.pfedrlla.trainer import AdamTrainer
from comity.core.devices import CPU, placed
from comity.core.fleet import Fleet
from comity.core.typing import Float32Array, FloatArray, NamedArrays

ROWS = 32
WIDTH = 128
_RATE, _WEIGHT_DECAY = 5e-3, 1e-5
_TINY = 1e-6  # singular values below this share of the first are rounding errors


def token(matrix: Tensor, scaled: bool = True) -> FloatArray:
    """Return the left singular vectors of a matrix, cut into `ROWS` rows and centred, flattened.

    They are exact (the eigenvectors of the rows' inner products) and of one sign: the entry of
    largest magnitude is positive. Each is multiplied by σ_j / σ_1, so that arbitrary ones are
    zero; ``scaled=False`` leaves that out, as the public code does.
    """
    flat = matrix.flatten().cpu().double()
    cut = F.pad(flat, (0, -len(flat) % ROWS)).reshape(ROWS, -1)
    gram = (cut @ cut.T).numpy()
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()
    values, vectors = np.linalg.eigh(gram)
    sigma, vectors = np.sqrt(np.clip(values[::-1], 0.0, None)), vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(ROWS)] < 0, -1.0, 1.0)
    if scaled:
        first = max(float(sigma[0]), 1e-300)
        vectors = vectors * np.where(sigma > _TINY * first, sigma / first, 0.0)
    return np.asarray(vectors.ravel())


def tokens(heads: Fleet, scaled: bool = True) -> Float32Array:
    """Return tokens (clients, matrices, ROWS²): one per weight matrix of each client's head."""
    matrices = [tensor for tensor in heads.tensors.values() if tensor.dim() > 2]
    each = [[token(matrix[row], scaled) for matrix in matrices] for row in range(len(heads))]
    return np.array(each, dtype=np.float32)


class AutoEncoder(nn.Module):
    """LSTM that reads tokens, and a linear decoder that reconstructs each of them.

    The public decoder, a second LSTM, has eighteen times the encoder's parameters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(ROWS**2, WIDTH, num_layers=2, batch_first=True)
        self.decoder = nn.Linear(WIDTH, ROWS**2)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (clients, WIDTH) and reconstructed tokens."""
        hidden: Tensor = self.encoder(tokens)[0]
        return hidden.sum(dim=1), self.decoder(hidden)


class Encoder:
    """The auto-encoder with its optimiser, on the server."""

    def __init__(self) -> None:
        with placed(CPU):  # the same numbers on every device
            self._module = AutoEncoder()
        self._trainer = AdamTrainer(self._module, _RATE, _WEIGHT_DECAY, parts=("",))

    @torch.no_grad()
    def embed(self, tokens: Float32Array) -> Float32Array:
        """Return embeddings (clients, WIDTH) of tokens (clients, matrices, ROWS²)."""
        return np.asarray(self._run(tokens)[0].numpy(force=True))

    def learn(self, tokens: Float32Array, steps: int) -> float:
        """Take ``steps`` steps on Σ_tokens MSE, mean over clients; return the last loss."""
        loss = torch.zeros(())
        for _ in range(steps):
            self._trainer.tracked("")
            rebuilt = self._run(tokens)[1]
            loss = (rebuilt - torch.as_tensor(tokens)).square().mean(dim=(0, 2)).sum()
            self._trainer.descend(loss, "")
        return float(loss.detach())

    def _run(self, tokens: Float32Array) -> tuple[Tensor, Tensor]:
        parameters = {name: tensor[0] for name, tensor in self._trainer.tensors.items()}
        outputs: tuple[Tensor, Tensor] = functional_call(
            self._module, parameters, (torch.as_tensor(tokens),)
        )
        return outputs

    def state(self) -> NamedArrays:
        """Return the network and its moments, as arrays by name."""
        return self._trainer.state()

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned."""
        self._trainer.load(state)
