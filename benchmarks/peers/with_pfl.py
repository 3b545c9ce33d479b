"""pfl-research as a contender; torchrun starts one such process per worker."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.peers.contender import Clock
from benchmarks.peers.tasks import Federation, Loss


class Trained(nn.Module):
    """The network with the two methods that pfl asks for."""

    def __init__(self, network: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.model, self.criterion = network, loss

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return what local training makes small."""
        value: Tensor = self.criterion(self.model(inputs), labels)
        return value

    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Any]:
        """Return nothing: pfl always evaluates in the first round, and the others do not."""
        return {}


class RoundEnds(TrainingProcessCallback):
    """Tell the clock about rounds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self._clock.round_done(model.pytorch_model.state_dict())
        return False, Metrics()


def federate(federation: Federation, rounds: int, workers: int, clock: Clock) -> dict[str, Tensor]:
    """Run pfl's FedAvg on user data sets that are laid out in the order of the batches."""
    task = federation.task
    federation.load_all()
    visits: Counter[int] = Counter()

    def user_data(client: int) -> PyTorchTensorDataset:
        visits[client] += 1
        rows = federation.batches(visits[client], client).flatten()
        inputs, labels = federation.client(client)
        return PyTorchTensorDataset((inputs[rows], labels[rows]), user_id=str(client))

    users = FederatedDataset(user_data, get_user_sampler("minimize_reuse", range(task.clients)))
    kind = torch.optim.Adam if task.optimiser == "adam" else torch.optim.SGD
    trained = Trained(federation.network(), Loss(task.kind))
    model = PyTorchModel(
        trained,
        local_optimizer_create=kind,
        central_optimizer=torch.optim.SGD(trained.parameters(), lr=1.0),
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=task.clients,
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(users, users),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=task.rate, local_batch_size=task.batch
        ),
        callbacks=[RoundEnds(clock)],
        send_metrics_to_platform=False,
    )
    return trained.state_dict()
