"""Model cards as pages for people: Markdown, and at its end the same as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from comity.core.storage import write_whole
from comity.errors import UserError
from comity.report.captions import privacy_text
from comity.report.measures import number
from comity.report.rates import GAPS, gaps_of, rate_text
from comity.runs.card import Card, card, checksum
from comity.runs.directory import Run
from comity.runs.export import check_target, export_model, writing
from comity.runs.group_schema import Attribute, Group, Measured

_START, _END = "\n## For programs\n\n```json\n", "\n```\n"
_MARKS = {
    "gained": "better than the trivial model",
    "level": "level with the trivial model",
    "below": "**worse** than the trivial model",
    "constant": "**a constant answer**",
    "undefined": "undefined",
}


def export(
    run: Run,
    target: str | Path,
    client: int | str,
    preference: Sequence[float] | None = None,
    *,
    force: bool = False,
) -> Path:
    """Write a client's model to a file for use without Comity, and its card; return the model.

    The card of ``model.safetensors`` is ``model.card.md``: what the model is, what it learned from,
    how well it does for whom, and its limits. All files of one model, .safetensors, .onnx and
    .nnef, have one card.

    Args:
        run: A finished run.
        target: The file to write; its name ends in .safetensors or .onnx. A name that ends in .nnef
            is a directory.
        client: Number or name of the client.
        preference: One weight per objective, for models that take any preference; default: the
            client's own.
        force: Overwrite existing files.
    """
    target = check_target(Path(target), force=force)
    page, content = target.with_suffix(".card.md"), card(run, client, preference)
    files = _files_beside(page, content, force=force)
    export_model(run, target, client, preference, force=force)
    content["files"] = {**files, **_checksums(target)}
    with writing(page):
        write_whole(page, card_text(content).encode())
    return target


def _checksums(target: Path) -> dict[str, str]:
    """Return the SHA-256 of a model's file, or of each file of its directory."""
    files = sorted(target.iterdir()) if target.is_dir() else [target]
    return {str(file.relative_to(target.parent)): checksum(file) for file in files}


def _files_beside(page: Path, content: Card, *, force: bool) -> dict[str, str]:
    """Return the files that a card lists if it is of the same model; another card is refused."""
    if not page.exists():
        return {}
    written = read_card(page.read_text())
    files = {} if written is None else written.pop("files", {})
    if written == json.loads(json.dumps(content)):
        return dict(files)
    if not force:
        raise UserError(
            f"{page} exists already, and is the card of another model; choose another name, or "
            "overwrite it: --force."
        )
    return {}


def card_text(content: Card) -> str:
    """Return a card as Markdown that ends with the card as JSON.

    Args:
        content: The card, with the checksums of the model's ``files``.
    """
    pairs = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    values = "{{{}}}".format(",\n ".join(pairs))  # one line per key
    return "\n".join(_lines(content)) + f"\n{_START}{values}{_END}"


def read_card(text: str) -> Card | None:
    """Return the card in a text that `card_text` wrote; None if it is none."""
    try:
        content = json.loads(text.rpartition(_START)[2].removesuffix(_END))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _lines(content: Card) -> Iterator[str]:
    yield f"# Model card: {content['title']}, for {content['name']}\n"
    yield from _summary(content)
    yield "\n## Limits: read these first\n"
    yield from (f"- {limit}" for limit in content["limits"])
    yield "\n## Results on the client's own test data\n"
    yield from _results(content)
    if content["groups"] is not None:
        yield from _groups(content["groups"])
    yield "\n## Data\n"
    yield from _data(content)
    yield "\n## Training\n"
    yield from _training(content)
    yield "\n## Origin\n"
    yield from _origin(content)


def _summary(content: Card) -> Iterator[str]:
    training = content["training"]
    weights = ", ".join(f"{name} {number(w, 3)}" for name, w in content["preference"].items())
    where = "a simulated federation" if training["simulated"] else "a federation"
    others = training["clients"] - 1
    yield (
        f"A model of {content['name']}, trained with {training['title']} in {where} with {others} "
        f"other client{'s' * (others != 1)}. Preference that it serves: {weights} (weights of the "
        "objectives; they sum to 1)."
    )


def _results(content: Card) -> Iterator[str]:
    results = content["results"]
    if results is None:
        yield "Not measured at this preference."
        return
    rows = [
        [
            name,
            number(content["preference"][name], 3),
            number(value),
            content["objectives"][name]["meaning"],
        ]
        for name, value in results["objectives"].items()
    ]
    yield from _table(["objective", "weight", "this model", "meaning"], rows)
    known = {"this model": "scalarised", "trivial model": "trivial", "optimum": "optimum"}
    values = [
        f"{label} {number(results[key])}"
        for label, key in known.items()
        if results[key] is not None or key == "scalarised"
    ]
    mark = f": {_MARKS[results['mark']]}" if results["mark"] else ""
    yield f"\nScalarised by the preference: {', '.join(values)}{mark}."
    if content["data"]["kind"] == "rows":
        yield (
            "The trivial model always gives the client's commonest answer. Higher is better in "
            f"everything. Test rows: {content['data']['rows'].get('test', 0):,}."
        )


def _groups(measured: Measured) -> Iterator[str]:
    yield "\n## Groups\n"
    yield (
        "On the same test rows. Brackets: intervals of 95 % (Wilson's for rates, DeLong's for AUC, "
        "Newcombe's for differences). An interval of a difference that includes 0 may be chance. "
        "A dash: undefined."
    )
    for name, attribute in measured["attributes"].items():
        yield f"\n### {name}\n"
        groups = {**attribute["values"], "all": measured["all"]}
        yield from _rates(name, groups)
        yield ""
        yield from _table(["difference", "value", "larger for", "smaller for"], _gaps(attribute))
        yield from _reasons(groups)


