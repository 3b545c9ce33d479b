"""A site with its files: policy, log, scales, consent, lock, messages by files."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from comity.configuration.federation_file import read_federation, read_site
from comity.errors import RefusedError, UserError
from comity.federation.engines.deployed import Terms
from comity.federation.hello import begin_message
from comity.federation.member import SCALES, Member
from comity.federation.sent_log import SentLog
from comity.federation.site import Membership
from comity.federation.transports import files
from comity.federation.transports.files import FilesServerTransport, FilesSiteTransport
from comity.federation.transports.memory import MemoryTransport
from comity.federation.wire import digest_of, is_refusal, round_of, seal
from comity.report.status import status_table
from comity.runs.check import check_site
from comity.runs.join import LOG, agree, agreed, close, enter, join, occupied
from comity.runs.rehearse import same_bits, simulate
from comity.runs.results import history_entry
from comity.runs.serve import SiteStatus, Status, absences, serve, served_results
from tests.classics import HOME

NAMES = ("bank-a", "bank-b", "bank-c")
COLUMNS: dict[str, Any] = {
    "age": {"type": "number", "scale": [40.0, 10.0]},
    "sex": {"values": ["Female", "Male"], "sensitive": True},
}
PROBLEM = {"kind": "table", "label": "income", "positive": "yes", "metrics": ["dp"]}

FEDERATED = {**COLUMNS, "age": {"type": "number", "scale": "federated"}}
SCALED = {"problem": {**PROBLEM, "hidden": [4], "columns": FEDERATED}}


def federation_values(**others: Any) -> dict[str, Any]:
    return {
        "algorithm": "fedpref",
        "rounds": 2,
        "seed": 3,
        "problem": {**PROBLEM, "columns": COLUMNS, "hidden": [4]},
        "supervised": {"local_steps": 2, "batch_size": 16},
        "server": {"patience": 0.05},
        "sites": {name: {} for name in NAMES},
        **others,
    }


def write(home: Path, federation: Mapping[str, Any], /, **site: Any) -> None:
    """Write the files of a federation; ``site`` goes into the file of bank-b."""
    (home / "federation.toml").write_text(tomli_w.dumps(dict(federation)))
    for number, name in enumerate(NAMES):
        dice = random.Random(number)
        rows = [
            f"{dice.gauss(30 + 10 * number, 9):.3f},{dice.choice(['Female', 'Male'])},"
            f"{dice.choice(['yes', 'no'])}"
            for _ in range(80)
        ]
        (home / f"{name}.csv").write_text("\n".join(["age,sex,income", *rows]) + "\n")
        values = {"name": name, "federation": "federation.toml", "data": f"{name}.csv"}
        own = site if name == "bank-b" else {}
        text = tomli_w.dumps({**values, "preference": [0.7, 0.3], **own})
        (home / f"{name}.toml").write_text(text)


class Banks:
    """Three banks in this process, with all their files."""

    def __init__(self, home: Path, **others: Any) -> None:
        site = others.pop("site", {})
        self.home = home
        write(home, federation_values(**others), **site)
        self.file = read_federation(home / "federation.toml")
        self.members = {name: self.member(name) for name in NAMES}
        self.status: list[Status] = []

    def member(self, name: str) -> Member:
        file = read_site(self.home / f"{name}.toml")
        identity, shares = file.federation.identity, file.share.results
        membership = Membership(file.client, identity, shares_results=shares)
        return Member(file, membership, history_entry)

    def answer(self, name: str, message: bytes) -> bytes | None:
        return self.members[name].answer(message)

    def serve(self, wait: float = 0.0) -> Any:
        server = self.file.server
        terms = Terms(NAMES, self.file.identity, server.patience, server.quorum, wait)
        sites: dict[str, Callable[[bytes], bytes | None]] = {
            name: lambda message, name=name: self.answer(name, message) for name in NAMES
        }
        show = self.status.append
        return serve(self.file, terms, MemoryTransport(sites), self.home / "run", show)

    def equal(self, **others: Any) -> bool:
        """Whether the sites' models are those of the simulation."""
        rows = {name: str(self.home / f"{name}.csv") for name in NAMES}
        preferences = {name: [0.7, 0.3] for name in NAMES}
        _, kept, last = simulate(self.file.configuration(preferences, rows, **others))
        return all(same_bits(self.home / n, kept, last, i) for i, n in enumerate(NAMES))


