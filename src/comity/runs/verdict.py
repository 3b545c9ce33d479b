"""The verdict on a run: marks of its clients, and sentences that say whether anybody gained.

A client's gain is its scalarised test value at its own preference, less that of the trivial
baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from comity.configuration import Configuration
from comity.problems import DataProblem
from comity.runs.schema import ClientResult, HistoryEntry, KeptRounds, Mark, Verdict

TOLERANCE = 0.001
"""Values that differ by no more are level; of values above 1, by no more than this share."""
MARKS: dict[Mark, str] = {
    "gained": "better than the trivial baseline",
    "level": "level with the trivial baseline",
    "below": "worse than the trivial baseline",
    "constant": "the model gives every test sample of the client the same answer",
    "undefined": "a score of the client is undefined",
}
"""Marks of clients, with their meanings."""


# -- marks ---------------------------------------------------------------------------------


def compare_values(value: float, other: float) -> int:
    """Return 1, 0 or -1: whether a value is better than, level with or worse than another."""
    if abs(value - other) <= TOLERANCE * max(1.0, abs(other)):
        return 0
    return 1 if value > other else -1


def mark_of(value: float | None, trivial: float | None, constant: bool | None) -> Mark:
    """Return the mark of a client.

    Args:
        value: Scalarised test value of its model; None if undefined.
        trivial: That of the trivial baseline, likewise.
        constant: Whether the model gives every test sample the same answer; None if unknown.
    """
    if constant:
        return "constant"
    if value is None or trivial is None:
        return "undefined"
    marks: dict[int, Mark] = {1: "gained", 0: "level", -1: "below"}
    return marks[compare_values(value, trivial)]


def count_marks(clients: Sequence[ClientResult]) -> dict[Mark, int]:
    """Return the number of clients with each mark, all marks included."""
    marks = [client["mark"] for client in clients]
    return {mark: marks.count(mark) for mark in MARKS}


def honest_rows(clients: Sequence[ClientResult]) -> list[int]:
    """Return the rows of the clients that count for measures: all but attackers."""
    return [row for row, client in enumerate(clients) if not client.get("attacker")]


def gain_of(client: ClientResult) -> float | None:
    """Return what a client gained over the trivial baseline; None if that is undefined."""
    if client["scalarised"] is None or client["trivial"] is None:
        return None
    return client["scalarised"] - client["trivial"]


# -- kept rounds ---------------------------------------------------------------------------


def chosen_round(configuration: Configuration, history: Sequence[HistoryEntry]) -> int | None:
    """Return the round whose models all clients keep; None where each client chooses its own."""
    chosen = [entry["round"] for entry in history if entry.get("chosen")]
    if not chosen:
        return None
    # what is sent at the start of a round is what the round before ended with
    return int(chosen[-1]) - (not configuration.get_algorithm().select_after_training)


def kept_rounds(
    configuration: Configuration, history: Sequence[HistoryEntry]
) -> dict[int, int | None]:
    """Return the round of each client's kept model, where clients keep their best validated one.

    It is the last round in which the validation of the kept model changed; the round after the last
    is the last delivery. Clients that kept none are left out.

    Args:
        configuration: The run's configuration.
        history: All entries of the run's history.
    """
    if configuration.keep == "last" or configuration.get_algorithm().ensembles:
        return {}
    together = chosen_round(configuration, history)
    kept: dict[int, Sequence[float | None]] = {}
    rounds: dict[int, int | None] = {}
    for entry in history:
        for client, vector in zip(entry["clients"], entry.get("kept") or (), strict=False):
            if vector != kept.get(client) and any(value is not None for value in vector):
                kept[client] = vector
                rounds[client] = entry["round"] if together is None else together
    return rounds


def _kept(configuration: Configuration, rounds: Mapping[int, int | None]) -> KeptRounds:
    known = [number for number in rounds.values() if number is not None]
    if configuration.get_algorithm().ensembles:
        return {"rule": "ensemble"}
    if configuration.keep == "last":
        return {"rule": "last"}
    rule: Literal["federation", "client"] = (
        "federation" if configuration.keeps_together else "client"
    )
    return {"rule": rule, "first": min(known), "last": max(known)} if known else {"rule": rule}


def _kept_text(kept: KeptRounds, rounds: int) -> str:
    if kept["rule"] == "ensemble":
        return "All clients hold the ensemble that was made of their models at the end."
    if kept["rule"] == "last":
        return "Clients hold the models that they ended with (keep = last)."
    if "first" not in kept:
        return "No model was validated, so clients hold the one that they started from."
    names = ["the last delivery" if n > rounds else f"{n}" for n in (kept["first"], kept["last"])]
    if kept["rule"] == "federation":
        return (
            f"All clients hold the models of round {names[1]} of {rounds}, the best one for all "
            "together on validation."
        )
    if names[0] == names[1]:
        when = names[0] if kept["first"] > rounds else f"round {names[0]} of {rounds}"
        return f"Each client holds its best validated model, from {when}."
    when = (
        f"round {names[0]} to {names[1]}"
        if kept["last"] > rounds
        else f"rounds {names[0]} to {names[1]} of {rounds}"
    )
    return f"Each client holds its best validated model, from {when}."


# -- sentences -----------------------------------------------------------------------------


def run_verdict(
    configuration: Configuration,
    clients: Sequence[ClientResult],
    history: Sequence[HistoryEntry],
    validation: Mapping[str, float | None] | None = None,
    beside_alone: Sequence[str] = (),
) -> Verdict:
    """Return the verdict on a run.

    Args:
        configuration: The run's configuration.
        clients: The results of its clients, with their marks.
        history: All entries of the run's history.
        validation: Mean scalarised value before and after local training, where it is known.
        beside_alone: Sentences on clients beside their lone companions, if they have any.
    """
    counts = count_marks(clients)
    gains = {mark: _mean([c for c in clients if c["mark"] == mark]) for mark in MARKS}
    kept = _kept(configuration, kept_rounds(configuration, history))
    data = isinstance(configuration.get_problem(), DataProblem)
    trivial = "a constant answer" if data else "doing nothing"
    sentences = (
        [_single_text(clients[0], trivial)]
        if len(clients) == 1
        else _outcome_texts(counts, gains, trivial)
    )
    unmixed = sum(entry.get("unmixed", False) for entry in history)
    if unmixed:
        sentences.append(
            f"In {unmixed} of {configuration.rounds} rounds nothing was mixed: see the events."
        )
    if configuration.attackers:
        sentences.append(_attack_text(configuration))
    sentences += [
        *_federating_texts(configuration, validation, beside_alone),
        _kept_text(kept, configuration.rounds),
    ]
    verdict: Verdict = {
        "sentences": sentences,
        "tolerance": TOLERANCE,
        "counts": counts,
        "mean_gain": _mean(clients),
        "mean_gain_of_gained": gains["gained"],
        "kept": kept,
    }
    return {**verdict, "unmixed": unmixed} if unmixed else verdict


def _attack_text(configuration: Configuration) -> str:
    attack, names = configuration.get_attack(), configuration.get_names()
    who = listed([names[client] for client in configuration.attackers])
    verb = "do not count" if attack.name == "none" else f"attack ({configuration.attack})"
    honest = configuration.clients - attack.count
    return (
        f"All figures are of {honest} honest clients; of the others, {who}, {attack.count} {verb}."
    )


def _mean(clients: Sequence[ClientResult]) -> float | None:
    gains = [gain for client in clients if (gain := gain_of(client)) is not None]
    return float(np.mean(gains).round(6)) + 0.0 if gains else None


def _single_text(client: ClientResult, trivial: str) -> str:
    gain = gain_of(client)
    size = "" if gain is None else f"{abs(gain):.3g}"
    return {
        "gained": f"The client gained {size} over {trivial}.",
        "level": f"The client is level with {trivial} (within {TOLERANCE:g}).",
        "below": f"The client is worse off than with {trivial}, by {size}.",
        "constant": "The client holds a model that gives every test sample the same answer.",
        "undefined": "A score of the client is undefined, so it has no value.",
    }[client["mark"]]


def _outcome_texts(
    counts: Mapping[Mark, int], gains: Mapping[Mark, float | None], trivial: str
) -> list[str]:
    """Return who holds a constant model, and who gained over the trivial baseline."""
    total, constant, undefined = sum(counts.values()), counts["constant"], counts["undefined"]
    texts = []
    if constant:
        end = f": nothing was gained over {trivial}." if constant == total else "."
        verb = "holds" if constant == 1 else "hold"
        texts.append(
            f"{constant} of {total} clients {verb} a model that gives every test sample the same "
            f"answer{end}"
        )
    if rest := total - constant - undefined:
        parts = [_gained_text(counts["gained"], gains["gained"], trivial)]
        if level := counts["level"]:
            parts.append(f"{level} {be(level)} level with it (within {TOLERANCE:g})")
        if below := counts["below"]:
            parts.append(f"{below} {be(below)} below it ({gains['below']:+.3g} on average)")
        start = f"Of the other {rest}" if constant or undefined else f"Of {rest} clients"
        texts.append(f"{start}, {listed(parts)}.")
    if undefined:
        texts.append(
            f"{undefined} of {total} clients {'has' if undefined == 1 else 'have'} no value, "
            "because a score is undefined."
        )
    return texts


def _gained_text(count: int, gain: float | None, trivial: str) -> str:
    return (
        f"{count} gained over {trivial} ({gain:+.3g} on average)"
        if count
        else f"none gained over {trivial}"
    )


def _federating_texts(
    configuration: Configuration,
    validation: Mapping[str, float | None] | None,
    beside_alone: Sequence[str],
) -> list[str]:
    """Return what a run tells about federating: not more than what training added."""
    algorithm, texts = configuration.get_algorithm(), []
    if not algorithm.communicates:
        return ["Clients learned alone.", *beside_alone]
    if algorithm.centralised:
        return ["One model was trained on the data of all clients."]
    objectives = configuration.get_problem().objectives
    of = objectives[0].name if len(objectives) == 1 else "scalarised value"
    received, trained = ((validation or {}).get(key) for key in ("received", "trained"))
    if received is not None and trained is not None:
        texts.append(
            f"On validation data models had {received:.3g} as received and {trained:.3g} after "
            f"local training (mean {of}, last round that has both)."
        )
    doubt = "One run does not tell whether federating paid: compare it with no-communication."
    if beside_alone:
        doubt = "With all steps they may do better alone: compare with no-communication."
    return [*texts, *beside_alone, doubt]


def be(count: int) -> str:
    """Return the verb for a number of clients: ``is`` or ``are``."""
    return "is" if count == 1 else "are"


def listed(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def counted(number: int, noun: str) -> str:
    """Return ``1 seed``, ``2 seeds``."""
    return f"{number} {noun}{'s' * (number != 1)}"
