"""Documents of a search and of a comparison of searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from comity.core.preferences import checked
from comity.errors import UserError
from comity.explore.arrays import packed, rounded
from comity.explore.aspirations import choose
from comity.explore.items import Item
from comity.explore.run_document import known_front, problem_of
from comity.explore.states import Pace, pace_of, quoted, state_of
from comity.report.measures import (
    Measure,
    available_measures,
    baselines,
    compared_measures,
    has_single_objective,
)
from comity.runs.base import CONFIG
from comity.runs.checksums import read_results
from comity.runs.search_schema import SearchComparisonResults, SearchEntry
from comity.searches.comparison import RESULTS
from comity.searches.directory import Search
from comity.searches.effort import total_steps
from comity.searches.evaluation import evaluation_of
from comity.version import __version__


class SearchView:
    """A search as the page sees it; it may be going on.

    Args:
        item: The search.
    """

    def __init__(self, item: Item) -> None:
        item.check_links()
        self.item, self.search = item, Search.open(item.path)
        self.configuration = self.search.configuration
        self.problem = self.configuration.problem
        self._pace: Pace | None = None

    def state(self, history: Sequence[SearchEntry]) -> dict[str, Any]:
        """Return the state.

        Args:
            history: The iterations that are done.
        """
        done, of = len(history), self.configuration.search.iterations
        if self._pace is None:
            self._pace = pace_of(self.item.path, done)
        sent = history[-1]["communication"] if history else {"bytes_up": 0, "bytes_down": 0}
        seconds = self.search.seconds if self.item.finished else None
        both = sent["bytes_up"], sent["bytes_down"]
        return state_of(self.item, done, of, both, seconds, self._pace)

    def since(self, round: int) -> dict[str, Any]:
        """Return what has happened after an iteration.

        Args:
            round: The last iteration that is known.
        """
        history = self.search.history
        return {
            "kind": "search",
            "id": self.item.id,
            "state": self.state(history),
            "reset": round > len(history),
            "history": _columns([each for each in history if each["iteration"] > round]),
        }

    def document(self) -> dict[str, Any]:
        """Return the whole document."""
        history, path = self.search.history, quoted(self.item.path)
        finished = self.item.finished
        results = self.search.results if finished else None
        federation, settings = self.configuration.federation, self.configuration.search
        points = [] if results is None else results["front"]
        names = [objective.name for objective in self.problem.objectives]
        control = None if results is None else results.get("control")
        return {
            "kind": "search",
            "id": self.item.id,
            "path": str(self.item.path),
            "title": f"{self.problem.title}: search with {settings.generator}",
            "version": __version__,
            "sampled": [],
            "state": self.state(history),
            "problem": problem_of(self.problem),
            "algorithm": {
                "name": federation.algorithm, "title": federation.label, "paper": "",
                "wrapper": None,
            },
            "seed": federation.seed,
            "configuration": (self.item.path / CONFIG).read_text(errors="replace"),
            "facts": [
                ["generator", settings.generator],
                ["iterations", f"{settings.iterations:,}"],
                ["candidates", f"{settings.candidates:,}"],
                ["clients", f"{federation.clients:,}"],
                ["seed", str(federation.seed)],
            ],
            "commands": {
                "start": f"comity search --config {quoted(self.item.path / CONFIG)} --out NEW",
                "resume": None if finished else f"comity resume {path}",
                "report": f"comity report {path}",
                "explore": f"comity explore {path}",
                "export": None,
                "predict": None,
            },
            "python": None if results is None else _python(str(self.item.path), len(names)),
            "exports": [],
            "verdict": None if results is None else results.get("verdict"),
            "metrics": [] if results is None else _metrics(results),
            "front": {
                "objectives": packed(_matrix([[*p["objectives"].values()] for p in points])),
                "weight": packed(_matrix([point["weight"] for point in points])),
                **{
                    key: [point[key] for point in points]
                    for key in ("iteration", "candidate", "round", "model")
                },
            },
            "known_front": known_front(self.problem),
            "trivial_point": self._trivial_point() if finished else None,
            "control": None if control is None else self._control(control),
            "history": _columns(history),
        }  # fmt: skip

    def _trivial_point(self) -> list[Any] | None:
        """Return the test result of a model that has learned nothing; None without its rows."""
        try:
            return rounded(evaluation_of(self.configuration).trivial()[0])
        except UserError:
            return None

    def _control(self, control: Mapping[str, Any]) -> dict[str, Any]:
        search = self.search.control
        known = search is not None and search.finished
        return {
            "generator": control["generator"],
            "metrics": control["metrics"],
            "front": packed(search.front.vectors) if known and search is not None else None,
        }

    def judge(
        self, preference: Sequence[float], aspiration: Sequence[float | None] | None = None
    ) -> dict[str, Any]:
        """Return the point of the front for a preference, as JSON.

        Args:
            preference: One weight per objective.
            aspiration: Level that each objective should reach; None where any will do.
        """
        front, names = self.search.front, [o.name for o in self.problem.objectives]
        if len(preference) != len(names):
            raise UserError(
                f"preference: there are {len(names)} objectives ({', '.join(names)}), got "
                f"{len(preference)} weights; give one each."
            )
        (weights,) = checked([list(preference)], 1, len(names), where="preference")
        point, choice = front.choose(weights.tolist()), None
        if aspiration is not None:
            trained = np.array([each["weight"] for each in self.search.results["front"]])
            choice = choose(aspiration, trained, front.vectors, weights, names)
            point = choice.place
        vector = front.vectors[point]
        test = {
            "rows": None,
            "objectives": rounded(vector),
            "scalarised": round(float(vector @ weights), 6),
        }
        return {
            "client": None,
            "preference": rounded(weights),
            "made": False,
            "how": "The model of the front that is worth most at this preference, as tested."
            if choice is None
            else "The model of the front that serves these levels best, as tested.",
            "point": point,
            "parts": {"test": test, "validation": None},
            "baseline": None,
            "threshold": 0.5,
            "yes": None,
            "aspiration": None if choice is None else choice.as_json(vector),
        }


def searches_document(item: Item, children: Mapping[str, str]) -> dict[str, Any]:
    """Return the document of a comparison of searches.

    Args:
        item: The comparison.
        children: Identifiers of its searches by their directory, relative to the comparison's.
    """
    item.check_links()
    results = None
    if item.finished:
        content = read_results(item.path / RESULTS, ["problem", "rows"])
        results = cast(SearchComparisonResults, content)
    rows = [] if results is None else results["rows"]
    measures = [] if results is None else compared_measures(rows, has_single_objective(results))
    path = quoted(item.path)
    return {
        "kind": "searches",
        "id": item.id,
        "path": str(item.path),
        "title": item.path.name if results is None else f"Searches on {results['problem']}",
        "version": __version__,
        "sampled": [],
        "state": state_of(item, len(rows), len(rows), (0, 0), None),
        "commands": {
            "resume": None if item.finished else f"comity resume {path}",
            "report": f"comity report {path}",
            "explore": f"comity explore {path}",
        },
        "verdict": None,
        "measures": [measure_of(measure) for measure in measures],
        "entries": [
            {
                "entry": row["search"],
                "label": row["search"],
                "seeds": row["seeds"],
                "runs": [children[place] for place in row["runs"] if place in children],
                "metrics": row["metrics"],
                "growth": {
                    "evaluations": [each["evaluations"] for each in row["growth"]],
                    "mean": [each["hypervolume"]["mean"] for each in row["growth"]],
                    "std": [each["hypervolume"]["std"] for each in row["growth"]],
                },
            }
            for row in rows
        ],
        "baselines": {} if results is None else baselines(results),
    }


def measure_of(measure: Measure) -> dict[str, Any]:
    """Return a measure as JSON."""
    return {"name": measure.name, "label": measure.label, "better": measure.better}


def _columns(history: Sequence[SearchEntry]) -> dict[str, Any]:
    candidates = [(e["iteration"], each) for e in history for each in e["candidates"]]
    return {
        "rounds": [each["iteration"] for each in history],
        "evaluations": [each["evaluations"] for each in history],
        "hypervolume": [each["hypervolume"] for each in history],
        "steps": [total_steps(each) for each in history],
        "events": [[each["iteration"], event] for each in history for event in each["events"]],
        "bytes_up": [each["communication"]["bytes_up"] for each in history],
        "bytes_down": [each["communication"]["bytes_down"] for each in history],
        "candidates": {
            "iteration": [iteration for iteration, _ in candidates],
            "weight": packed(_matrix([each["weight"] for _, each in candidates])),
            "objectives": packed(_matrix([each["objectives"] for _, each in candidates])),
        },
    }


def _matrix(rows: Sequence[Sequence[float]]) -> Any:
    return np.array(rows, dtype=float).reshape(len(rows), -1) if rows else np.zeros((0, 0))


def _metrics(results: Any) -> list[dict[str, Any]]:
    known = baselines(results)
    return [
        {
            **measure_of(measure),
            "value": results["metrics"].get(measure.name),
            **{name: known.get(name, {}).get(measure.name) for name in ("trivial", "optimum")},
        }
        for measure in available_measures(results["metrics"], has_single_objective(results))
    ]


def _python(path: str, objectives: int) -> str:
    weights = ", ".join([f"{1 / objectives:.4g}"] * objectives)
    return (
        "import comity\n"
        f"search = comity.open({path!r})\n"
        f"point = search.front.choose([{weights}])  # preference=[{weights}]\n"
        'print(search.results["front"][point])\n'
        "model = search.front.model(point)  # a torch module\n"
    )