def test_a_whole_federation_leaves_results_at_each_party(tmp_path):
    banks = Banks(tmp_path)
    run = banks.serve()
    assert banks.equal()
    results = served_results(run)
    assert results["answered"] == dict.fromkeys(NAMES, 3)
    assert "per_client" not in results
    assert not (tmp_path / "run" / "models").exists()
    own = close(banks.members["bank-b"])
    assert own.clients == [1]
    assert set(own.results["per_client"][0]["objectives"]) == {"accuracy", "fairness"}
    assert own.model(1) is not None
    assert [entry["round"] for entry in own.history] == [1, 2, 3]
    with pytest.raises(UserError, match=r"this federation is over.*--wait"):
        banks.serve()


def test_a_site_alone_knows_whether_it_is_better_off_than_alone(tmp_path):
    banks = Banks(tmp_path, alone_share=0.5)
    banks.serve()
    assert banks.equal()
    beside = close(banks.members["bank-b"]).results["per_client"][0]["alone"]
    assert set(beside) == {"federated", "alone", "standing", "keeps"}
    assert beside["alone"] is not None
    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    history = [json.loads(line) for line in lines]
    assert history
    assert not any({"alone", "federated"} & entry.keys() for entry in history)


def test_results_are_told_only_by_those_who_share_them(tmp_path):
    """The organiser has test results if all sites tell theirs, and none if only one does."""
    for home, sharing in ((tmp_path / "one", NAMES[1:2]), (tmp_path / "all", NAMES)):
        home.mkdir()
        banks = Banks(home)
        for name in sharing:
            text = (home / f"{name}.toml").read_text()
            (home / f"{name}.toml").write_text(f"{text}\n[share]\nresults = true\n")
            banks.members[name] = banks.member(name)
        results = served_results(banks.serve())
        entries = {name: SentLog(home / name).entries()[-1]["statistics"] for name in NAMES}
        assert entries == {n: {"results": [1, 2]} if n in sharing else {} for n in NAMES}
        if sharing != NAMES:
            assert "results" not in results
            continue
        for name, member in banks.members.items():
            own = close(member).results["per_client"][0]["objectives"]
            assert results["results"][name] == own


# -- policy --------------------------------------------------------------------------------

RULES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "algorithms": ({}, {"algorithms": ["fedavg"]}, "runs fedpref; the site allows fedavg"),
    "statistics": ({}, {"statistics": []}, "asks for size; allow it .* Allowed are none"),
    "gradients": ({"algorithm": "fedcmoo"}, {}, "asks for gradients"),
    "scales": (SCALED, {}, "asks for scales"),
    "least_partners": ({}, {"least_partners": 3}, "has 2 other sites"),
    "least_rows": ({}, {"least_rows": 60}, "rows here have"),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_a_policy_refuses_and_names_the_rule(rule, tmp_path):
    federation, policy, text = RULES[rule]
    write(tmp_path, federation_values(**federation), policy=policy)
    file = read_site(tmp_path / "bank-b.toml")
    name = "statistics" if rule in ("gradients", "scales") else rule
    with pytest.raises(RefusedError, match=f"policy.{name}.*{text}"):
        enter(file, Membership(1, file.federation.identity))
    assert f"policy.{name}" in check_site(file)["policy"]
    assert not (tmp_path / "bank-b" / "sent.jsonl").exists()
    allowed = ["size", "gradients", "scales"]
    write(tmp_path, federation_values(**federation), policy={"statistics": allowed})
    assert check_site(read_site(tmp_path / "bank-b.toml"))["policy"] is None


def test_a_daily_limit_of_rounds_makes_a_site_absent(tmp_path):
    banks = Banks(tmp_path, rounds=3, site={"policy": {"rounds_per_day": 2}})
    run = banks.serve()
    assert absences(run) == [[3, 1, "round"]]  # it hears the last delivery and the end
    assert any("policy.rounds_per_day = 2 is reached" in e for e in banks.status[-1].events)
    assert banks.equal(absences=[[3, 1, "round"]])


