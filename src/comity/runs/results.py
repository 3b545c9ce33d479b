"""Results of runs: what ``results.json`` and the lines of ``history.jsonl`` hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from comity.configuration import DEFAULT_PRESET, Configuration
from comity.core.clusters import adjusted_rand, labels_of
from comity.core.pareto import front, hypervolume
from comity.core.preferences import shared_groups
from comity.core.typing import AnyArray, FloatArray
from comity.datasets.partition import fingerprint
from comity.federation.messages import RoundMetrics
from comity.federation.record import RoundRecord
from comity.problems import DataProblem, EnvironmentProblem, Problem
from comity.runs.alone import beside_companions, companion_texts, count_standings
from comity.runs.group_schema import Groups
from comity.runs.groups import short_gaps
from comity.runs.link_results import link_results
from comity.runs.link_schema import NeighbourResult
from comity.runs.privacy_results import privacy_result, updates_sent
from comity.runs.schema import ClientResult, ClusterResult, HistoryEntry, Metrics, Results, Vectors
from comity.runs.verdict import kept_rounds, mark_of, run_verdict


def finite(values: Iterable[float]) -> list[float | None]:
    """Return numbers for JSON: None in place of those that are not finite."""
    return [float(value) if np.isfinite(value) else None for value in values]


# -- history -------------------------------------------------------------------------------


def history_entry(
    record: RoundRecord, metrics: RoundMetrics | None, everyone: FloatArray | None = None
) -> HistoryEntry:
    """Return a round as a line of the history.

    Args:
        record: The round as the server saw it.
        metrics: Metrics of the clients that answered; None at the server of real sites, which
            keep them.
        everyone: Objective vectors of all clients on validation data after this round (clients x
            objectives), in rounds in which they are evaluated.
    """
    entry: dict[str, Any] = {
        "round": record.round,
        "clients": list(record.clients),
        **({} if metrics is None else _metrics(metrics)),
        **({} if everyone is None else {"everyone": _vectors(everyone)}),
        "clusters": record.clusters,
        "chosen": record.chosen,
        **({} if record.worth is None else {f"validation_{record.measure}": record.worth}),
        "conflict": record.conflict,
        **({"server": record.diagnostics} if record.diagnostics else {}),
        "mixing": _vectors(record.mixing),
        **({} if record.heard is None or record.mixing is None else {"heard": record.heard}),
        **({"absent": record.absent} if record.absent else {}),
        **({"unmixed": True} if record.unmixed else {}),
        **({} if record.time is None else {"time": record.time, "age": list(record.ages)}),
        **({"dropped": list(record.dropped)} if record.dropped else {}),
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "events": [
            *record.events,
            *(metrics.incidents if metrics else ()),
            *(metrics.remarks if metrics and record.round == 1 else ()),
        ],
    }
    return cast(HistoryEntry, entry)


def _metrics(metrics: RoundMetrics) -> dict[str, Any]:
    return {
        "steps": metrics.steps.tolist(),
        "validation_steps": metrics.validation_steps.tolist(),
        "skipped": metrics.skipped.tolist(),
        "received": _vectors(metrics.received),
        "trained": _vectors(metrics.trained),
        "kept": _vectors(metrics.kept),
        "declined": metrics.declined.tolist(),
        **_beside_alone(metrics),
    }


def _beside_alone(metrics: RoundMetrics) -> dict[str, Any]:
    """Return the values of federated models and of lone companions, where there are any."""
    if metrics.federated is None or metrics.alone is None:
        return {}
    return {"federated": finite(metrics.federated), "alone": finite(metrics.alone)}


def _vectors(rows: AnyArray | None) -> Vectors:
    return None if rows is None else [finite(row) for row in rows]


# -- results -------------------------------------------------------------------------------


def summarise(
    configuration: Configuration,
    kept: FloatArray,
    last: FloatArray,
    history: Sequence[HistoryEntry],
    on_all_test_data: FloatArray | None = None,
    clients: Sequence[int] | None = None,
    constant: Sequence[bool | None] | None = None,
    groups: Groups | None = None,
) -> Results:
    """Return the results of a run.

    Args:
        configuration: The run's configuration.
        kept: Objective vectors of the models that clients keep (clients x objectives).
        last: Objective vectors of the models of the last round, likewise.
        history: All entries of the run's history.
        on_all_test_data: Objective vectors of the kept models on the test samples of all clients,
            or on as many of them as the setting ``global_test`` has.
        clients: The clients that the vectors are of; None: all.
        constant: Whether each kept model gives every test sample the same answer; None: unknown.
        groups: Measures of the kept models per attribute value, where there are any.
    """
    problem, everybody = configuration.get_problem(), configuration.get_preferences()
    numbers = range(configuration.clients) if clients is None else clients
    preferences = everybody[list(numbers)]
    attackers = configuration.attackers
    honest = [row for row, number in enumerate(numbers) if number not in attackers]
    target, optimum = problem.target(), problem.optimum(preferences)
    trivial = problem.trivial(numbers, configuration.seed, configuration.test_episodes)
    results: dict[str, Any] = {
        **_settings(configuration),
        "reference_point": list(problem.reference_point),
        **_protocol(configuration, problem),
        **({"honest": [numbers[row] for row in honest]} if attackers else {}),
        "metrics": problem.measures(kept[honest], preferences[honest]),
    }
    if not np.array_equal(kept, last, equal_nan=True):
        results["metrics_last"] = problem.measures(last[honest], preferences[honest])
    results["trivial"] = problem.trivial_measures(trivial[honest], preferences[honest])
    if on_all_test_data is not None:
        results["metrics"] |= _global_metrics(problem, on_all_test_data[honest])
    if on_all_test_data is not None or configuration.global_test == 0:
        results["metrics"]["trivial_hypervolume"] = results["trivial"]["hypervolume"]
    if optimum is not None and target is not None:
        results["optimum"] = {
            "mean_scalarised": float(optimum[honest].mean()),
            "hypervolume": hypervolume(target, problem.reference_point),
        }
    results["per_client"] = _per_client(problem, preferences, kept, last, optimum)
    names, rounds = configuration.get_names(), kept_rounds(configuration, history)
    companions = beside_companions(history)
    values = finite((trivial * preferences).sum(axis=1).round(6))
    for row, (entry, number) in enumerate(zip(results["per_client"], numbers, strict=True)):
        entry["client"], entry["name"] = number, names[number]
        if number in attackers:
            entry["attacker"] = True
        entry["trivial"] = values[row]
        answered = None if constant is None else constant[row]
        if answered is not None:
            entry["constant"] = answered
        entry["mark"] = mark_of(entry["scalarised"], values[row], answered)
        if rounds:
            entry["kept_round"] = rounds.get(number)
        if number in companions:
            entry["alone"] = companions[number]
        if groups is not None:
            entry["gaps"] = short_gaps(groups["clients"][row])
    results["front"] = front(kept[honest][problem.counts(kept[honest])]).tolist()
    if partitions := [e["clusters"] for e in history if e["clusters"] is not None]:
        results["clusters"] = _clusters(partitions[-1], preferences)
    if any("heard" in entry for entry in history):
        results["neighbours"] = _neighbours(history, configuration.clients)
    results["communication"] = {
        "bytes_up": sum(entry["bytes_up"] for entry in history),
        "bytes_down": sum(entry["bytes_down"] for entry in history),
        "bytes_per_update": _bytes_per_update(configuration, history),
    }
    if configuration.links is not None and configuration.topology == "star":
        results["links"] = link_results(configuration, history)
    if configuration.privacy is not None:
        sent = updates_sent(configuration, history)
        results["privacy"] = privacy_result(configuration, sent, simulated=True)
    results |= _effort(problem, everybody, history, attackers)
    per_client = [results["per_client"][row] for row in honest]
    validation = results.get("validation")
    beside = companion_texts(configuration, per_client)
    verdict = run_verdict(configuration, per_client, history, validation, beside)
    if beside:
        verdict["alone"] = count_standings(per_client)
    return cast(Results, {"verdict": verdict, **results})


def _bytes_per_update(configuration: Configuration, history: Sequence[HistoryEntry]) -> float:
    """Return the mean bytes that one client sends in one round."""
    rounds = [entry for entry in history if entry["round"] <= configuration.rounds]
    answers = sum(len(entry["clients"]) for entry in rounds)
    return round(sum(entry["bytes_up"] for entry in rounds) / max(answers, 1), 1)


def _settings(configuration: Configuration) -> dict[str, Any]:
    """Return the settings that identify a run."""
    preferences = configuration.preferences
    return {
        "problem": configuration.problem_name,
        "algorithm": configuration.algorithm,
        **({} if configuration.wrapper == "none" else {"wrapper": configuration.wrapper}),
        **({"attack": configuration.attack} if configuration.attackers else {}),
        **({} if configuration.preset == DEFAULT_PRESET else {"preset": configuration.preset}),
        "seed": configuration.seed,
        "clients": configuration.clients,
        "rounds": configuration.rounds,
        "preferences": preferences if isinstance(preferences, str) else "given",
        "keep": configuration.keep,
        "keep_scope": configuration.keep_scope,
        "guard": configuration.guard,
        **({"alone_share": configuration.alone_share} if configuration.alone_share else {}),
        "fine_tune": configuration.fine_tune,
        **({} if configuration.topology == "star" else _topology(configuration)),
    }


def _topology(configuration: Configuration) -> dict[str, str]:
    """Return the topology and, unless a contact plan decides, who may hear whom."""
    graph = {"graph": configuration.graph} if configuration.links is None else {}
    return {"topology": configuration.topology, **graph}


def _neighbours(history: Sequence[HistoryEntry], clients: int) -> NeighbourResult:
    """Return how many clients heard how many others."""
    heard = [others for entry in history for others in entry.get("heard", {}).items()]
    pairs = {frozenset((int(one), other)) for one, others in heard for other in others}
    return {
        "heard": round(float(np.mean([len(others) for _, others in heard])), 6),
        "pairs": len(pairs),
        "possible_pairs": clients * (clients - 1) // 2,
    }


def _protocol(configuration: Configuration, problem: Problem) -> dict[str, Any]:
    """Return what a reader needs to compare figures, beyond the settings of every run."""
    if not isinstance(problem, DataProblem):
        return {
            "episodes": {
                "validation": configuration.validation_episodes,
                "test": configuration.test_episodes,
            }
        }
    shares = problem.client_rows()
    parts = ("train", "validation", "test")
    protocol: dict[str, Any] = {
        "partition": configuration.partition,
        "sizes": configuration.sizes,
        "split_ratio": configuration.split_ratio,
        "samples": {part: [len(getattr(share, part)) for share in shares] for part in parts},
        "split": fingerprint(shares),
        "notes": list(problem.samples().notes),
    }
    if (counts := problem.class_counts()) is not None:
        protocol["classes"] = counts
    tests = sum(protocol["samples"]["test"])
    if configuration.global_test != "all" and configuration.global_test < tests:
        protocol["global_test"] = configuration.global_test
    if (strict_point := problem.strict_point()) is not None:
        protocol["strict_reference_point"] = list(strict_point)
    return protocol


def _global_metrics(problem: Problem, vectors: FloatArray) -> Metrics:
    """Return the mean over clients of each objective on the test samples of all clients."""
    means = np.nanmean(vectors, axis=0).round(6).tolist()
    return {
        f"global_{objective.name}": mean
        for objective, mean in zip(problem.objectives, means, strict=True)
    }


def _per_client(
    problem: Problem,
    preferences: FloatArray,
    kept: FloatArray,
    last: FloatArray,
    optimum: FloatArray | None,
) -> list[ClientResult]:
    """Return one entry per client; vectors of last models only if any client's differ."""
    names = [objective.name for objective in problem.objectives]
    differ = not np.array_equal(kept, last, equal_nan=True)
    rows: list[ClientResult] = []
    for client, preference in enumerate(preferences):
        row: ClientResult = {
            "client": client,
            "name": str(client),
            "preference": preference.tolist(),
            "objectives": dict(zip(names, finite(kept[client]), strict=True)),
            "scalarised": finite([preference @ kept[client]])[0],
        }
        if differ:
            row["objectives_last"] = dict(zip(names, finite(last[client]), strict=True))
        if optimum is not None:
            row["optimum"] = float(optimum[client])
        rows.append(row)
    return rows


