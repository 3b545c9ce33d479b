"""The page as files: ES modules with bare names, bound by an import map, served or saved."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_PLACE = Path(__file__).parent / "page"
_HEAD, _END = "<!--comity:head-->", "<!--comity:end-->"
_ENTRY = 'import "comity/main";'
_TYPES = {".js": "text/javascript", ".css": "text/css"}
_SERVED = "default-src 'none'; script-src 'self' {scripts}; style-src 'self'; connect-src 'self'; "
_SAVED = "default-src 'none'; script-src data: {scripts}; style-src {styles}; "
_BOTH = "img-src data: blob:; form-action 'none'; base-uri 'none'"


@dataclass(frozen=True)
class File:
    """A file of the page."""

    content: bytes
    type: str


@cache
def files() -> dict[str, File]:
    """Return the files that the page loads, by their path below ``page/``."""
    return {
        path.relative_to(_PLACE).as_posix(): File(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(_PLACE.rglob("*"))
        if path.suffix in _TYPES and path.is_file()
    }


def modules() -> dict[str, str]:
    """Return the path of each module by the name under which others import it."""
    return {f"comity/{name.removesuffix('.js')}": name for name in files() if name.endswith(".js")}


def served_page() -> tuple[str, str]:
    """Return the page as the server sends it, and its policy on what it may load."""
    imports = {name: f"./page/{path}" for name, path in modules().items()}
    styles = [f'<link rel="stylesheet" href="page/{html.escape(name)}">' for name in _styles()]
    table = _import_map(imports)
    page = _filled("\n".join([*styles, _script(table, "importmap")]), _script(_ENTRY, "module"))
    policy = _SERVED.format(scripts=_hashes(table, _ENTRY)) + _BOTH
    return page, f"{policy}; frame-ancestors 'none'"


def saved_page(data: Mapping[str, Any]) -> bytes:
    """Return the page as one file that holds its modules and its data, and loads nothing.

    Args:
        data: What the server would answer, as JSON.
    """
    every = files()
    imports = {name: _address(every[path]) for name, path in modules().items()}
    style = "\n".join(every[name].content.decode() for name in _styles())
    table = _import_map(imports)
    policy = _SAVED.format(scripts=_hashes(table, _ENTRY), styles=_hashes(style)) + _BOTH
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
        f"<style>{style}</style>",
        _script(table, "importmap"),
        _script(inert(data), "application/json", "comity-data"),
    ]
    return _filled("\n".join(head), _script(_ENTRY, "module")).encode()


def inert(data: Any) -> str:
    """Return JSON that no parser of HTML takes for markup, whatever the texts in it say."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _styles() -> list[str]:
    return [name for name in files() if name.endswith(".css")]


def _filled(head: str, end: str) -> str:
    page = (_PLACE / "index.html").read_text()
    return page.replace(_HEAD, head).replace(_END, end)


def _import_map(imports: Mapping[str, str]) -> str:
    return inert({"imports": dict(imports)})


def _address(file: File) -> str:
    return f"data:{file.type};base64,{base64.b64encode(file.content).decode()}"


def _script(content: str, type: str, id: str = "") -> str:
    named = f' id="{id}"' if id else ""
    return f'<script type="{type}"{named}>{content}</script>'


def _hashes(*contents: str) -> str:
    """Return what a policy says of scripts or styles in the page itself."""
    sums = (hashlib.sha256(content.encode()).digest() for content in contents)
    return " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in sums)
