"""The document of a run: everything that its views show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from comity.algorithms import find as find_algorithm
from comity.configuration import Configuration
from comity.core.typing import FloatArray
from comity.explore.arrays import packed, rounded
from comity.explore.items import Item
from comity.explore.link_document import links_of
from comity.explore.rounds import Rounds
from comity.explore.states import Pace, pace_of, quoted, state_of
from comity.problems import DataProblem, EnvironmentProblem, Problem
from comity.report.measures import available_measures, baselines, has_single_objective
from comity.report.names import label_of
from comity.runs.base import CONFIG, HISTORY
from comity.runs.checksums import read_json
from comity.runs.directory import Run
from comity.runs.schema import ClientResult, Results
from comity.runs.serve import FEDERATION, STATUS, is_served
from comity.runs.verdict import MARKS, gain_of
from comity.version import __version__

MOST_SPAN_CELLS = 250_000
"""Numbers of the vectors at many preferences that are sent."""
MOST_CROSS = 300
"""Clients of the matrix between models and clients that are sent."""
_RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")


class RunView:
    """A run as the page sees it; it may be going on.

    Args:
        item: The run.
    """

    def __init__(self, item: Item) -> None:
        item.check_links()
        self.item, self.run = item, Run.open(item.path)
        self.served = is_served(item.path)
        self.configuration: Configuration = self.run.configuration
        self.problem: Problem = self.configuration.get_problem()
        self.results: Results | None = None
        if self.run.finished and not self.served:
            self.results = self.run.results
        self.clients = _rows(self.results, self.configuration)
        self.preferences: FloatArray = np.array([row["preference"] for row in self.clients])
        numbers = [row["client"] for row in self.clients]
        self.rounds = Rounds(item.path / HISTORY, numbers, self.preferences)
        self._pace: Pace | None = None

    @property
    def takes_any(self) -> bool:
        """Whether models take any preference."""
        algorithm = self.configuration.get_algorithm()
        return algorithm.evaluation_preferences(len(self.problem.objectives), "test") is not None

    def state(self) -> dict[str, Any]:
        """Return the state, after a look at the history."""
        self.rounds.update()
        done, of = len(self.rounds.rounds), self.configuration.rounds
        if self._pace is None:
            self._pace = pace_of(self.item.path, done)
        sent = [sum(each.sent[way] for each in self.rounds.rounds) for way in (0, 1)]
        seconds = self.run.seconds if self.item.finished else None
        state = state_of(self.item, done, of, (sent[0], sent[1]), seconds, self._pace)
        return {**state, "resume": state["resume"] and self._resume()}

    def since(self, round: int) -> dict[str, Any]:
        """Return what has happened after a round.

        Rounds that were cut, because the run went on from a checkpoint, come again with the same
        values; ``reset`` says that the round is not there yet.

        Args:
            round: The last round that is known.
        """
        state = self.state()
        rounds = self.rounds.rounds
        return {
            "kind": "run",
            "id": self.item.id,
            "state": state,
            "reset": round > (rounds[-1].number if rounds else 0),
            "history": self.rounds.columns(round),
            "site_status": site_status(self.item.path),
        }

    def document(self) -> dict[str, Any]:
        """Return the whole document."""
        state = self.state()
        results, path = self.results, self.item.path
        algorithm = find_algorithm(self.configuration.algorithm).declaration
        finished = results is not None
        spans, left_out = self._spans()
        cross, cut = self._cross()
        return {
            "kind": "run",
            "id": self.item.id,
            "path": str(path),
            "title": f"{self.problem.title}: {self.configuration.label}",
            "version": __version__,
            "sampled": [*self.rounds.left_out(), *left_out, *cut, *self._unrecorded()],
            "state": state,
            "problem": problem_of(self.problem),
            "algorithm": {
                "name": self.configuration.algorithm,
                "title": algorithm.title,
                "paper": algorithm.paper,
                "wrapper": self.configuration.wrapper or None,
            },
            "seed": self.configuration.seed,
            "configuration": (path / CONFIG).read_text(errors="replace"),
            "facts": self._facts(),
            "commands": self._commands(),
            "python": self._python() if finished else None,
            "exports": ["safetensors", "onnx", "nnef", "card"] if finished else [],
            "verdict": _verdict(results),
            "clients": self._clients(),
            "metrics": _metrics(results),
            "front": packed(self.run.front) if finished else None,
            "known_front": known_front(self.problem),
            "trivial_point": self._trivial_point(),
            "takes_any": self.takes_any,
            "spans": spans,
            "groups": self._groups(),
            "cross": cross,
            "history": self.rounds.columns(),
            "mixing": self.rounds.matrices("mixing"),
            "similarity": self.rounds.matrices("similarity"),
            "clusters": self.rounds.clusters(),
            "heard": self.rounds.heard(),
            "links": links_of(self.configuration, self.rounds, self.results),
            "site_status": site_status(path),
        }

    # -- parts -----------------------------------------------------------------------------

    def _facts(self) -> list[list[str]]:
        configuration = self.configuration
        facts = {
            "clients": f"{configuration.clients:,}",
            "rounds": f"{configuration.rounds:,}",
            "preferences": configuration.preferences,
            "partition": "" if self.results is None else self.results.get("partition", ""),
            "keep": f"{configuration.keep}, by {configuration.keep_scope}",
            "topology": "" if configuration.topology == "star" else configuration.topology,
            "encoding": "" if configuration.encoding == "none" else configuration.encoding,
            "attack": "" if configuration.attack == "none" else configuration.attack,
            "seed": str(configuration.seed),
        }
        return [[label, str(text)] for label, text in facts.items() if text]

    def _resume(self) -> str:
        """Return the command that goes on with the run."""
        path = self.item.path
        if self.served:
            file = quoted(path / FEDERATION)
            return f"comity serve {file} --key server.key --out {quoted(path)}"
        return f"comity resume {quoted(path)}"

    def _commands(self) -> dict[str, str | None]:
        path, client = quoted(self.item.path), self.clients[0]["client"]
        finished = self.results is not None
        weights = ",".join(f"{weight:.6g}" for weight in self.preferences[0])
        taken = f" --preference {weights}" if self.takes_any else ""
        table = isinstance(self.problem, DataProblem) and bool(self.problem.features())
        export = f"comity export {path} model.safetensors --client {client}{taken}"
        again = f"comity run --config {quoted(self.item.path / CONFIG)} --out NEW"
        return {
            "start": self._resume() if self.served else again,
            "resume": None if self.item.finished else self._resume(),
            "report": f"comity report {path}",
            "explore": f"comity explore {path}",
            "export": export if finished else None,
            "predict": f"comity predict {path} rows.csv --client {client}{taken}"
            if finished and table
            else None,
        }

    def _python(self) -> str:
        client = f"client={self.clients[0]['client']}"
        weights = f"preference={self.preferences[0].round(6).tolist()}"
        chosen = f"{client}, {weights}" if self.takes_any else client
        function = "model_for" if self.takes_any else "model"
        return (
            "import comity\n"
            f"run = comity.open({str(self.item.path)!r})\n"
            f"model = run.{function}({chosen})  # a torch module\n"
            f'comity.export(run, "model.safetensors", {chosen})\n'
            'network = comity.load_exported("model.safetensors")  # from the file alone\n'
        )

    def _clients(self) -> dict[str, Any]:
        rows, known = self.clients, self.results is not None
        received = None if self.served else self.rounds.last_received()
        columns: dict[str, Any] = {
            "number": [row["client"] for row in rows],
            "name": [row.get("name", str(row["client"])) for row in rows],
            "label": [label_of(row) for row in rows],
            "attacker": [bool(row.get("attacker")) for row in rows],
            "preference": None if self.served else packed(self.preferences),
            "objectives": packed(self.run.vectors) if known else None,
            "last": packed(self.run.vectors_last) if known else None,
            "received": None if received is None else packed(received),
            "scalarised": [row["scalarised"] for row in rows] if known else None,
            "gain": [gain_of(row) for row in rows] if known else None,
        }
        for name in ("trivial", "optimum", "mark", "constant", "kept_round"):
            values = [row.get(name) for row in rows]
            columns[name] = None if all(value is None for value in values) else values
        return columns

    def _trivial_point(self) -> list[float] | None:
        """Return the mean vector of the trivial baseline, or the one that explains all values."""
        if self.results is None:
            return None
        names = [objective.name for objective in self.problem.objectives]
        trivial = self.results["trivial"]
        if all(name in trivial for name in names):
            return [trivial[name] for name in names]
        values = np.array([row.get("trivial") for row in self.clients], dtype=float)
        weights = self.preferences
        if np.isnan(values).any() or np.linalg.matrix_rank(weights) < len(names):
            return None
        point = np.linalg.lstsq(weights, values, rcond=None)[0]
        fits = np.allclose(weights @ point, values, rtol=1e-4, atol=1e-4)
        return rounded(point.round(3)) if fits else None

    def _spans(self) -> tuple[dict[str, Any] | None, list[str]]:
        spans = self.run.spans if self.results is not None else None
        if spans is None:
            return None, []
        clients, count, objectives = spans.vectors.shape
        most = 101 if objectives == 2 else 400
        most = max(2, min(count, most, MOST_SPAN_CELLS // (clients * objectives)))
        chosen = np.unique(np.linspace(0, count - 1, most).round().astype(int))
        sentence = f"Fronts of clients have {len(chosen):,} of {count:,} tested preferences."
        return {
            "preferences": packed(spans.preferences[chosen]),
            "vectors": packed(spans.vectors[:, chosen]),
        }, [sentence] if len(chosen) < count else []

    def _groups(self) -> dict[str, Any] | None:
        groups = self.run.groups if self.results is not None else None
        if groups is None:
            return None
        attributes = groups["together"]["attributes"]
        rates: dict[str, dict[str, Any]] = {}
        for name, attribute in attributes.items():
            for value in attribute["values"]:
                each = [c["attributes"][name]["values"][value] for c in groups["clients"]]
                rates.setdefault(name, {})[value] = {
                    "rows": [group["rows"] for group in each],
                    **{rate: [group[rate]["value"] for group in each] for rate in _RATES},  # type: ignore[literal-required]
                }
        return {
            "attributes": {name: list(each["values"]) for name, each in attributes.items()},
            "rates": rates,
        }

    def _cross(self) -> tuple[dict[str, Any] | None, list[str]]:
        cross = self.run.cross if self.results is not None else None
        if cross is None:
            return None, []
        names = cross["clients"]
        most = min(MOST_CROSS, len(names))
        cut = f"Every model on every client: the first {most:,} of {len(names):,} clients."
        square = slice(0, most)
        return {
            "clients": names[square],
            "models": cross["models"][square],
            "by_client": packed(_table(cross["scalarised_by_client"], most)),
            "by_model": packed(_table(cross["scalarised_by_model"], most)),
            "trivial": cross["trivial"][square],
        }, [cut] if most < len(names) else []

    def _unrecorded(self) -> list[str]:
        mixed = any("mixing" in each.matrices for each in self.rounds.rounds)
        large = self.configuration.clients > 100 and not mixed
        sentence = "Who learned from whom is not recorded in runs of more than 100 clients."
        return [sentence] if large and self.rounds.rounds else []


def problem_of(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON."""
    known = {DataProblem: "data", EnvironmentProblem: "environment"}
    kind = next((word for each, word in known.items() if isinstance(problem, each)), "unknown")
    return {
        "name": problem.name,
        "title": problem.title,
        "kind": kind,
        "objectives": [
            {"name": each.name, "unit": each.unit, "meaning": each.meaning}
            for each in problem.objectives
        ],
        "reference_point": list(problem.reference_point),
    }