def _rates(name: str, groups: Mapping[str, Group]) -> Iterator[str]:
    header = [name, "rows", "answered yes", "true positive rate", "false positive rate"]
    header += ["accuracy", "AUC", "TP / FP / TN / FN", "mean probability", "share of yes"]
    header += ["calibration error"]
    rows = []
    for value, group in groups.items():
        counts = [group["true_positives"], group["false_positives"]]
        counts += [group["true_negatives"], group["false_negatives"]]
        calibration = group["calibration"]
        rows.append(
            [
                value,
                f"{group['rows']:,}",
                *(rate_text(group[key]) for key in ("selection_rate", "true_positive_rate")),
                *(rate_text(group[key]) for key in ("false_positive_rate", "accuracy", "auc")),
                " / ".join(map(str, counts)),
                number(calibration["mean_probability"], 3),
                rate_text(calibration["share_of_yes"]),
                number(calibration["error"], 3),
            ]
        )
    yield from _table(header, rows)


def _gaps(attribute: Attribute) -> Iterator[list[str]]:
    for key, gap in gaps_of(attribute).items():
        yield [GAPS[key], rate_text(gap), gap.get("highest", "–"), gap.get("lowest", "–")]
    ratio = number(attribute["demographic_parity_ratio"]["value"], 3)
    yield ["demographic parity ratio", ratio, "–", "–"]


def _reasons(groups: Mapping[str, Group]) -> Iterator[str]:
    """Yield why rates are undefined, once per group."""
    for value, group in groups.items():
        rates = (group["true_positive_rate"], group["false_positive_rate"], group["auc"])
        reasons = dict.fromkeys(rate.get("reason", "") for rate in rates if rate["value"] is None)
        if reasons:
            yield f"\nUndefined for {value}: {'; '.join(reasons)}."


def _data(content: Card) -> Iterator[str]:
    data = content["data"]
    if data["kind"] != "rows":
        episodes = ", ".join(f"{kind} {count}" for kind, count in data["episodes"].items())
        yield f"- Problem: `{content['problem']}`, an environment; episodes: {episodes}"
        return
    rows = ", ".join(f"{part} {count:,}" for part, count in data["rows"].items())
    everybody = ", ".join(f"{part} {n:,}" for part, n in data["rows_of_all_clients"].items())
    yield f"- Problem: `{content['problem']}`"
    yield f"- Rows of {content['name']}: {rows}"
    if content["training"]["simulated"]:
        yield f"- Rows of all clients: {everybody} (partition: {data['partition']})"
    if data["columns"]:
        yield f"- Columns that it learned from: {', '.join(data['columns'])}"
    for name, attribute in data["attributes"].items():
        seen = {True: "; an input of the model", False: "; not an input of the model", None: ""}
        values = ", ".join(attribute["values"])
        yield f"- Sensitive attribute {name}: {values}{seen[attribute['input']]}"
    yield from (f"- {note[:1].upper()}{note[1:]}" for note in data["notes"])
    yield f"- Licence of the data: {data['licence'] or 'not known'}"


def _training(content: Card) -> Iterator[str]:
    training = content["training"]
    wrapper = f", with {training['wrapper']}" if "wrapper" in training else ""
    yield f"- Algorithm: {training['title']} ({training['paper']}){wrapper}: {training['method']}"
    encoding = f"; encoded as {training['encoding']}" if "encoding" in training else ""
    yield f"- What travelled: {training['communication']}{encoding}"
    if "links" in training:
        yield f"- When: by a contact plan{_links(training['links'])}"
    if "attack" in training:
        yield f"- Attack of this simulation: {training['attack']}"
    if "privacy" in training:
        yield f"- {privacy_text(training['privacy'])}. The model itself, kept here, has no noise."
    yield f"- Settings: {_settings(training['settings'])}"
    yield f"- Local training: {training['learner']}, {_settings(training['learner_settings'])}"
    yield f"- Rounds: {training['rounds']}; kept: {_kept(training)}"


def _links(links: Mapping[str, Any]) -> str:
    """Return what a contact plan let through; nothing is known of clients without a server."""
    if not links:
        return ""
    each = links["updates_per_client"]
    return (
        f" of {number(links['days'], 3)} days: {links['updates']:,} updates, {each['least']} to "
        f"{each['most']} per client, {number(links['age']['mean'], 3)} mixings late on average, "
        f"{links['late_dropped']} too late"
    )


def _kept(training: Mapping[str, Any]) -> str:
    if training["keep"] == "last":
        return "the model of the last round"
    kept = training["kept_round"]
    if kept is None:
        return "the best validated model"
    if kept > training["rounds"]:
        return "the best validated model, which was the last delivery"
    return f"the best validated model, of round {kept}"


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items()) or "none"


def _origin(content: Card) -> Iterator[str]:
    sums = {**content.get("files", {}), **content["run"]["sha256"]}
    yield from _table(["file", "SHA-256"], [[name, f"`{sum_}`"] for name, sum_ in sums.items()])
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    yield f"\nSeed {content['run']['seed']}. Versions: {versions}."
    yield (
        "Repeated from its `config.toml` with these versions and on a processor of this kind, the "
        "run gives the same model.\n"
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table; cells come from data, so bars in them are escaped."""
    yield _line(header)
    yield _line(["---"] * len(header))
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
