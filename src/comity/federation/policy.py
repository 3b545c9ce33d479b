"""The policy of a site: what it agrees to, checked before it joins and before each answer."""

from __future__ import annotations

from collections.abc import Mapping

from comity.configuration import Configuration
from comity.configuration.budget import largest_epsilon
from comity.configuration.charter import file_values
from comity.configuration.federation_file import FederationFile, SiteFile
from comity.configuration.terms import MemberTerms, Policy, range_faults
from comity.configuration.travel import message_sizes
from comity.errors import RefusedError
from comity.federation.agreement import Agreement
from comity.federation.parties import server_certificate
from comity.federation.sent_log import SentLog
from comity.federation.site import RefusalError
from comity.problems import DataProblem


def check_site_rules(file: SiteFile, configuration: Configuration, agreement: Agreement) -> None:
    """Refuse a federation that a site's policy or its terms forbid.

    Args:
        file: The site file.
        configuration: The configuration of the site.
        agreement: What messages of the federation carry.

    Raises:
        RefusedError: names the rule.
    """
    policy, name = file.policy, "policy"
    faults = [
        *policy_faults(policy, configuration, agreement),
        *_partner_faults(policy, configuration),
        *_row_faults(policy, rows_by_value(configuration)),
    ]
    if file.share.results and configuration.privacy is not None:
        raise RefusedError(
            f"{file.path}: share.results tells test results, which the noise of [privacy] does not "
            "cover; leave it out."
        )
    if isinstance(policy, MemberTerms):
        name = "terms"
        faults += terms_faults(policy, file.federation, configuration)
        faults += range_faults(policy, file_values(file.federation, configuration))
    if faults:
        raise RefusedError(f"{name}.{faults[0]}")


def charter_faults(terms: MemberTerms, file: FederationFile) -> list[str]:
    """Return a sentence per rule of a member's terms that a charter breaks.

    Args:
        terms: The member's terms.
        file: The charter.
    """
    configuration = file.configuration()
    return [
        *policy_faults(terms, configuration, Agreement(configuration)),
        *_partner_faults(terms, configuration),
        *terms_faults(terms, file, configuration),
        *range_faults(terms, file_values(file, configuration)),
    ]


def policy_faults(policy: Policy, configuration: Configuration, agreement: Agreement) -> list[str]:
    """Return a sentence per rule of a policy that a federation breaks, whoever takes part.

    Args:
        policy: The policy.
        configuration: The federation's configuration.
        agreement: What its messages carry.
    """
    faults, algorithm = [], configuration.algorithm
    if policy.algorithms and algorithm not in policy.algorithms:
        allowed = ", ".join(policy.algorithms)
        faults.append(f"algorithms: this federation runs {algorithm}; the site allows {allowed}.")
    forbidden = [n for n in agreement.statistics if n not in policy.statistics]
    if forbidden:
        other = "another algorithm" if algorithm == "fedpref" else "fedpref"
        faults.append(
            f"statistics: {algorithm} asks for {', '.join(forbidden)}; allow it in statistics, or "
            f"use {other}. Allowed are {', '.join(policy.statistics) or 'none'}."
        )
    epsilon = largest_epsilon(configuration)
    if policy.at_most_epsilon and (epsilon is None or epsilon > policy.at_most_epsilon):
        privacy = "no differential privacy" if epsilon is None else f"epsilon = {epsilon:.3g}"
        faults.append(
            f"at_most_epsilon = {policy.at_most_epsilon:g}: this federation has {privacy}; set "
            "privacy.epsilon in its file."
        )
    return faults


def terms_faults(
    terms: MemberTerms, file: FederationFile, configuration: Configuration
) -> list[str]:
    """Return a sentence per rule of a member's terms, beyond a policy's, that a session breaks.

    Args:
        terms: The member's terms.
        file: The session's federation file.
        configuration: Its configuration.
    """
    faults = []
    if terms.server_keys:
        certificate = file.server.certificate
        fingerprint = server_certificate(file).fingerprint if certificate else "no certificate"
        if fingerprint not in terms.server_keys:
            faults.append(
                f"server_keys: the server has {fingerprint}, which the terms do not name."
            )
    parameters = sum(p.numel() for p in configuration.get_module().parameters())
    if 0 < terms.at_most_parameters < parameters:
        faults.append(
            f"at_most_parameters = {terms.at_most_parameters}: the model has {parameters}."
        )
    size, _ = message_sizes(configuration)
    if 0 < terms.bytes_per_day < size:
        faults.append(f"bytes_per_day = {terms.bytes_per_day}: one update may have {size} bytes.")
    return faults


def _partner_faults(policy: Policy, configuration: Configuration) -> list[str]:
    partners = configuration.clients - 1
    if partners >= policy.least_partners:
        return []
    return [
        f"least_partners = {policy.least_partners}: this federation has {partners} other sites."
    ]


def _row_faults(policy: Policy, rows: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [
        f"least_rows = {policy.least_rows}: only {count} rows here have {attribute} = {value}."
        for attribute, counts in rows.items()
        for value, count in counts.items()
        if count < policy.least_rows
    ]


def rows_by_value(configuration: Configuration) -> dict[str, dict[str, int]]:
    """Return the number of rows held here by value, by sensitive attribute.

    Args:
        configuration: The configuration of a site.
    """
    problem = configuration.get_problem()
    if not isinstance(problem, DataProblem):
        return {}
    columns = problem.samples().columns
    return {
        name: {str(value): int((columns[name] == value).sum()) for value in range(count)}
        for name, count in problem.attributes.items()
    }


class Limits:
    """The daily limits of a policy, which every answer must keep to before it leaves.

    Args:
        policy: The site's policy.
        log: The site's log.
    """

    def __init__(self, policy: Policy, log: SentLog) -> None:
        self._policy, self._log = policy, log

    def __call__(self, exchange: str, round: int, size: int) -> None:
        """Refuse an answer beyond a limit.

        Args:
            exchange: What is asked.
            round: The round.
            size: Bytes of the sealed answer; 0 before it is made.

        Raises:
            RefusalError: the text names the rule.
        """
        policy = self._policy
        if not policy.rounds_per_day and not policy.bytes_per_day:
            return
        rounds, sent = self._log.last_day()
        more = exchange in ("survey", "round") and round not in rounds
        if policy.rounds_per_day and more and len(rounds) >= policy.rounds_per_day:
            raise RefusalError(f"policy.rounds_per_day = {policy.rounds_per_day} is reached")
        if policy.bytes_per_day and sent + size > policy.bytes_per_day:
            raise RefusalError(f"policy.bytes_per_day = {policy.bytes_per_day} is reached")
