"""The commands of a deployed federation: keys, check, serve, join, rehearse, audit."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from comity.cli.options import Json
from comity.cli.terminal import interruptible, print_json, print_tables, show_federation
from comity.errors import RefusedError, UserError

if TYPE_CHECKING:
    from comity.federation.member import Member

FederationPath = Annotated[Path, typer.Argument(metavar="FEDERATION", help="The federation file.")]
SitePath = Annotated[Path, typer.Argument(metavar="SITE", help="The site file.")]


def keys(
    name: Annotated[str, typer.Argument(help="Your name in the federation: bank-a, or server.")],
    out: Annotated[Path, typer.Option(help="Directory for NAME.key and NAME.crt.")] = Path("."),
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address by which others reach this machine; may be repeated."),
    ] = None,
) -> None:
    """Make a key and a certificate; the certificate goes into the federation file."""
    from comity.federation.keys import make_keys

    made = make_keys(name, out, hosts=host or ())
    table, reader = (
        ("server", "all sites") if name == "server" else (f"sites.{name}", "the organiser")
    )
    print(f"Private key, which never leaves this machine: {made.key_file}")
    print(f"Certificate, for {reader}: {made.certificate_file}")
    print(f"Fingerprint, to compare by telephone: {made.certificate.fingerprint}")
    print("In the federation file:\n")
    text = made.certificate.pem.decode().strip()
    print(f'[{table}]\ncertificate = """\n{text}\n"""')


def check(path: SitePath, as_json: Json = False) -> None:
    """Try a site without sending anything: own rows, policy, one round alone."""
    from comity.configuration.federation_file import read_site
    from comity.report.tables import check_table
    from comity.runs.check import check_site

    results = check_site(read_site(path))
    if as_json:
        print_json(results)
    else:
        print_tables(*check_table(results))
    if results["findings"]:
        raise UserError(f"{path}: its rows do not fit the schema: {results['findings'][0]}")
    if results["policy"]:
        raise RefusedError(f"{path}: {results['policy']}")


def join(
    path: SitePath,
    agree_: Annotated[
        bool, typer.Option("--agree", help="Agree to this federation without being asked.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take part in a federation as one site; after a crash, the same command goes on."""
    from comity.configuration.federation_file import read_site
    from comity.federation.parties import keys_of, roster, site_membership, site_transport
    from comity.report.tables import run_table
    from comity.runs.join import agree, agreed, enter, occupied
    from comity.runs.join import join as take_part

    file = read_site(path)
    if file.key is None:
        raise UserError(f"{path}: key is missing. Make one with: comity keys {file.name}")
    own = keys_of(file.key, roster(file.federation)[file.name])
    os.umask(0o077)
    with interruptible(f"comity join {path}"), occupied(file):
        member = enter(file, site_membership(file, own))
        if not agreed(file):
            if not agree_:
                _ask(member)
            agree(file)
        server = file.federation.server.address
        print(f"{file.name}: waiting for {server}", file=sys.stderr, flush=True)
        with closing(site_transport(file, own)) as transport:
            run = take_part(member, transport)
    if as_json:
        print_json({**run.results, "run": str(run.path)})
    else:
        print_tables(run_table(run.results), footer=f"Model and results: {run.path}")


def _ask(member: Member) -> None:
    """Say what would leave this site, and ask its owner."""
    print(leaving(member), file=sys.stderr)
    if not sys.stdin.isatty():
        raise RefusedError("nobody is here to agree; add --agree to agree without being asked.")
    if not typer.confirm("Agree?", err=True):
        raise RefusedError("the owner of this site did not agree.")


def leaving(member: Member) -> str:
    """Return what leaves a site and what never does, as a paragraph."""
    from comity.configuration.budget import largest_epsilon
    from comity.problems.schema import SchemaProblem

    agreement, file = member.agreement, member.file
    epsilon = largest_epsilon(member.configuration)
    noised = "" if epsilon is None else f"All noised: epsilon {epsilon:.3g} at most. "
    stays = ["rows"] if "preferences" in agreement.statistics else ["rows", "preference"]
    if agreement.personal:
        stays.append(f"{len(agreement.personal)} personal tensors")
    problem = file.federation.configuration().get_problem()
    federated = problem.federated if isinstance(problem, SchemaProblem) else ()
    once = f"Once: count, sum and sum of squares of {', '.join(federated)}. " if federated else ""
    return (
        f"Federation {file.federation.identity[:12]}, {len(file.federation.names)} sites, "
        f"{member.configuration.label} on {member.configuration.problem_name}, "
        f"{member.configuration.rounds} rounds. Each round leaves this site: "
        f"{len(agreement.tensors)} tensors ({agreement.bytes_per_round:,} bytes), "
        f"{', '.join(agreement.statistics) or 'no statistics'}. {once}{noised}"
        f"Never: {', '.join(stays)}."
    )


def serve(
    path: FederationPath,
    key: Annotated[Path, typer.Option(help="The server's private key, server.key.")],
    out: Annotated[Path, typer.Option(help="Run directory; an interrupted run goes on.")],
    wait: Annotated[
        float, typer.Option(help="Seconds more that absent sites have at the end.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Run a federation among real sites; after a crash or Ctrl-C, the same command goes on."""
    from comity.configuration.federation_file import read_federation
    from comity.federation.parties import (
        keys_of,
        server_certificate,
        server_terms,
        server_transport,
    )
    from comity.report.status import LiveStatus
    from comity.runs.serve import serve as run_federation

    file = read_federation(path)
    own = keys_of(key, server_certificate(file))
    terms = server_terms(file, own, wait)
    where = f"{file.server.address} ({file.server.transport})"
    sites = f"{len(file.names)} sites, {file.server.quorum} at least"
    print(f"{path.stem}: waiting at {where} for {sites}", file=sys.stderr, flush=True)
    with (
        interruptible(f"comity serve {path} --key {key} --out {out}"),
        closing(server_transport(file, own, out)) as transport,
        LiveStatus(out) as live,
    ):
        run = run_federation(file, terms, transport, out, on_status=live.show)
    show_federation(run, as_json)


def rehearse(
    path: FederationPath,
    out: Annotated[
        Path | None, typer.Option(help="Directory for keys, sites and runs; must not exist yet.")
    ] = None,
    transport: Annotated[
        str | None, typer.Option(help="grpc, flower or files; default: the file's own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a federation with real processes on this machine, and compare it with its simulation."""
    from comity.runs.rehearse import rehearse as run_rehearsal

    with interruptible(f"comity rehearse {path}"):
        results = run_rehearsal(path, out, transport, lambda text: print(text, file=sys.stderr))
    if as_json:
        print_json(results)
        return
    from comity.report.tables import rehearsal_table

    print_tables(rehearsal_table(results), footer=f"Everything of it: {results['run']}")


def audit(
    path: Annotated[Path, typer.Argument(metavar="SITE", help="A site's directory or site file.")],
    as_json: Json = False,
) -> None:
    """Show everything that has left a site, from its own log."""
    from comity.configuration.federation_file import read_site
    from comity.federation.sent_log import SentLog
    from comity.report.tables import audit_table

    directory = path if path.is_dir() else read_site(path).directory
    log = SentLog(directory)
    if not log.path.is_file():
        raise UserError(f"{directory}: nothing has left this site: it has no {log.path.name}.")
    entries = log.entries()
    if as_json:
        print_json({"site": str(directory), "messages": entries})
    else:
        print_tables(audit_table(entries), footer=f"Log: {log.path}")
