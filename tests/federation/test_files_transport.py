"""Messages by files: partial, repeated, late, foreign, damaged; carriers that copy or move."""

from __future__ import annotations

import os
import threading
import time

import pytest

from comity.errors import UserError
from comity.federation.transports import files
from comity.federation.transports.files import FilesServerTransport, FilesSiteTransport
from comity.federation.wire import SERVER, Kind, Message, digest_of, is_whole, seal

LONG = 20.0
A = "bank-a"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(files, "_POLL", 0.01)


def question(number):
    message = Message(Kind.REQUEST, SERVER, number, 5 * number, {"exchange": "round"})
    return seal(message, "00" * 32, {})


def answer_to(message):
    return seal(Message(Kind.UPDATE, 0, 1, 5, {"answers": digest_of(message)}), "00" * 32, {})


def name_of(message):
    return f"{digest_of(message)[:32]}.cmty"


class Taken(list):
    """Answers that a server takes, or refuses."""

    def __init__(self, *refused):
        super().__init__()
        self.refused = refused

    def __call__(self, site, answer):
        self.append(answer)
        return answer not in self.refused and is_whole(answer)


class Working:
    """A site that answers in a thread, and counts its answers."""

    def __init__(self, directory):
        self.asked = []
        self.transport = FilesSiteTransport(directory, A)
        self.thread = threading.Thread(target=self.transport.serve, args=(self, lambda: False))

    def __call__(self, message):
        self.asked.append(message)
        return answer_to(message)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.transport.close()
        self.thread.join(LONG)
        assert not self.thread.is_alive()


def until(condition):
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def some_looks():
    time.sleep(0.1)


def box(directory, name):
    path = directory / f"{name}-{A}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def exchange(directory, message, arrived, patience=LONG):
    return FilesServerTransport(directory, [A]).exchange({A: message}, patience, arrived)


# -- the server's end ----------------------------------------------------------------------


def test_an_answer_has_the_name_of_its_question_and_stays_until_another_is_asked(tmp_path):
    taken = Taken()
    with Working(tmp_path):
        assert exchange(tmp_path, question(1), taken) == {A}
    assert taken == [answer_to(question(1))]
    assert list(box(tmp_path, "to").iterdir()) == []
    assert [p.name for p in box(tmp_path, "from").iterdir()] == [name_of(question(1))]
    assert exchange(tmp_path, question(2), Taken(), patience=0.05) == frozenset()
    assert list(box(tmp_path, "from").iterdir()) == []


