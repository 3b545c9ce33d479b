"""Judgement of a client's model at any preference: made and tried on the client's rows at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from comity.core.preferences import checked, equidistant
from comity.core.typing import FloatArray, IntArray
from comity.errors import UserError
from comity.explore.arrays import packed, rounded
from comity.explore.aspirations import Choice, choose
from comity.problems import DataProblem, EnvironmentProblem
from comity.problems.answers import logit_of_yes
from comity.problems.data import batch_of
from comity.runs.directory import Run
from comity.runs.spans import Spans

THRESHOLDS = 101
"""Probabilities above which an answer may be called yes: 0, 0.01, … 1."""
GRID = {1: 1, 2: 101, 3: 136}
"""Number of preferences of a grid, by number of objectives."""
_LARGE_GRID = 200  # of more objectives
_CLIENTS = 32  # whose rows are kept in memory


class _Part(NamedTuple):
    """The test or the validation rows of a client."""

    rows: int
    batch: dict[str, Tensor]
    """Without inputs."""


@dataclass(frozen=True)
class _Rows:
    """Rows of a client, ready to be answered."""

    inputs: Tensor
    """Of the test rows, then of the validation rows."""
    test: _Part
    validation: _Part | None
    codes: IntArray | None
    """Cell of each test row, group by group (groups x rows): label + 2 if it is in the group; 0
    or 1 elsewhere. None without labels of yes and no."""
    groups: list[dict[str, Any]]


class Judgement(NamedTuple):
    """Values of a model on a client's rows."""

    test: FloatArray
    validation: FloatArray | None
    counts: IntArray | None
    """Test rows answered yes (groups x labels x thresholds); None without answers."""