def known_front(problem: Problem) -> Any:
    """Return the known front of a problem as JSON; None where it is not known."""
    front = problem.front()
    return None if front is None else packed(front)


def site_status(path: Path) -> dict[str, Any] | None:
    """Return the status that the organiser of a deployed federation writes; None elsewhere.

    Args:
        path: The run directory.
    """
    if not is_served(path) or not (path / STATUS).is_file():
        return None
    status = read_json(path / STATUS, ["exchange", "updated", "sites", "events"])
    sites = [
        {"name": name, "rounds": site.get("answered"), **site}
        for name, site in status["sites"].items()
    ]
    return {key: status[key] for key in ("exchange", "updated", "events")} | {"sites": sites}


def _rows(results: Results | None, configuration: Configuration) -> Sequence[ClientResult]:
    """Return the clients: of the results, or as they are configured."""
    if results is not None:
        return results["per_client"]
    names = configuration.get_names()
    rows: list[Any] = [
        {
            "client": client,
            "name": names[client],
            "preference": preference,
            "attacker": client in configuration.attackers,
        }
        for client, preference in enumerate(configuration.get_preferences().tolist())
    ]
    return rows


def _verdict(results: Results | None) -> dict[str, Any] | None:
    if results is None or "verdict" not in results:
        return None
    verdict = results["verdict"]
    return {
        "sentences": verdict["sentences"],
        "counts": verdict["counts"],
        "mean_gain": verdict["mean_gain"],
        "tolerance": verdict["tolerance"],
        "marks": MARKS,
    }


def _metrics(results: Results | None) -> list[dict[str, Any]]:
    if results is None:
        return []
    known = baselines(results)
    measures = available_measures(results["metrics"], has_single_objective(results))
    return [
        {
            "name": measure.name,
            "label": measure.label,
            "better": measure.better,
            "value": results["metrics"].get(measure.name),
            **{name: known.get(name, {}).get(measure.name) for name in ("trivial", "optimum")},
        }
        for measure in measures
    ]


def _table(rows: Sequence[Sequence[float | None]], most: int) -> FloatArray:
    return np.array([row[:most] for row in rows[:most]], dtype=float)