def test_a_daily_limit_of_bytes_makes_a_site_absent(tmp_path):
    banks = Banks(tmp_path, site={"policy": {"bytes_per_day": 1000}})
    run = banks.serve()
    assert [2, 1, "round"] in absences(run)
    assert any("policy.bytes_per_day = 1000 is reached" in e for e in banks.status[-1].events)
    sent = SentLog(tmp_path / "bank-b").entries()
    assert sum(entry["bytes"] for entry in sent if entry["exchange"] == "round") < 1000


# -- log -----------------------------------------------------------------------------------


def test_the_log_has_every_message_that_left(tmp_path):
    banks = Banks(tmp_path)
    left: list[bytes] = []
    plain = banks.answer

    def noted(name: str, message: bytes) -> bytes | None:
        answer = plain(name, message)
        if name == "bank-b" and answer is not None:
            left.append(answer)
        return answer

    banks.answer = noted  # type: ignore[method-assign]
    banks.serve()
    entries = SentLog(tmp_path / "bank-b").entries()
    assert [e["exchange"] for e in entries] == ["hello", "round", "round", "finish", "end"]
    assert [e["sha256"] for e in entries] == [digest_of(message) for message in left]
    assert [e["bytes"] for e in entries] == [len(message) for message in left]
    assert [e["round"] for e in entries] == [round_of(message) for message in left]
    assert entries[1]["statistics"] == {"size": [1]}
    assert len(entries[1]["tensors"]) == len(banks.members["bank-b"].agreement.tensors) == 4
    assert not entries[3]["tensors"]


@pytest.mark.parametrize("how", ["changed", "removed", "swapped", "cut"])
def test_a_log_that_was_tampered_with_says_so(how, tmp_path):
    banks = Banks(tmp_path)
    banks.serve()
    log = SentLog(tmp_path / "bank-b")
    lines = log.path.read_text().splitlines()
    if how == "changed":
        lines[1] = lines[1].replace('"size"', '"sex"')
    elif how == "removed":
        del lines[1]
    elif how == "swapped":
        lines[1], lines[2] = lines[2], lines[1]
    else:
        lines[1] = lines[1][:40]
    log.path.write_text("\n".join(lines) + "\n")
    number = {"changed": 3, "removed": 2, "swapped": 2, "cut": 2}[how]
    with pytest.raises(UserError, match=f"line {number} does not follow.*the log was changed"):
        log.entries()


def test_a_line_that_a_crash_cut_is_mended(tmp_path):
    banks = Banks(tmp_path)
    banks.serve()
    log = SentLog(tmp_path / "bank-b")
    before = log.path.read_text()
    log.path.write_text(before + '{"time": 17633')
    banks.member("bank-b").answer(b"hello?")
    assert log.path.read_text().startswith(before)
    entries = log.entries()
    assert len(entries) == 6
    assert entries[-1]["exchange"] == "refusal"


# -- scales --------------------------------------------------------------------------------


class Scaled(Banks):
    """Banks that tell scales; ``fate`` says what happens to a message."""

    def __init__(self, home: Path) -> None:
        write(home, federation_values(**SCALED))
        for name in NAMES:
            path = home / f"{name}.toml"
            path.write_text(path.read_text() + '\n[policy]\nstatistics = ["size", "scales"]\n')
        self.home = home
        self.file = read_federation(home / "federation.toml")
        self.members = {name: self.member(name) for name in NAMES}
        self.status = []
        self.fate: Callable[[str, str], str] = lambda name, exchange: ""

    def answer(self, name: str, message: bytes) -> bytes | None:
        begin = b'"begin"' in message
        fate = self.fate(name, "begin" if begin else "hello" if not round_of(message) else "")
        if fate == "server dies":
            raise KeyboardInterrupt
        if fate == "site restarts":
            self.members[name] = self.member(name)
        answer = super().answer(name, message)
        if fate == "site dies":
            self.members[name] = self.member(name)
            return None
        return answer


