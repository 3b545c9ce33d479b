"""A site tried without sending anything: its rows, its policy, one round alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comity.configuration import Configuration
from comity.configuration.budget import largest_epsilon
from comity.configuration.federation_file import SiteFile
from comity.core.devices import check_device, placed
from comity.core.threads import limited
from comity.errors import RefusedError
from comity.federation.agreement import Agreement
from comity.federation.companion import clients_of
from comity.federation.initial_model import check_initial_model
from comity.federation.messages import RoundRequest
from comity.federation.policy import check_site_rules
from comity.problems import check_rows
from comity.problems.schema import SchemaProblem
from comity.runs.results import finite


def check_site(file: SiteFile) -> dict[str, Any]:
    """Return what a site would bring to its federation; no socket is opened.

    Args:
        file: The site file.
    """
    federation = file.federation
    public = federation.configuration()
    agreement, problem = Agreement(public), public.get_problem()
    summary: dict[str, Any] = {
        "site": file.name,
        "federation": federation.identity,
        "findings": [],
        "leaves": {
            "tensors": agreement.tensors,
            "bytes_per_round": agreement.bytes_per_round,
            "statistics": agreement.statistics,
            "scales": list(problem.federated) if isinstance(problem, SchemaProblem) else [],
            "epsilon": largest_epsilon(public),
        },
        "stays": {"personal": agreement.personal},
        "policy": None,
    }
    if federation.has_rows:
        report = check_rows(federation.values["problem"], file.data)
        summary["findings"] = [finding.text for finding in report.findings]
        summary["rows"], summary["notes"] = report.rows, list(report.notes)
        summary["unused_columns"] = list(report.unused)
        summary["counts"] = {value: dict(labels) for value, labels in report.counts.items()}
        if summary["findings"]:
            return summary
    configuration = _trial_configuration(file)
    try:
        check_site_rules(file, configuration, agreement)
        check_initial_model(federation)
    except RefusedError as error:
        summary["policy"] = str(error)
    summary["trial"] = _one_round(configuration, file.client)
    return summary


def _trial_configuration(file: SiteFile) -> Configuration:
    """Return the site's configuration; for the trial, federated scales are of its own rows."""
    configuration = file.configuration()
    problem = configuration.get_problem()
    if isinstance(problem, SchemaProblem) and problem.federated:
        own: Sequence[Any] = [problem.scale_statistics(file.client)]
        return file.configuration(problem.federated_scales(list(own)))
    return configuration


def _one_round(configuration: Configuration, client: int) -> dict[str, Any]:
    """Return validation vectors before and after one round of training alone."""
    check_device(configuration.device)
    with limited(configuration.threads), placed(configuration.device):
        clients = clients_of(configuration, (client,))
        names = [objective.name for objective in configuration.get_problem().objectives]
        request = RoundRequest(1, (client,), None, alone=True)
        before = clients.evaluate_delivery(request)[0]
        clients.round(request)
        after = clients.evaluate_delivery(request)[0]

    def named(values: Any) -> Mapping[str, float | None]:
        return dict(zip(names, finite(values), strict=True))

    return {"before": named(before), "after": named(after)}