def test_an_answer_is_not_lost_when_the_server_is_killed_while_it_takes_it(tmp_path):
    # the carrier has moved the file here: nobody will bring it again
    (box(tmp_path, "from") / name_of(question(1))).write_bytes(answer_to(question(1)))

    def killed(site, answer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exchange(tmp_path, question(1), killed)
    taken = Taken()
    assert exchange(tmp_path, question(1), taken) == {A}  # the same question with the same bytes
    assert taken == [answer_to(question(1))]


def test_an_answer_that_was_taken_is_there_for_a_server_without_a_checkpoint(tmp_path):
    (box(tmp_path, "from") / name_of(question(1))).write_bytes(answer_to(question(1)))
    assert exchange(tmp_path, question(1), Taken()) == {A}
    assert exchange(tmp_path, question(1), Taken()) == {A}


def test_a_file_that_grows_is_taken_when_it_is_whole(tmp_path):
    answer, path = answer_to(question(1)), box(tmp_path, "from") / name_of(question(1))
    path.write_bytes(answer[:50])
    taken = Taken()

    def carrier():
        some_looks()
        with path.open("ab") as file:
            for place in range(50, len(answer), 40):
                file.write(answer[place : place + 40])
                file.flush()
                time.sleep(0.02)

    thread = threading.Thread(target=carrier)
    thread.start()
    assert exchange(tmp_path, question(1), taken) == {A}
    thread.join()
    assert taken == [answer]  # and never a part of it


def test_a_damaged_answer_is_named_when_patience_ends(tmp_path):
    answer = bytearray(answer_to(question(1)))
    answer[80] ^= 1
    (box(tmp_path, "from") / name_of(question(1))).write_bytes(answer)
    taken = Taken()
    assert exchange(tmp_path, question(1), taken, patience=0.1) == frozenset()
    assert taken == [bytes(answer)]


def test_a_refused_answer_is_asked_about_once_and_may_be_replaced(tmp_path):
    wrong, right = answer_to(question(9)), answer_to(question(1))
    path = box(tmp_path, "from") / name_of(question(1))
    path.write_bytes(wrong)
    taken = Taken(wrong)

    def carrier():
        until(lambda: taken)
        some_looks()
        part = path.with_suffix(".tmp")
        part.write_bytes(right)
        part.replace(path)

    thread = threading.Thread(target=carrier)
    thread.start()
    assert exchange(tmp_path, question(1), taken) == {A}
    thread.join()
    assert taken == [wrong, right]


def test_answers_that_come_twice_or_late_or_in_another_order_are_no_answer_to_this(tmp_path):
    inbox = box(tmp_path, "from")
    taken = Taken()

    def carrier():
        until(lambda: list(box(tmp_path, "to").iterdir()))
        for number in (3, 1, 2, 1):
            (inbox / name_of(question(number))).write_bytes(answer_to(question(number)))
            some_looks()

    thread = threading.Thread(target=carrier)
    thread.start()
    assert exchange(tmp_path, question(2), taken) == {A}
    thread.join()
    assert taken == [answer_to(question(2))]


def test_an_answer_that_comes_after_patience_serves_the_same_question_asked_again(tmp_path):
    assert exchange(tmp_path, question(1), Taken(), patience=0.05) == frozenset()
    assert list(box(tmp_path, "to").iterdir()) == []  # withdrawn
    (box(tmp_path, "from") / name_of(question(1))).write_bytes(answer_to(question(1)))
    assert exchange(tmp_path, question(1), Taken()) == {A}


def test_files_of_others_are_left_alone(tmp_path):
    mine = {
        "notes.txt": b"mine", "notes.cmty": b"mine", f"{name_of(question(1))}.part": b"CMTY",
    }  # fmt: skip
    for name in ("to", "from"):
        for file, content in mine.items():
            (box(tmp_path, name) / file).write_bytes(content)
        (box(tmp_path, name) / f"{'0' * 32}").mkdir()
    taken = Taken()
    with Working(tmp_path) as site:
        assert exchange(tmp_path, question(1), taken) == {A}
        assert exchange(tmp_path, question(2), taken) == {A}
    assert site.asked == [question(1), question(2)]
    assert len(taken) == 2
    for file in ("notes.txt", "notes.cmty"):
        assert (box(tmp_path, "to") / file).read_bytes() == b"mine"
        assert (box(tmp_path, "from") / file).read_bytes() == b"mine"


def test_a_directory_with_the_name_of_a_message_is_no_message(tmp_path):
    (box(tmp_path, "from") / name_of(question(1))).mkdir()
    assert exchange(tmp_path, question(1), Taken(), patience=0.05) == frozenset()


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "post").write_text("a file")
    with pytest.raises(UserError, match=r"cannot write to .*post.to-bank-a.*can be written"):
        exchange(tmp_path / "post", question(1), Taken())


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_directory_is_named(tmp_path):
    box(tmp_path, "to").chmod(0o500)
    with pytest.raises(UserError, match=r"cannot write to .*Permission denied"):
        exchange(tmp_path, question(1), Taken())


# -- a site's end --------------------------------------------------------------------------