def test_federated_scales_equal_the_simulation(tmp_path):
    banks = Scaled(tmp_path)
    banks.serve()
    assert banks.equal()
    (scale,) = json.loads((tmp_path / "bank-a" / SCALES).read_text()).values()
    assert scale[0] == pytest.approx(40.0, abs=2.0)  # of all: means 30, 40 and 50
    first = SentLog(tmp_path / "bank-a").entries()[0]
    assert first["statistics"] == {"scales": [1, 3, 1]}


@pytest.mark.parametrize("fate", ["server dies", "site restarts", "site dies"])
@pytest.mark.parametrize("when", ["hello", "begin"])
def test_scales_survive_restarts(when, fate, tmp_path):
    banks = Scaled(tmp_path)
    left = [1]

    def once(name: str, exchange: str) -> str:
        if name == "bank-b" and exchange == when and left:
            left.pop()
            return fate
        return ""

    banks.fate = once
    if fate == "server dies":
        with pytest.raises(KeyboardInterrupt):
            banks.serve()
    banks.serve()
    assert not left
    assert banks.equal()


def test_scales_that_make_no_sense_are_refused(tmp_path):
    banks = Scaled(tmp_path)
    member = banks.members["bank-b"]

    def told(scales: Any) -> dict[str, Any]:
        sealed = seal(begin_message(scales), banks.file.identity, {})
        answer = member.answer(sealed)
        size = int.from_bytes(answer[72:76], "big")
        return {"refused": is_refusal(answer), **json.loads(answer[76 : 76 + size])}

    for scale in ([40.0, 0.0], [40.0, -1.0], [1e301, 1.0], [40, 10**400], [True, 1.0], [1.0], "a"):
        assert told({"age": scale})["reason"] == "message not taken: scales"
    assert told({"sex": [1.0, 1.0]})["reason"] == "message not taken: scales: other columns"
    assert not (tmp_path / "bank-b" / SCALES).exists()
    assert not told({"age": [40.0, 10.0]})["refused"]
    assert not told({"age": [40.0, 10.0]})["refused"]
    assert told({"age": [41.0, 10.0]})["reason"] == "message not taken: scales: others than before"
    restarted = banks.member("bank-b")
    assert restarted.configuration.to_toml() == member.configuration.to_toml()


# -- crashes of the server -----------------------------------------------------------------


@pytest.mark.parametrize("when", [(0, 0), (1, 0), (2, 2), (3, 1), (4, 0), (4, 2)])
def test_a_server_that_dies_goes_on_with_the_same_bits(when, tmp_path):
    """It dies before the message of a round reaches a site: 3 is the last delivery, 4 the end."""
    banks = Banks(tmp_path, server={"patience": 0.05, "quorum": 3})
    number, client = when
    plain, left = banks.answer, [1]

    def dying(name: str, message: bytes) -> bytes | None:
        if left and (round_of(message), name) == (number, NAMES[client]):
            left.pop()
            raise KeyboardInterrupt
        if banks.members[name].ended:
            return None  # its process is gone
        return plain(name, message)

    banks.answer = dying  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        banks.serve()
    run = banks.serve()
    assert run.finished
    assert absences(run) == []
    assert [entry["round"] for entry in run.history] == [1, 2, 3]
    assert banks.equal()


def test_a_directory_that_a_crash_left_empty_is_begun_again(tmp_path):
    banks = Banks(tmp_path)
    (tmp_path / "run" / "flower").mkdir(parents=True)  # the transport starts first
    (tmp_path / "run" / "federation.toml").write_bytes(banks.file.path.read_bytes())
    assert banks.serve().finished


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    banks = Banks(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "diary.txt").write_text("Dear diary")
    with pytest.raises(UserError, match="holds something else"):
        banks.serve()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["diary.txt"]


