"""The commands of a negotiation: charter offer, answer, agree, consent, show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from comity.cli.options import Json, Set, apply_settings
from comity.cli.terminal import print_json, print_tables
from comity.errors import RefusedError, UserError

if TYPE_CHECKING:
    from comity.configuration.negotiation import Range
    from comity.federation.keys import Keys

app = typer.Typer(
    name="charter",
    help="Negotiate a federation: an offer, answers by private terms, a charter, consents.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OfferPath = Annotated[Path, typer.Argument(metavar="OFFER", help="The offer.")]
CharterPath = Annotated[Path, typer.Argument(metavar="CHARTER", help="The charter.")]
TermsPath = Annotated[Path, typer.Option(help="Your terms (TOML), which nobody else sees.")]
OutPath = Annotated[Path, typer.Option(help="File to write; must not exist yet.")]


@app.command()
def offer(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A draft federation file, or a problem's name."),
    ],
    out: OutPath,
    algorithm: Annotated[str | None, typer.Option(help="What is federated about it.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds.")] = None,
    negotiate: Annotated[
        list[str] | None,
        typer.Option(help="A field to negotiate: steps=50..200, guard=false,true; repeatable."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="The server's certificate, server.crt.")
    ] = None,
    settings: Set = None,
) -> None:
    """Write an offer: a draft of the session, and what may be negotiated."""
    from comity.configuration.charter import make_offer, read_offer
    from comity.configuration.files import read_document
    from comity.configuration.negotiation import parse_ranges
    from comity.federation.keys import read_certificate

    draft: dict[str, Any] = {"problem": source}
    if source.endswith(".toml"):
        draft = read_document(Path(source))[1]
    for name, value in {"algorithm": algorithm, "rounds": rounds}.items():
        if value is not None:
            draft[name] = value
    apply_settings(draft, settings)
    if certificate is not None:
        pem = read_certificate(certificate).pem.decode()
        apply_settings(draft, [f"server.certificate='''{pem}'''"])
    _write(out, make_offer(draft, parse_ranges(negotiate or []), Path(source)))
    made = read_offer(out)
    print(f"Offer {made.draft.identity[:12]}: {out}")
    _print_ranges("Negotiable", made.ranges)
    print(f"Members answer with: comity charter answer {out} --terms TERMS --key KEY --out ANSWER")


@app.command()
def answer(
    path: OfferPath,
    terms: TermsPath,
    out: OutPath,
    key: Annotated[
        Path | None, typer.Option(help="Your private key; the certificate lies beside it.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Your name; default: that of the certificate.")
    ] = None,
) -> None:
    """Answer an offer by your own terms; exit code 3 if they refuse it."""
    from comity.configuration.charter import read_offer
    from comity.configuration.terms import read_terms
    from comity.federation.consent import answer as make_answer
    from comity.federation.consent import read_answer

    own = _keys(key)
    if own is None and name is None:
        raise UserError("name is missing: add --name NAME, or --key with a certificate beside it.")
    member = name or (own.certificate.name if own else "")
    if own is not None and own.certificate.name != member:
        raise UserError(f"--name {member}: {key} is the key of '{own.certificate.name}'.")
    limits = read_terms(terms)
    made = read_offer(path, limits.algorithms)
    content, reasons = make_answer(made, limits, member, own)
    _write(out, content)
    if reasons:
        raise RefusedError(f"{member} refuses: {' '.join(reasons)} The answer says so: {out}")
    print(f"{member} accepts offer {made.draft.identity[:12]}: {out}")
    _print_ranges("Accepted", read_answer(out).accepts)
    if own is None:
        print("Without --key the answer is not signed, and a real session needs your certificate.")


@app.command()
def agree(
    path: OfferPath,
    answers: Annotated[list[Path], typer.Argument(metavar="ANSWER...", help="The answers.")],
    out: OutPath,
    as_json: Json = False,
) -> None:
    """Make a charter of an offer and its answers; exit code 3 if too few members agree."""
    from comity.configuration.charter import read_offer
    from comity.configuration.federation_file import read_federation
    from comity.federation.consent import agree_on, read_answer
    from comity.report.tables import agreement_table

    made = read_offer(path)
    read = [read_answer(one) for one in answers]
    content, outcome = agree_on(made, read)
    _write(out, content)
    file = read_federation(out)
    refused = {one.name: list(one.refuses) for one in read if one.refuses}
    results: dict[str, Any] = {
        "charter": file.identity,
        "values": outcome.values,
        "members": {
            one.name: one.certificate.fingerprint if one.certificate else None
            for one in sorted(read, key=lambda one: one.name)
            if one.name in outcome.members
        },
        "left_out": {name: list(fields) for name, fields in outcome.left_out.items()},
        "refused": refused,
        "file": str(out),
    }
    if as_json:
        print_json(results)
    else:
        print_tables(agreement_table(results, made.ranges), footer=f"Charter: {out}")


@app.command()
def consent(
    path: CharterPath,
    terms: TermsPath,
    key: Annotated[Path, typer.Option(help="Your private key; the certificate lies beside it.")],
    out: OutPath,
) -> None:
    """Check a charter against your own terms again, and sign its SHA-256."""
    from comity.configuration.federation_file import read_federation
    from comity.configuration.terms import read_terms
    from comity.federation.consent import consent as make_consent
    from comity.federation.initial_model import check_initial_model

    own = _keys(key)
    assert own is not None
    limits = read_terms(terms)
    file = read_federation(path, limits.algorithms)
    check_initial_model(file)
    _write(out, make_consent(file, limits, own))
    print(f"{own.certificate.name} consents to charter {file.identity[:12]}: {out}")


@app.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A charter, or an offer.")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[OTHER...]",
            help="Answers to the offer; consents to the charter, the organiser's run directory.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a session in words, field by field, and the state that the files prove."""
    from comity.configuration.charter import is_offer, read_offer
    from comity.configuration.federation_file import read_federation
    from comity.federation.consent import read_answer
    from comity.report.tables import session_tables
    from comity.runs.session import charter_state, describe, offer_state

    ranges: dict[str, Any] = {}
    if is_offer(path):
        made = read_offer(path)
        file = made.draft
        state, members = offer_state(made, [read_answer(one) for one in others or []])
        ranges = {field: str(range) for field, range in made.ranges.items()}
        words = describe(file, open_to_all=not made.invited)
    else:
        file = read_federation(path)
        runs = [one for one in others or [] if one.is_dir()]
        if len(runs) > 1:
            raise UserError(f"{runs[1]}: one run directory at most.")
        consents = [one for one in others or [] if not one.is_dir()]
        state, members = charter_state(file, consents, runs[0] if runs else None)
        words = describe(file)
    results = {
        "file": str(path),
        "identity": file.identity,
        "state": state,
        "members": members,
        "negotiable": ranges,
        **words,
    }
    if as_json:
        print_json(results)
    else:
        print_tables(*session_tables(results))


def _keys(key: Path | None) -> Keys | None:
    """Return the keys of ``NAME.key``, with ``NAME.crt`` beside it."""
    from comity.federation.keys import read_keys

    return None if key is None else read_keys(key, key.with_suffix(".crt"))


def _write(out: Path, content: bytes) -> None:
    """Write a new document; one that exists is never replaced, because others may hold it."""
    from comity.core.storage import write_whole

    if out.exists():
        raise UserError(f"out: {out} exists already. Choose another file.")
    try:
        write_whole(out, content)
    except OSError as error:
        raise UserError(f"out: cannot write {out}: {error.strerror}.") from None


def _print_ranges(title: str, ranges: dict[str, Range] | Any) -> None:
    listed = "; ".join(f"{field}: {range}" for field, range in ranges.items())
    print(f"{title}: {listed or 'nothing'}.")
