"""Answers, agreement and consent: by terms, by signatures, and with malformed documents."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from comity.configuration.charter import is_offer, read_offer
from comity.configuration.federation_file import read_federation, read_site
from comity.configuration.negotiation import Interval, Values
from comity.configuration.terms import read_terms
from comity.errors import RefusedError, UserError
from comity.federation.consent import agree_on, answer, read_answer, read_consent
from comity.federation.initial_model import check_initial_model
from comity.federation.keys import Keys, make_keys
from comity.federation.parties import server_certificate
from comity.federation.site import Membership
from comity.runs.check import check_site
from comity.runs.join import enter
from comity.runs.session import charter_state, describe, offer_state
from tests.federation.partners import DRAFT, NAMES, Partners
from tests.links.plans import always


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> dict[str, Keys]:
    home = tmp_path_factory.mktemp("keys")
    return {name: make_keys(name, home) for name in (*NAMES, "server")}


@pytest.fixture
def partners(tmp_path, keys) -> Partners:
    return Partners(tmp_path, keys)


@pytest.fixture
def agreed(partners) -> Partners:
    partners.offer()
    for name in NAMES:
        assert partners.answer(name) == []
    partners.agree()
    return partners


# -- from an offer to a charter ------------------------------------------------------------


def test_an_offer_holds_the_offered_values(partners):
    offer = read_offer(partners.offer())
    assert offer.offered == {"steps": 300, "guard": False, "patience": 900.0}
    assert offer.draft.server.quorum == 2
    assert not offer.invited
    assert is_offer(partners.home / "offer.toml")
    with pytest.raises(UserError, match="is an offer, not a federation file"):
        read_federation(partners.home / "offer.toml")


def test_an_offered_list_begins_with_the_offered_value(partners):
    offer = read_offer(partners.offer(table={"steps": [200, 400], "guard": [True]}, draft={
        **DRAFT, "dqn": {}}))  # fmt: skip
    assert offer.offered == {"steps": 200, "guard": True}
    with pytest.raises(UserError, match=r"dqn.local_steps = 300: the offered value"):
        partners.offer(table={"steps": [200, 300]})
    with pytest.raises(UserError, match=r"guard"):
        partners.offer(table={"guard": []})
    with pytest.raises(UserError, match=r"patience"):
        partners.offer(table={"patience": {"from": 0, "to": 900}})  # 0 s is impossible
    with pytest.raises(UserError, match=r"waiting: the draft has no \[links\]"):
        partners.offer(table={"waiting": ["pause", "train"]})


def test_steps_that_have_no_effect_are_not_negotiable(partners):
    draft = {"problem": "adult-gender-dp", "supervised": {"local_epochs": 2, "local_steps": 5}}
    with pytest.raises(UserError, match="local_steps has no effect in this draft, which has 2 ep"):
        partners.offer(draft, {"steps": [5, 6]})


def test_a_charter_is_a_federation_file_with_the_members_certificates(agreed):
    file = read_federation(agreed.home / "charter.toml")
    assert file.names == ("deltasat", "northstar")
    assert agreed.outcome.left_out == {"polaris": ("steps",)}
    assert file.configuration().learner_settings["local_steps"] == 200  # nearest to 300
    assert file.configuration().guard is True
    for name in file.names:
        assert file.sites[name].certificate == agreed.keys[name].certificate.pem.decode()
    assert file.session.name == "treasure"
    assert file.session.offer == read_offer(agreed.home / "offer.toml").draft.identity
    check_initial_model(file)


def test_the_order_of_answers_and_repeated_ones_change_no_byte(agreed):
    first = (agreed.home / "charter.toml").read_bytes()
    agreed.agree("polaris", "northstar", "deltasat", "northstar")
    assert (agreed.home / "charter.toml").read_bytes() == first


def test_below_the_quorum_each_field_says_who_excludes_whom(agreed):
    with pytest.raises(RefusedError) as caught:
        agreed.agree("northstar", "polaris")
    text = str(caught.value)
    assert "at most 1 members accept the same, quorum = 2" in text
    assert "steps: northstar (50 to 200) and polaris (500 to 600) exclude each other." in text


def test_those_who_refuse_are_named_below_the_quorum(partners):
    partners.offer()
    partners.answer("deltasat")
    assert partners.answer("northstar", {"algorithms": ["fedavg"]})
    with pytest.raises(RefusedError, match=r"northstar refuses: algorithms: this federation runs"):
        partners.agree("deltasat", "northstar")


def test_only_the_invited_may_answer_and_with_their_own_certificate(partners):
    pem = partners.keys["northstar"].certificate.pem.decode()
    partners.offer({**DRAFT, "sites": {"northstar": {"certificate": pem}, "polaris": {}}})
    with pytest.raises(RefusedError, match="invites northstar, polaris, and not 'deltasat'"):
        partners.answer("deltasat")
    partners.answer("northstar", {})
    partners.answer("polaris", {})
    partners.agree("northstar", "polaris")
    partners.keys["northstar"] = make_keys("northstar", partners.home)
    partners.answer("northstar", {})
    with pytest.raises(RefusedError, match="not the one that the offer invites"):
        partners.agree("northstar", "polaris")


def test_a_member_without_a_key_is_in_the_charter_without_a_certificate(agreed):
    made = read_offer(agreed.home / "offer.toml")
    content, _ = answer(made, read_terms(agreed.terms("northstar")), "northstar", None)
    agreed.write("answer-northstar.toml", content)
    file = read_federation(agreed.agree())
    assert file.sites["northstar"].certificate == ""
    assert file.sites["deltasat"].certificate


# -- terms ---------------------------------------------------------------------------------

SMALL = 67_588  # parameters of the network of deep-sea-treasure
REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "algorithms": ({"algorithms": ["fedavg"]}, "algorithms: this federation runs fedpref"),
    "statistics": ({"statistics": []}, "statistics: fedpref asks for size"),
    "server_keys": ({"server_keys": ["sha256:00"]}, "server_keys: the server has sha256:"),
    "parameters": ({"at_most_parameters": SMALL - 1}, f"the model has {SMALL}"),
    "bytes": ({"bytes_per_day": 4 * SMALL}, "one update may have 27"),  # headers are more
    "steps": ({"accepts": {"steps": 700}}, "steps: the offer has 50 to 600; the terms accept 700"),
    "fixed": ({"accepts": {"encoding": "int4"}}, "encoding = none: the terms accept int4"),
}


@pytest.mark.parametrize("rule", REFUSALS)
def test_terms_refuse_and_say_why(rule, partners):
    partners.offer()
    terms, text = REFUSALS[rule]
    (reason,) = partners.answer("northstar", terms)
    assert text in reason
    written = read_answer(partners.home / "answer-northstar.toml")
    assert written.refuses == (reason,)
    assert not written.accepts


def test_terms_that_are_just_met_accept(partners):
    partners.offer()
    server = server_certificate(read_offer(partners.home / "offer.toml").draft).fingerprint
    terms = {
        "algorithms": ["fedpref"], "server_keys": [server], "at_most_parameters": SMALL,
        "bytes_per_day": 5 * SMALL, "accepts": {"encoding": ["none"], "steps": 600},
    }  # fmt: skip
    assert partners.answer("northstar", terms) == []
    assert read_answer(partners.home / "answer-northstar.toml").accepts == {
        "steps": Values((600,)), "guard": Values((False, True)), "patience": Interval(60, 3600)
    }  # fmt: skip


def test_preferences_are_refused_by_default_and_allowed_by_name(partners):
    draft = {"problem": "adult-gender-dp", "algorithm": "fedcmoo-pref", "rounds": 2}
    partners.offer(draft, {})
    (reason,) = partners.answer("northstar", {"statistics": ["size", "gradients", "losses"]})
    expected = "fedcmoo-pref asks for preferences; allow it in statistics, or use fedpref"
    assert expected in reason
    assert "preferences" in partners.answer("northstar", {})[0]
    allowed = ["size", "gradients", "losses", "preferences"]
    assert partners.answer("northstar", {"statistics": allowed}) == []


def test_a_value_that_asks_for_a_forbidden_statistic_is_not_accepted(partners):
    """A guard tells the server who declined: without that statistic only guard = false is left."""
    partners.offer()
    assert partners.answer("northstar", {"statistics": ["size"]}) == []
    accepts = read_answer(partners.home / "answer-northstar.toml").accepts
    assert accepts["guard"] == Values((False,))
    demanded = {"statistics": ["size"], "accepts": {"guard": True}}
    (reason,) = partners.answer("northstar", demanded)
    assert "asks for declined" in reason


def test_code_that_terms_do_not_name_is_not_imported(partners, monkeypatch):
    monkeypatch.chdir(partners.home)
    (partners.home / "unread.py").write_text("raise SystemExit('imported')")
    path = partners.offer()
    text = path.read_text().replace('problem = "', 'algorithm = "unread:Mine"\nproblem = "')
    path.write_text(text)
    with pytest.raises(RefusedError, match="code that is not Comity's"):
        partners.answer("northstar")


# -- signatures ----------------------------------------------------------------------------


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_changed_answer_is_refused(agreed):
    path = agreed.home / "answer-northstar.toml"
    change(path, "to = 200", "to = 600")
    with pytest.raises(RefusedError, match="the signature is not that of 'northstar'"):
        read_answer(path)


def test_an_answer_without_its_signature_or_certificate_is_refused(agreed):
    path = agreed.home / "answer-northstar.toml"
    text = path.read_text()
    path.write_text(text[: text.index("\n[signature]")])
    with pytest.raises(RefusedError, match="the signature is not"):
        read_answer(path)
    start = text.index("certificate =")
    path.write_text(text[:start] + text[text.index("[accepts]") :])
    with pytest.raises(RefusedError, match="no certificate to check it by"):
        read_answer(path)


def test_an_answer_signed_by_another_is_refused(agreed):
    agreed.keys["northstar"] = make_keys("northstar", agreed.home)
    other = (agreed.home / "answer-northstar.toml").read_text()
    agreed.answer("northstar")
    mine = (agreed.home / "answer-northstar.toml").read_text()
    cut = mine.index("\n[signature]")
    path = agreed.write("mixed.toml", (mine[:cut] + other[other.index("\n[signature]") :]).encode())
    with pytest.raises(RefusedError, match="the signature is not"):
        read_answer(path)


def test_an_answer_to_another_offer_is_refused(agreed):
    agreed.offer({**DRAFT, "rounds": 3})
    with pytest.raises(RefusedError, match="answers another offer"):
        agreed.agree()


def test_two_answers_of_one_member_are_not_chosen_between(agreed):
    shutil.copy(agreed.home / "answer-polaris.toml", agreed.home / "first.toml")
    agreed.answer("polaris", {})
    answers = [read_answer(agreed.home / name) for name in ("first.toml", "answer-polaris.toml")]
    with pytest.raises(UserError, match="are two answers of 'polaris'"):
        agree_on(read_offer(agreed.home / "offer.toml"), answers)


def test_a_consent_is_to_these_very_bytes(agreed):
    path = agreed.consent("northstar")
    file = read_federation(agreed.home / "charter.toml")
    assert read_consent(path, file) == "northstar"
    change(agreed.home / "charter.toml", "rounds = 2", "rounds = 3")
    with pytest.raises(RefusedError, match="one changed byte is another charter"):
        read_consent(path, read_federation(agreed.home / "charter.toml"))


def test_a_forged_consent_is_refused(agreed):
    file = read_federation(agreed.home / "charter.toml")
    path = agreed.consent("northstar")
    change(path, 'name = "northstar"', 'name = "deltasat"')
    with pytest.raises(RefusedError, match="the signature is not that of 'deltasat'"):
        read_consent(path, file)
    change(path, 'name = "deltasat"', 'name = "polaris"')
    with pytest.raises(RefusedError, match="'polaris' is not among the members"):
        read_consent(path, file)


def test_a_charter_that_was_changed_against_the_terms_gets_no_consent(agreed):
    change(agreed.home / "charter.toml", "local_steps = 200", "local_steps = 500")
    with pytest.raises(RefusedError, match="steps = 500: the terms accept 50 to 200"):
        agreed.consent("northstar")
    change(agreed.home / "charter.toml", "local_steps = 500", "local_steps = 200")
    with pytest.raises(RefusedError, match="least_partners = 2: this federation has 1 other"):
        agreed.consent("northstar", {"least_partners": 2})
    with pytest.raises(RefusedError, match="'polaris' is not among its members"):
        agreed.consent("polaris")


def test_another_model_than_the_charters_is_refused(agreed):
    file = read_federation(agreed.home / "charter.toml")
    for name, checksum in {
        "structure": file.session.structure,
        "weights": file.session.weights,
    }.items():
        wrong = agreed.write("wrong.toml", (agreed.home / "charter.toml").read_bytes())
        change(wrong, checksum, "0" * 64)
        with pytest.raises(RefusedError, match=rf"session.{name} is 000000000000, but"):
            check_initial_model(read_federation(wrong))


# -- joining by terms ----------------------------------------------------------------------


def site(partners: Partners, **others: Any) -> Path:
    values = {"name": "northstar", "federation": "charter.toml", "preference": [0.5, 0.5]}
    return partners.write("site.toml", {**values, **others})


def test_joining_checks_the_terms_again(agreed):
    agreed.terms("northstar")
    file = read_site(site(agreed, terms="terms-northstar.toml"))
    enter(file, Membership(1, file.federation.identity))
    agreed.terms("northstar", {"accepts": {"guard": False}})
    file = read_site(file.path)
    with pytest.raises(RefusedError, match=r"terms\.guard = true: the terms accept false"):
        enter(file, Membership(1, file.federation.identity))
    assert "terms.guard" in check_site(file)["policy"]
    agreed.terms("northstar", {"rounds_per_day": 1, "algorithms": ["fedavg"]})
    with pytest.raises(RefusedError, match=r"terms\.algorithms"):
        enter(read_site(file.path), Membership(1, file.federation.identity))


def test_terms_and_a_policy_exclude_each_other(agreed):
    agreed.terms("northstar")
    path = site(agreed, terms="terms-northstar.toml", policy={"least_rows": 1})
    with pytest.raises(UserError, match="leave one out"):
        read_site(path)


# -- the state that files prove ------------------------------------------------------------


def test_states_follow_the_files(agreed):
    offer = read_offer(agreed.home / "offer.toml")
    assert offer_state(offer, []) == ("offered", {})
    answers = [read_answer(agreed.home / f"answer-{name}.toml") for name in NAMES]
    assert offer_state(offer, answers)[0] == "answered"
    file = read_federation(agreed.home / "charter.toml")
    assert charter_state(file, [], None)[0] == "agreed"
    first = agreed.consent("northstar")
    state, members = charter_state(file, [first], None)
    assert (state, members) == ("agreed", {"deltasat": "accepted", "northstar": "consented"})
    assert charter_state(file, [first, agreed.consent("deltasat")], None)[0] == "consented"


def test_an_invited_member_that_has_not_answered_keeps_an_offer_open(partners):
    partners.offer({**DRAFT, "sites": {"northstar": {}, "polaris": {}}})
    partners.answer("northstar", {"algorithms": ["fedavg"]})
    read = [read_answer(partners.home / "answer-northstar.toml")]
    offer = read_offer(partners.home / "offer.toml")
    assert offer_state(offer, read) == (
        "offered", {"northstar": "refused", "polaris": "invited"}
    )  # fmt: skip


def test_a_session_in_words_has_the_thesis_fields(agreed):
    words = describe(read_federation(agreed.home / "charter.toml"))
    assert list(words["client"])[:8] == [
        "topology", "server identity", "submission trigger", "while waiting", "integration",
        "submission format", "initial model", "failures",
    ]  # fmt: skip
    assert list(words["server"]) == ["aggregation", "collection", "initial model", "failures"]
    assert "then 200 steps" in words["client"]["submission trigger"]
    assert "declines it" in words["client"]["integration"]
    assert "67,588 parameters" in words["client"]["initial model"]
    assert "900 s" in words["server"]["collection"]


# -- encodings and links -------------------------------------------------------------------


@pytest.fixture
def linked(partners) -> Partners:
    """Three members with a contact plan: all in contact all the time."""
    (partners.home / "contacts.csv").write_text(always(3, days=0.2).to_csv())
    draft = {k: v for k, v in DRAFT.items() if k != "rounds"}
    draft |= {
        "sites": {name: {} for name in NAMES},
        "links": {"contacts": str(partners.home / "contacts.csv"), "collect": "all"},
    }
    partners.offer(
        draft,
        {"encoding": ["none", "exact", "int8"], "waiting": ["pause", "train"],
         "relays": ["none", "any"]},
    )  # fmt: skip
    return partners


def test_the_encoding_that_fits_the_bytes_of_all_days_is_agreed_on(linked):
    assert linked.answer("deltasat", {"bytes_per_day": 2 * SMALL}) == []
    encodings = read_answer(linked.home / "answer-deltasat.toml").accepts["encoding"]
    assert encodings == Values(("int8",))
    assert linked.answer("northstar", {"accepts": {"waiting": "train"}}) == []
    assert linked.answer("polaris", {}) == []
    configuration = read_federation(linked.agree()).configuration()
    assert configuration.encoding == "int8"
    assert configuration.links is not None
    assert (configuration.links.waiting, configuration.links.relays) == ("train", "none")
    (reason,) = linked.answer("polaris", {"bytes_per_day": SMALL // 2})
    assert f"bytes_per_day = {SMALL // 2}: one update may have" in reason


def test_a_charter_binds_its_contact_plan(linked):
    for name in NAMES:
        assert linked.answer(name, {}) == []
    path = linked.agree()
    plan = linked.home / "contacts.csv"
    assert read_federation(path).values["links"]["sha256"]
    with pytest.raises(UserError, match="a contact plan is simulated: comity run --charter"):
        read_federation(path).check_deployable()
    plan.write_text(always(3, days=0.3).to_csv())
    with pytest.raises(UserError, match=r"contacts\.csv has changed"):
        read_federation(path).configuration()


def test_an_offer_with_a_contact_plan_names_its_members(partners):
    with pytest.raises(UserError, match="name one member per client of the contact plan"):
        partners.offer({**DRAFT, "links": {"contacts": "contacts.csv"}}, {})