def test_sites_that_never_hear_the_end_do_not_hold_the_server(tmp_path):
    """Not even if they were the quorum; they hear it later if the server waits for them."""
    banks = Banks(tmp_path, server={"patience": 0.05, "quorum": 3})
    plain = banks.answer

    def gone(name: str, message: bytes) -> bytes | None:
        return None if round_of(message) == 4 and name != "bank-a" else plain(name, message)

    banks.answer = gone  # type: ignore[method-assign]
    assert banks.serve().finished
    assert [member.ended for member in banks.members.values()] == [True, False, False]
    banks.answer = plain  # type: ignore[method-assign]
    before = (tmp_path / "run" / "results.json").read_bytes()
    banks.serve(wait=0.05)
    assert all(member.ended for member in banks.members.values())
    assert (tmp_path / "run" / "results.json").read_bytes() == before
    assert banks.equal()


def test_a_fault_of_a_site_is_shown_as_it_is(tmp_path):
    status = Status("ab" * 32, "fedpref", 3, sites={"bank-a": SiteStatus(fault="[/red]")})
    status.events = ["bank-a, round 1, round: refused: [/red] [link=x]"]
    assert str(status_table(status).caption) == status.events[0]


# -- one process, one consent --------------------------------------------------------------


class Nobody:
    """A transport without a server."""

    def serve(self, answer: Any, ended: Any) -> None:
        raise AssertionError("the server was called")

    def close(self) -> None:
        pass


def test_nothing_is_sent_before_the_owner_agrees(tmp_path):
    banks = Banks(tmp_path)
    member = banks.members["bank-b"]
    with pytest.raises(RefusedError, match=r"nobody has agreed to federation .*--agree"):
        join(member, Nobody())
    agree(member.file)
    assert agreed(member.file)
    with (tmp_path / "federation.toml").open("a") as file:
        file.write("\n# more rounds, perhaps\n")
    assert not agreed(read_site(tmp_path / "bank-b.toml"))


def test_one_site_is_one_process(tmp_path):
    banks = Banks(tmp_path)
    file = banks.members["bank-b"].file
    with (
        occupied(file),
        pytest.raises(UserError, match="bank-b is in use: process"),
        occupied(file),
    ):
        pass
    with occupied(file):
        pass


def test_what_fails_at_a_site_is_in_its_own_log(tmp_path, monkeypatch):
    banks = Banks(tmp_path)
    member = banks.members["bank-b"]
    assert member.site is not None

    def broken(request: Any) -> Any:
        raise ValueError("row 17: Smith")

    monkeypatch.setattr(member.site.clients, "round", broken)
    with occupied(member.file):
        run = banks.serve()
    assert absences(run) == [[1, 1, "round"], [2, 1, "round"]]
    assert (tmp_path / "bank-b" / LOG).read_text().count("ValueError: row 17: Smith") == 2
    assert "Smith" not in (tmp_path / "run" / "history.jsonl").read_text()
    assert oct((tmp_path / "bank-b").stat().st_mode)[-3:] == "700"


# -- files with faults ---------------------------------------------------------------------


def _values(**others: Any) -> dict[str, Any]:
    return federation_values(**others)


FEDERATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no sites": (_values(sites={}), r"\[sites\] is missing: name each site"),
    "a site's name": (_values(sites={"Bank A": {}}), "site 'Bank A': use small letters"),
    "preferences": (_values(preferences="dirichlet"), "preferences has no place.*site file"),
    "clients": (_values(clients=3), r"clients has no place.*number of \[sites\]"),
    "partition": (_values(partition="iid"), "partition has no place.*its own rows"),
    "absences": (_values(absences=[]), "absences has no place"),
    "chunk": (_values(chunk=2), "chunk = 2: each site is a fleet of one"),
    "pooled rows": (_values(algorithm="agnostic-fair-pooled"), "pools the rows.*Choose an alg"),
    "no server": (_values(topology="neighbours"), "without a server are simulated only"),
    "algorithm": (_values(algorithm="fedpreff"), "fedpreff.*Did you mean 'fedpref'"),
    "quorum": (_values(server={"quorum": 4}), "server.quorum = 4: there are only 3 sites"),
    "patience": (_values(server={"patience": 0}), r"server.patience = 0.*seconds until"),
    "transport": (_values(server={"transport": "pigeon"}), "server.transport = 'pigeon'"),
    "address": (_values(server={"address": "example.org"}), "must be host:port"),
    "server": (_values(server={"adress": "x"}), "unknown setting of server 'adress'.*'address'"),
    "a site's entry": (_values(sites={"bank-a": {"key": "x"}}), "unknown setting of sites.bank-a"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FEDERATIONS, "no problem"])
