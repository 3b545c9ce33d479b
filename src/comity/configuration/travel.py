"""What travels in a federation: tensors, statistics and sizes, from its configuration alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from comity.algorithms import STEPS
from comity.configuration.run import Configuration
from comity.core.encodings import Encoding, Layout, described
from comity.core.envelope import MODELS, STATISTICS, control_text, sealed_size
from comity.core.fleet import Fleet
from comity.core.mixing import TARGET
from comity.core.typing import NamedArrays

ANSWERS = "0" * 64
"""A checksum, for sizes: all have the same length."""
_LARGEST_NUMBER = (1 << 31) - 1  # of a control field


class Travel:
    """Tensors and statistics that leave a client, and models that reach it.

    Args:
        configuration: The configuration of the federation, as any party has it.
    """

    def __init__(self, configuration: Configuration) -> None:
        problem = configuration.get_problem()
        self._algorithm = algorithm = configuration.get_algorithm()
        self._guard, self._together = configuration.guard, configuration.keeps_together
        self._private = configuration.privacy is not None
        self.objectives = len(problem.objectives)
        """Number of objectives."""
        module = configuration.get_module()
        self.trained = [n for n, tensor in module.named_parameters() if tensor.requires_grad]
        """Names of the trained parameters."""
        self.parameters = frozenset(name for name, _ in module.named_parameters())
        """Names of all parameters; other tensors are buffers, or belong to target networks."""
        fleet = Fleet.of(module, 1)
        own = {name: described(tensor.numpy(force=True)) for name, tensor in fleet.tensors.items()}
        sent = {name: own[name] for name in fleet.group(*algorithm.travelling(module))}
        self._personal = len(own) > len(sent)
        if configuration.learner_settings.get("average_targets"):
            for layout in (own, sent):
                layout.update({f"{TARGET}{name}": kind for name, kind in list(layout.items())})
        self.own: Layout = own
        """Everything that a client holds, one row."""
        self.sent: Layout = sent
        """Models as they usually travel, one row, in their order."""
        apart = any(phase.per_objective for phase in algorithm.phases(problem))
        self.rows = self.objectives if apart else 1
        """Rows of an update per client: one, or one per objective."""
        lossy = frozenset(name for name in sent if name.removeprefix(TARGET) in self.trained)
        encodes = configuration.encoding != "none" and algorithm.communicates
        self.encoding = Encoding(configuration.encoding, lossy) if encodes else None
        """How models travel; None: as they are. Surveyed gradients and the models of an ensemble
        always travel as they are."""

    def tensors(self, exchange: str, alone: bool) -> Layout:
        """Return the tensors of one client's answer.

        Args:
            exchange: What is asked: survey, round, collect, finish or end.
            alone: Whether nothing is mixed afterwards.
        """
        if exchange == "survey":
            names = self.trained if "gradients" in self._algorithm.surveys else ()
            return _with_rows({name: self.own[name] for name in names}, self.objectives)
        if exchange == "round" and self._algorithm.communicates and not alone:
            return _with_rows(self.sent, self.rows)
        return self.sent if exchange == "collect" else {}

    def statistics(self, exchange: str, alone: bool) -> dict[str, tuple[int, ...] | None]:
        """Return the names of an answer's statistics, with their shapes where these are known.

        Args:
            exchange: What is asked.
            alone: Whether nothing is mixed afterwards.
        """
        shapes: dict[str, tuple[int, ...] | None] = {}
        if self._private:  # a noised update leaves, and nothing else
            return shapes
        if exchange == "survey":
            known = dict.fromkeys(("losses", "preferences"), (1, self.objectives))
            return {n: known.get(n) for n in self._algorithm.surveys if n != "gradients"}
        if exchange == "collect":
            return {"size": (1,)}
        if self._together and exchange in ("round", "finish"):
            shapes["validation"] = (1,)
        if exchange != "round" or alone or not self._algorithm.communicates:
            return shapes
        shapes["size"] = (1,)
        if self._guard:
            shapes["declined"] = (1,)
        if self._personal:
            shapes["unsound"] = (1,)
        for name in self._algorithm.statistics:
            shapes[name] = (1,) if name == STEPS else self.own[name][1]
        return shapes

    def local_name(self, name: str) -> str:
        """Return the name under which a client holds a delivered tensor."""
        local = name
        for prefix, replacement in self._algorithm.receive_as.items():
            if name.startswith(prefix):
                local = name.replace(prefix, replacement, 1)
        return local

    @property
    def delivered(self) -> Layout:
        """Models as they reach a client: several per tensor where it gets a choice."""
        return {n: self.own.get(self.local_name(n), kind) for n, kind in self.sent.items()}


def request_control(
    exchange: str, alone: bool, extra: int, acknowledged: int, kept: bool, rolled_back: bool
) -> dict[str, Any]:
    """Return the control fields of a request to one client.

    Args:
        exchange: What is asked.
        alone: Whether nothing is mixed afterwards.
        extra: Rounds of fine-tuning after the last delivery.
        acknowledged: Round of the client's last update that the server took.
        kept: The models of that round are those that all keep.
        rolled_back: That update was left out.
    """
    return {
        "exchange": exchange,
        "alone": alone,
        "extra": extra,
        "acknowledged": acknowledged,
        "kept": kept,
        "rolled_back": rolled_back,
    }


def update_control(answers: str) -> dict[str, Any]:
    """Return the control fields of an answer.

    Args:
        answers: Checksum of the request's message.
    """
    return {"answers": answers}


def message_sizes(configuration: Configuration) -> tuple[int, int]:
    """Return the most bytes of one sealed update and of one sealed delivery.

    They hold for every round, whatever is learned: a plan of contacts needs no training. Surveys
    and the replies to them are exchanges of their own, which come on top. Without a server, an
    update holds the model that the client started from as well, where the algorithm reads it.

    Args:
        configuration: The configuration of the federation; its number of rounds does not count.
    """
    travel = Travel(configuration)
    statistics = {
        f"{STATISTICS}{name}": ("f8", shape or ())
        for name, shape in travel.statistics("round", alone=False).items()
    }
    up = _largest(travel, travel.tensors("round", alone=False), statistics, update_control(ANSWERS))
    if configuration.topology == "neighbours" and configuration.get_algorithm().reads_start:
        up += size_of(travel.sent)
    control = request_control("round", False, _LARGEST_NUMBER, _LARGEST_NUMBER, False, False)
    communicates = configuration.get_algorithm().communicates
    return up, _largest(travel, travel.delivered if communicates else {}, {}, control)


def _largest(travel: Travel, models: Layout, others: Layout, control: dict[str, Any]) -> int:
    """Return the most bytes of a message with these models and other arrays."""
    agreed = bool(models) and dict(models) == dict(travel.sent)
    named = {} if agreed else {f"{MODELS}{name}": kind for name, kind in models.items()}
    body = size_of(models)
    if travel.encoding is not None:
        body = travel.encoding.largest(models, _empty(travel.sent))
    text = control_text(control, agreed, {**named, **others})
    return sealed_size(text, body + size_of(others))


def size_of(layout: Layout) -> int:
    """Return the bytes of arrays."""
    return sum(int(kind[1]) * int(np.prod(shape)) for kind, shape in layout.values())


def _with_rows(layout: Layout, rows: int) -> Layout:
    return {name: (kind, (rows, *shape[1:])) for name, (kind, shape) in layout.items()}


def _empty(layout: Layout) -> NamedArrays:
    """Return arrays of a layout that take no memory."""
    return {n: np.broadcast_to(np.zeros((), kind), shape) for n, (kind, shape) in layout.items()}
