"""The page as one file: small, whole, and inert whatever names say."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser

import pytest

from comity.errors import UserError
from comity.explore import saving
from comity.explore.assets import files, inert, modules, saved_page
from comity.explore.explorer import Explorer
from comity.explore.saving import MOST_BYTES, save_page, saved_data
from tests.explore.conftest import CREDIT, STEPS, finished

HOSTILE = "</script><img src=x onerror=alert(1)>&quot;'\"${x}<!--"


class Scripts(HTMLParser):
    """Scripts of a page, by type, and all tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self._type: str | None = None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._type = dict(attrs).get("type") if tag == "script" else None

    def handle_data(self, data):
        if self._type is not None:
            self.scripts[self._type] = self.scripts.get(self._type, "") + data

    def handle_endtag(self, tag):
        self._type = None


@pytest.fixture(scope="module")
def page(shelf, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "page.html"
    assert save_page(Explorer([shelf]), path) == [f"Page: {path}"]
    return path


def test_a_saved_page_holds_documents_and_grids(page, explorer):
    assert page.stat().st_size < MOST_BYTES
    data = json.loads(Scripts(page.read_text()).scripts["application/json"])
    assert data["items"].keys() == {item.id for item in explorer.shelf.items()}
    assert data["items"]["credit"] == json.loads(json.dumps(explorer.document("credit")))
    assert data["grids"]["spanning/1"] == json.loads(json.dumps(explorer.grid("spanning", 1)))
    assert data["grids"]["credit/2"]["made"] is False
    assert data["reduced"] == []


def test_a_saved_page_loads_nothing(page):
    parsed = Scripts(page.read_text())
    addresses = [v for _, attrs in parsed.tags for k, v in attrs.items() if k in ("src", "href")]
    assert all(address.startswith(("data:", "#")) for address in addresses)
    (policy,) = [a["content"] for t, a in parsed.tags if a.get("http-equiv")]
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy  # none, by default
    assert "http" not in policy
    imports = json.loads(parsed.scripts["importmap"])["imports"]
    for name, path in modules().items():
        head, _, content = imports[name].partition(",")
        assert head == "data:text/javascript;base64"
        assert base64.b64decode(content) == files()[path].content


def test_modules_import_each_other_by_bare_names():
    for name, file in files().items():
        if name.endswith(".js") and "vendor" not in name:
            text = file.content.decode()
            imported = re.findall(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""", text)
            assert all(each in modules() for each in imported), name


def test_hostile_texts_are_inert():
    text = saved_page({"name": HOSTILE}).decode()
    assert "onerror" in text
    parsed = Scripts(text)
    assert json.loads(parsed.scripts["application/json"]) == {"name": HOSTILE}
    assert "img" not in {tag for tag, _ in parsed.tags}
    assert "<" not in inert({"name": HOSTILE})
    assert "\u2028" not in inert({"name": "\u2028"})


def test_hostile_names_of_clients_and_directories_are_data(tmp_path):
    names = [HOSTILE, "b"]
    place = tmp_path / "<b>&"
    finished(place, problem=CREDIT, clients=2, rounds=1, algorithm="fedavg", names=names, **STEPS)
    data = saved_data(Explorer([place]))
    (document,) = data["items"].values()
    assert document["clients"]["name"] == names
    assert re.fullmatch(r"[\w.+=~-]+", document["id"])
    parsed = Scripts(saved_page(data).decode())
    assert json.loads(parsed.scripts["application/json"])["items"] == json.loads(
        json.dumps(data["items"])
    )
    assert "img" not in {tag for tag, _ in parsed.tags}
    assert document["commands"]["report"] == f"comity report '{place}'"


def test_a_page_that_would_be_too_large_is_reduced_and_says_so(explorer, monkeypatch):
    base = len(saved_page({})) + 20_000
    documents = sum(len(inert(explorer.document(item.id))) for item in explorer.shelf.items())
    monkeypatch.setattr(saving, "MOST_BYTES", base + documents + 60_000)
    data = saved_data(explorer)
    (sentence,) = data["reduced"]
    assert re.fullmatch(r"Models were tried at up to \d+ preferences and \d+ .*", sentence)
    assert len(saved_page(data)) < base + documents + 60_000
    monkeypatch.setattr(saving, "MOST_BYTES", base + documents // 2)
    data = saved_data(explorer)
    assert any("is left out" in sentence for sentence in data["reduced"])
    assert data["items"].keys() == {line["id"] for line in data["index"]["items"]}
    assert len(saved_page(data)) < base + documents // 2


def test_an_existing_file_is_not_overwritten(explorer, tmp_path):
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        save_page(explorer, tmp_path / "page.html")
    with pytest.raises(UserError, match=r"must end in \.html"):
        save_page(explorer, tmp_path / "page.txt")