def _clusters(partition: list[list[int]], preferences: FloatArray) -> ClusterResult:
    """Return the number of clusters, and their agreement with groups of equal preferences."""
    result: ClusterResult = {"count": len(partition)}
    if (groups := shared_groups(preferences)) is not None:
        labels = labels_of(partition, len(preferences))
        result["adjusted_rand"] = adjusted_rand(labels, groups)
    return result


def _effort(
    problem: Problem,
    preferences: FloatArray,
    history: Sequence[HistoryEntry],
    attackers: Sequence[int],
) -> dict[str, Any]:
    """Return what training took, and with data what local training added."""
    last = history[-1]
    if isinstance(problem, EnvironmentProblem):
        return {
            "environment_steps": {
                "training": sum(last["steps"]),
                "validation": sum(last["validation_steps"]),
            }
        }
    return {
        "validation": _validation(history, preferences, attackers),
        "training_steps": sum(last["steps"]),
        "skipped_terms": sum(last["skipped"]),
    }


def _validation(
    history: Sequence[HistoryEntry], preferences: FloatArray, attackers: Sequence[int]
) -> dict[str, float | None]:
    """Return the mean scalarised score before and after local training.

    Both come from the last round that has both, over its honest participants.
    """
    for entry in reversed(history):
        received, trained = entry["received"], entry["trained"]
        if received is not None and trained is not None:
            honest = ~np.isin(entry["clients"], attackers)
            if not honest.any():
                continue
            weights = preferences[entry["clients"]][honest]
            scores = [np.array(rows, dtype=float)[honest] * weights for rows in (received, trained)]
            means = finite([float(values.sum(axis=1).mean()) for values in scores])
            return {"received": means[0], "trained": means[1]}
    return {}