def test_a_fault_in_a_federation_file_is_named(name, tmp_path):
    values, text = FEDERATIONS.get(name, (_values(), "problem is missing"))
    if name == "no problem":
        del values["problem"]
    write(tmp_path, values)
    with pytest.raises(UserError, match=text):
        read_federation(tmp_path / "federation.toml")


SITES: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": "bank-x"}, "name = 'bank-x'.*has bank-a, bank-b, bank-c"),
    "data": ({"data": ""}, "data is missing: the file with this site's own rows"),
    "unknown": ({"prefrence": [1.0]}, "unknown setting of bank-b.toml 'prefrence'.*'preference'"),
    "policy": ({"policy": {"least_row": 3}}, "unknown setting of policy 'least_row'"),
    "rule": ({"policy": {"least_rows": -3}}, "policy.least_rows = -3"),
    "share": ({"share": {"rows": True}}, "unknown setting of share 'rows'"),
    "federation": ({"federation": "elsewhere.toml"}, "elsewhere.toml"),
}


@pytest.mark.parametrize("name", SITES)
def test_a_fault_in_a_site_file_is_named(name, tmp_path):
    values, text = SITES[name]
    write(tmp_path, federation_values(), **values)
    with pytest.raises(UserError, match=text):
        read_site(tmp_path / "bank-b.toml")


def test_code_that_a_policy_does_not_name_is_not_even_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unread.py").write_text("raise SystemExit('imported')")
    write(tmp_path, federation_values(algorithm="unread:Mine"))
    with pytest.raises(RefusedError, match=r"policy\.algorithms: .* runs unread:Mine, code that"):
        read_site(tmp_path / "bank-b.toml")
    monkeypatch.syspath_prepend(HOME)
    policy = {"algorithms": ["classics:BySteps"], "statistics": ["size", "steps"]}
    write(tmp_path, federation_values(algorithm="classics:BySteps"), policy=policy)
    assert check_site(read_site(tmp_path / "bank-b.toml"))["policy"] is None


@pytest.mark.parametrize(
    ("preference", "text"), [([0.5], "2"), ([0.5, 0.6], "sum"), ([1.5, -0.5], "-0.5")]
)
def test_a_fault_in_a_preference_is_named(preference, text, tmp_path):
    write(tmp_path, federation_values(), preference=preference)
    with pytest.raises(UserError, match=text):
        read_site(tmp_path / "bank-b.toml").configuration()


# -- messages by files ---------------------------------------------------------------------


def test_messages_travel_as_files(tmp_path, monkeypatch):
    written: list[tuple[str, bytes]] = []
    write_file = files._write

    def record(directory: Path, name: str, message: bytes) -> None:
        written.append((directory.name, message))
        write_file(directory, name, message)

    monkeypatch.setattr(files, "_write", record)
    banks = Banks(tmp_path, server={"patience": 60.0, "transport": "files", "address": "post"})
    post = tmp_path / "post"
    transport = FilesServerTransport(post, NAMES)
    threads = []
    for name, member in banks.members.items():
        end = FilesSiteTransport(post, name)
        arguments = (member.answer, lambda member=member: member.ended)
        threads.append(threading.Thread(target=end.serve, args=arguments, daemon=True))
        threads[-1].start()
    terms = Terms(NAMES, banks.file.identity, patience=60.0)
    run = serve(banks.file, terms, transport, tmp_path / "run", banks.status.append)
    for thread in threads:
        thread.join(10.0)
    assert run.finished
    assert absences(run) == []
    assert banks.equal()
    assert transport.online() == frozenset(NAMES)
    assert not [path for path in post.rglob("*.cmty") if path.parent.name.startswith("to-")]
    last = run.configuration.rounds + 1  # hello and farewell are not counted
    for field, box in (("bytes_up", "from-"), ("bytes_down", "to-")):
        sizes = [len(m) for name, m in written if name.startswith(box) and 0 < round_of(m) <= last]
        assert sum(entry[field] for entry in run.history) == sum(sizes)