def test_a_site_waits_until_its_question_is_whole(tmp_path):
    message, path = question(1), box(tmp_path, "to") / name_of(question(1))
    path.write_bytes(message[:-10])
    with Working(tmp_path) as site:
        some_looks()
        assert site.asked == []
        with path.open("ab") as file:
            file.write(message[-10:])
        until(lambda: list(box(tmp_path, "from").iterdir()))
    assert site.asked == [message]


def test_an_answer_that_a_carrier_takes_away_is_not_made_again(tmp_path):
    (box(tmp_path, "to") / name_of(question(1))).write_bytes(question(1))
    answer = box(tmp_path, "from") / name_of(question(1))
    with Working(tmp_path) as site:
        until(answer.exists)
        answer.rename(tmp_path / "carried")
        some_looks()
        assert not answer.exists()
    assert site.asked == [question(1)]


def test_a_question_that_comes_again_is_answered_again(tmp_path):
    path, answer = (box(tmp_path, name) / name_of(question(1)) for name in ("to", "from"))
    path.write_bytes(question(1))
    with Working(tmp_path) as site:
        until(answer.exists)
        answer.unlink()  # lost on its way
        path.unlink()
        path.write_bytes(question(1))
        until(answer.exists)
    assert site.asked == [question(1)] * 2


def test_an_answer_stays_while_its_question_does_and_until_another_comes(tmp_path):
    first, second = (box(tmp_path, "to") / name_of(question(n)) for n in (1, 2))
    first.write_bytes(question(1))
    with Working(tmp_path):
        until((box(tmp_path, "from") / first.name).exists)
        first.unlink()
        some_looks()
        assert (box(tmp_path, "from") / first.name).exists()  # not carried yet, perhaps
        second.write_bytes(question(2))
        until((box(tmp_path, "from") / second.name).exists)
        until(lambda: not (box(tmp_path, "from") / first.name).exists())


def test_questions_are_answered_in_the_order_of_the_federation(tmp_path):
    for number in (2, 1, 3):
        (box(tmp_path, "to") / name_of(question(number))).write_bytes(question(number))
    with Working(tmp_path) as site:
        until(lambda: len(site.asked) == 3)
    assert site.asked == [question(1), question(2), question(3)]


# -- two directories and a carrier ---------------------------------------------------------


@pytest.mark.parametrize("manner", ["copies", "moves"])
def test_a_carrier_between_two_places(manner, tmp_path):
    """The server's directory and the site's are on two machines; each file is carried once."""
    here, there = tmp_path / "server", tmp_path / "site"
    ways = [(box(here, "to"), box(there, "to")), (box(there, "from"), box(here, "from"))]
    stopped, carried = threading.Event(), set()

    def carry():
        while not stopped.is_set():
            for source, target in ways:
                for path in source.glob("*.cmty"):
                    if path in carried:
                        continue
                    carried.add(path)
                    try:
                        content = path.read_bytes()
                    except FileNotFoundError:
                        continue
                    with (target / path.name).open("wb") as file:  # a part at a time
                        file.write(content[:100])
                        file.flush()
                        time.sleep(0.02)
                        file.write(content[100:])
                    if manner == "moves":
                        path.unlink(missing_ok=True)
            time.sleep(0.005)

    carrier = threading.Thread(target=carry)
    carrier.start()
    taken = Taken()
    try:
        with Working(there) as site:
            for number in (1, 2, 3):
                assert exchange(here, question(number), taken) == {A}
    finally:
        stopped.set()
        carrier.join()
    assert taken == [answer_to(question(number)) for number in (1, 2, 3)]
    assert site.asked == [question(1), question(2), question(3)]


def test_wholeness_is_of_every_byte():
    message = question(1)
    assert is_whole(message)
    assert not any(is_whole(message[:length]) for length in range(len(message)))
    assert not is_whole(message + b"\0")
    for place in range(len(message) - 64):  # the signature is not ours to check
        changed = bytearray(message)
        changed[place] ^= 1
        assert not is_whole(bytes(changed)), place
