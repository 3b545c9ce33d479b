"""The verdict on a tuning, in words: what was chosen, whether it gained, how far to believe it."""

from __future__ import annotations

from typing import Any

from comity.configuration import assignment
from comity.runs.tuning_schema import TrialRow, TuningResults, TuningVerdict
from comity.runs.verdict import compare_values, counted
from comity.tuning.space import Space


def tuning_verdict(results: TuningResults, space: Space) -> TuningVerdict:
    """Return the verdict on a tuning.

    Args:
        results: Its results; their verdict is not read.
        space: What was tried of each setting.
    """
    trials, budget, seeds = results["trials"], results["budget"], results["seeds"]
    extent = f"{len(trials)} trials of {counted(len(seeds), 'seed')}"
    spent = f"{extent}: {budget['runs']} runs, {budget['steps']:,} steps of training."
    lost = _lost_texts(trials)
    if results["chosen"] is None:
        return {"sentences": ["No trial has a value, so none is chosen.", *lost, spent]}
    chosen, first = trials[results["chosen"]], trials[0]
    texts, gain = [_chosen_text(chosen, results)], _gain(chosen, first, results)
    if gain is not None:
        texts.append(_gain_text(chosen, first, gain, results))
    texts += _end_texts(chosen, space)
    if dropped := chosen.get("dropped", 0.0):
        texts.append(
            f"Attention: {dropped:.0%} of the chosen trial's models count for no front because "
            "they are perfectly fair, as one that always gives the same answer is."
        )
    if len(results["front"]) > 1:
        texts.append(
            f"{len(results['front'])} trials are on the front of {', '.join(results['objectives'])}"
            f"; {next(iter(results['objectives']))} decided among them."
        )
    texts += [
        *lost,
        spent,
        "All figures are of validation data; that of the best of several trials flatters it. A "
        f"comparison with the entry {results['algorithm']}[tuned=DIRECTORY] measures it on test "
        "data, with other seeds.",
    ]
    verdict: TuningVerdict = {"sentences": texts}
    if gain is not None:
        verdict["gain"] = gain
    return verdict


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings as in an entry of a comparison: ``mu=0.1, supervised.learning_rate=0.01``."""
    return ", ".join(assignment(name, value) for name, value in settings.items())


def _chosen_text(chosen: TrialRow, results: TuningResults) -> str:
    figures = ", ".join(
        f"{name.replace('_', ' ')} {chosen['means'][name]:.4g}" for name in results["objectives"]
    )
    seeds = counted(len(results["seeds"]), "seed")
    settings = settings_text(chosen["settings"])
    return f"Chosen: trial {chosen['trial']}, {settings}; {figures}, mean over {seeds}."


def _gain(chosen: TrialRow, first: TrialRow, results: TuningResults) -> list[float] | None:
    """Return the gain over trial 0 in the first objective, per seed; None where it has no value."""
    name, way = next(iter(results["objectives"].items()))
    if first["state"] != "done":
        return None
    pairs = zip(chosen["values"][name], first["values"][name], strict=True)
    sign = 1.0 if way == "higher" else -1.0
    return [sign * (new - old) for new, old in pairs if new is not None and old is not None]


def _gain_text(chosen: TrialRow, first: TrialRow, gain: list[float], results: TuningResults) -> str:
    name = next(iter(results["objectives"]))
    if chosen["trial"] == 0:
        return "No trial is better than the settings as they were (trial 0)."
    after, before = chosen["means"][name], first["means"][name]
    assert after is not None
    assert before is not None
    better = sum(each > 0 for each in gain)
    level = " (level, within the tolerance)" if compare_values(after, before) == 0 else ""
    return (
        f"The settings as they were (trial 0) have {before:.4g}: a gain of "
        f"{sum(gain) / len(gain):.3g}{level}, in {better} of {counted(len(gain), 'seed')}."
    )


def _end_texts(chosen: TrialRow, space: Space) -> list[str]:
    """Return which settings are chosen at an end of their range."""
    names = [
        f"{name} = {chosen['settings'][name]}"
        for name, axis in space.items()
        if chosen["trial"] and chosen["settings"][name] in axis.ends()
    ]
    if not names:
        return []
    return [f"At an end of its range, beyond which may be better: {', '.join(names)}."]


def _lost_texts(trials: list[TrialRow]) -> list[str]:
    texts = []
    undefined = [str(row["trial"]) for row in trials if row["state"] == "undefined"]
    if undefined:
        texts.append(
            f"Without a value: {_named(undefined)}; the model of a client was never validated, "
            "because it was not finite or the client took no part."
        )
    refused = [row for row in trials if row["state"] == "refused"]
    if refused:
        numbers = [str(row["trial"]) for row in refused]
        texts.append(f"Refused: {_named(numbers)}; {refused[0].get('fault', '')}")
    return texts


def _named(numbers: list[str]) -> str:
    return f"trial{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