class Judge:
    """Makes and tries models of a finished run; data and modules stay in memory.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.objectives = [o.name for o in run.configuration.get_problem().objectives]
        algorithm = run.configuration.get_algorithm()
        count = len(self.objectives)
        self.takes_any = algorithm.evaluation_preferences(count, "test") is not None
        self._problem = _with_rows(run)
        self._rows: OrderedDict[int, _Rows] = OrderedDict()
        self._presents: dict[int, Judgement] = {}
        self._grids: dict[int, tuple[FloatArray, list[Judgement]]] = {}
        cells = np.linspace(0.0, 1.0, THRESHOLDS)
        with np.errstate(divide="ignore"):
            self._logits = np.log(cells) - np.log1p(-cells)

    # -- answers ---------------------------------------------------------------------------

    def judge(
        self,
        client: int,
        preference: Sequence[float] | None = None,
        threshold: float = 0.5,
        aspiration: Sequence[float | None] | None = None,
    ) -> dict[str, Any]:
        """Return what a client gets at a preference, as JSON.

        Args:
            client: Number of the client.
            preference: One weight per objective; None: the client's own.
            threshold: Probability above which an answer is yes.
            aspiration: Level that each objective should reach; None where any will do. The
                preference that serves them best takes the place of the given one.
        """
        number = self.run.client(client)
        weights = self._checked(preference, number)
        if not 0.0 < threshold < 1.0:
            raise UserError(f"threshold = {threshold:g}: must be between 0 and 1.")
        choice = None if aspiration is None else self._aspire(number, aspiration)
        if choice is not None:
            weights = choice.preference
        if self.takes_any or threshold != 0.5:
            values = self._tried(self._model(number, weights), number, weights, threshold)
        else:  # the model that the client holds, whatever the preference
            values = self._present(number)
        rows = self._rows.get(number)
        test_rows = None if rows is None else rows.test.rows
        present = self._present(number)
        return {
            "client": number,
            "preference": rounded(weights),
            "made": self._makes,
            "how": self._how(),
            "point": None,
            "parts": {
                "test": _part(values.test, weights, test_rows),
                "validation": None
                if values.validation is None or rows is None
                else _part(values.validation, weights, len(rows.inputs) - rows.test.rows),
            },
            "baseline": {
                "preference": rounded(self._preferences[number]),
                "test": _part(present.test, weights, None),
                "yes": None if present.counts is None else {"counts": packed(present.counts)},
            },
            "threshold": threshold,
            "yes": self._yes(number, values.counts),
            "aspiration": None if choice is None else choice.as_json(values.test),
        }

    def grid(
        self, client: int, thresholds: int = THRESHOLDS, most: int | None = None
    ) -> dict[str, Any]:
        """Return what a client gets at preferences all over the simplex, as JSON.

        Args:
            client: Number of the client.
            thresholds: Number of thresholds, one more than a divisor of 100.
            most: Largest number of preferences; None: all of the grid.
        """
        number = self.run.client(client)
        preferences, values = self._grid(number)
        if most is not None and most < len(preferences):
            chosen = np.unique(np.linspace(0, len(preferences) - 1, most).round().astype(int))
            preferences, values = preferences[chosen], [values[place] for place in chosen]
        step = (THRESHOLDS - 1) // (thresholds - 1)
        counts = [each.counts for each in values if each.counts is not None]
        validation = [each.validation for each in values if each.validation is not None]
        present = self._present(number)
        yes = self._yes(number, np.stack(counts)[..., ::step] if counts else None, step)
        return {
            "client": number,
            "made": self._makes,
            "how": self._how(),
            "preferences": packed(preferences),
            "test": packed(np.stack([each.test for each in values])),
            "validation": packed(np.stack(validation)) if validation else None,
            "yes": yes,
            "baseline": {
                "preference": rounded(self._preferences[number]),
                "test": _part(present.test, self._preferences[number], None),
                "yes": None
                if present.counts is None
                else {"counts": packed(present.counts[..., ::step])},
            },
        }

    # -- parts -----------------------------------------------------------------------------

    @cached_property
    def _spans(self) -> Spans | None:
        return self.run.spans

    @cached_property
    def _preferences(self) -> dict[int, FloatArray]:
        rows = self.run.results["per_client"]
        return {row["client"]: np.array(row["preference"]) for row in rows}

    def _checked(self, preference: Sequence[float] | None, client: int) -> FloatArray:
        if preference is None:
            return self._preferences[client]
        if len(preference) != len(self.objectives):
            raise UserError(
                f"preference: there are {len(self.objectives)} objectives "
                f"({', '.join(self.objectives)}), got {len(preference)} weights; give one each."
            )
        (weights,) = checked([list(preference)], 1, len(self.objectives), where="preference")
        return np.asarray(weights)

    def _model(self, client: int, weights: FloatArray) -> nn.Module | None:
        """Return the model to try; None where there are no rows to try it on."""
        if self._problem is None:
            return None
        if self.takes_any:
            return self.run.model_for(client, weights.tolist())
        return self.run.model(client)

    @property
    def _makes(self) -> bool:
        """Whether a model is made for a preference and tried."""
        return self.takes_any and self._problem is not None

    @property
    def _acts(self) -> bool:
        return isinstance(self.run.configuration.get_problem(), EnvironmentProblem)

    def _how(self) -> str:
        if self._makes:
            return "The model was made for this preference and tried on the client's own rows."
        if self.takes_any:
            missing = "No environment is run here" if self._acts else "The rows are not here"
            return (
                f"{missing}: these are values of the run's own test, at the nearest of "
                "the preferences that were tested."
            )
        if self._problem is None:
            return (
                "These are the values of the client's model in the run's own test, weighed by the "
                "preference."
            )
        return (
            f"A model of {self.run.configuration.label} takes no preference: the client's model "
            "stays as it is, and only its value is weighed anew."
        )

    def _tried(
        self, model: nn.Module | None, client: int, weights: FloatArray, threshold: float = 0.5
    ) -> Judgement:
        """Return the values of a model on a client's rows; without rows those of the run's test."""
        if model is None:
            return self._recorded(client, weights)
        rows = self._rows_of(client)
        with torch.inference_mode():
            outputs = model(rows.inputs)
            logit = logit_of_yes(outputs)
            if threshold != 0.5:
                outputs = _shifted(outputs, threshold)
            test = self._scores(outputs[: rows.test.rows], rows.test)
            validation = None
            if rows.validation is not None:
                validation = self._scores(outputs[rows.test.rows :], rows.validation)
        counts = None
        if rows.codes is not None and logit is not None:
            counts = self._counts(logit[: rows.test.rows].double().numpy(), rows.codes)
        return Judgement(test, validation, counts)

    def _scores(self, outputs: Tensor, part: _Part) -> FloatArray:
        assert self._problem is not None
        scores = self._problem.scores(outputs, part.batch)
        return np.asarray(scores.double().numpy().round(6))

    def _recorded(self, client: int, weights: FloatArray) -> Judgement:
        """Return a client's values in the test of the run, at the nearest tested preference."""
        place, spans = self.run.clients.index(client), self._spans
        if spans is None:
            return Judgement(self.run.vectors[place], None, None)
        nearest = int(np.linalg.norm(spans.preferences - weights, axis=1).argmin())
        return Judgement(spans.vectors[place, nearest], None, None)

    def _counts(self, logit: FloatArray, codes: IntArray) -> IntArray:
        """Return how many rows are answered yes (groups x labels x thresholds)."""
        place = np.searchsorted(self._logits, logit, side="left")  # thresholds below the logit
        width = THRESHOLDS + 1
        counts = np.empty((len(codes), 2, THRESHOLDS), dtype=np.int64)
        for group, cells in enumerate(codes):
            table = np.bincount(cells * width + place, minlength=4 * width).reshape(4, width)[2:]
            counts[group] = table[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        return counts

    def _yes(self, client: int, counts: IntArray | None, step: int = 1) -> dict[str, Any] | None:
        if counts is None:
            return None
        thresholds = np.linspace(0.0, 1.0, THRESHOLDS)[::step]
        groups = self._rows_of(client).groups
        return {"thresholds": rounded(thresholds), "groups": groups, "counts": packed(counts)}

    def _present(self, client: int) -> Judgement:
        """Return the values of the model that a client holds."""
        if client not in self._presents:
            model = None if self._problem is None else self.run.model(client)
            self._presents[client] = self._tried(model, client, self._preferences[client])
        return self._presents[client]

    def _grid(self, client: int) -> tuple[FloatArray, list[Judgement]]:
        if client not in self._grids:
            objectives = len(self.objectives)
            preferences = self._preferences[client][None]
            if self.takes_any:
                preferences = lattice(objectives)
            values = [self._tried(self._model(client, row), client, row) for row in preferences]
            self._grids[client] = preferences, values
        return self._grids[client]

    def _aspire(self, client: int, levels: Sequence[float | None]) -> Choice:
        preferences, values = self._grid(client)
        judged = [v.test if v.validation is None else v.validation for v in values]
        return choose(
            levels, preferences, np.stack(judged), self._preferences[client], self.objectives
        )

    def _rows_of(self, client: int) -> _Rows:
        if client not in self._rows:
            assert self._problem is not None
            self._rows[client] = _rows(self._problem, client)
            if len(self._rows) > _CLIENTS:
                self._rows.popitem(last=False)
        self._rows.move_to_end(client)
        return self._rows[client]


@cache
def lattice(objectives: int) -> FloatArray:
    """Return preferences all over the simplex (preferences x objectives).

    Args:
        objectives: Number of objectives.
    """
    return equidistant(GRID.get(objectives, _LARGE_GRID), objectives)


def _with_rows(run: Run) -> DataProblem | None:
    """Return the problem with its rows; None where there are none, or they are not here."""
    try:
        problem = run.training_configuration.get_problem()
        if not isinstance(problem, DataProblem) or not len(problem.samples().strata):
            return None
        problem.client_rows()
    except UserError:
        return None
    return problem


def _rows(problem: DataProblem, client: int) -> _Rows:
    share, columns = problem.client_rows()[client], problem.columns()
    parts = [share.test] + ([share.validation] if len(share.validation) else [])
    batches = [batch_of(columns, rows) for rows in parts]
    inputs = torch.cat([batch.pop("inputs") for batch in batches])
    test, *others = (_Part(len(rows), batch) for rows, batch in zip(parts, batches, strict=True))
    codes, groups = _groups(problem, test)
    return _Rows(inputs, test, others[0] if others else None, codes, groups)


def _groups(problem: DataProblem, test: _Part) -> tuple[IntArray | None, list[dict[str, Any]]]:
    """Return the cells and the names of all test rows and of each attribute value."""
    column = test.batch.get("label")
    if column is None or column.ndim != 1 or not bool(((column == 0) | (column == 1)).all()):
        return None, []
    label = (column == 1).numpy().astype(np.int64)
    names: list[tuple[str | None, str]] = [(None, "all")]
    inside = [np.ones(test.rows, dtype=bool)]
    for (attribute, values), key in zip(
        problem.attribute_values().items(), problem.attributes, strict=True
    ):
        code = test.batch[key].numpy()
        names += [(attribute, value) for value in values]
        inside += [code == place for place in range(len(values))]
    groups = [
        {
            "attribute": attribute,
            "value": value,
            "negatives": int((mask & (label == 0)).sum()),
            "positives": int((mask & (label == 1)).sum()),
        }
        for (attribute, value), mask in zip(names, inside, strict=True)
    ]
    return np.stack([np.where(mask, label + 2, label) for mask in inside]), groups


def _shifted(outputs: Tensor, threshold: float) -> Tensor:
    """Return outputs whose answer is yes where the probability was above a threshold."""
    shift = float(np.log(threshold) - np.log1p(-threshold))
    if outputs.ndim != 2 or outputs.shape[1] not in (1, 2):
        raise UserError("threshold: these models give no answers of yes or no.")
    shifted = outputs.clone()
    shifted[:, -1] -= shift
    return shifted


def _part(vector: FloatArray, weights: FloatArray, rows: int | None) -> dict[str, Any]:
    value = float(vector @ weights)
    return {
        "rows": rows,
        "objectives": rounded(vector),
        "scalarised": round(value, 6) if np.isfinite(value) else None,
    }
