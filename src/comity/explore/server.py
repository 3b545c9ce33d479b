"""The server of the page: this machine's loopback, one token, reading only."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from comity.errors import UserError
from comity.explore.assets import files, served_page
from comity.explore.explorer import Explorer

HOST = "127.0.0.1"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_STRICT = "default-src 'none'; frame-ancestors 'none'"
_LONGEST = 8_192  # characters of a query

Answer = Callable[[Explorer, "Query"], Response]


class Query:
    """Parameters of an address; what is missing or no number is refused in one sentence.

    Args:
        request: The request.
    """

    def __init__(self, request: Request) -> None:
        self._values = request.query_params

    def text(self, name: str) -> str:
        """Return a text that must be there."""
        value = self._values.get(name)
        if not value:
            raise UserError(f"{name} is missing in the address.")
        return value

    def integer(self, name: str) -> int | None:
        """Return a whole number; None if there is none."""
        return int(_number(name, self._values[name])) if self._values.get(name) else None

    def needed(self, name: str) -> int:
        """Return a whole number that must be there."""
        return int(_number(name, self.text(name)))

    def real(self, name: str, missing: float) -> float:
        """Return a number, or ``missing``."""
        return _number(name, self._values[name]) if self._values.get(name) else missing

    def reals(self, name: str) -> list[float] | None:
        """Return numbers between commas; None if there are none."""
        text = self._values.get(name)
        return [_number(name, part) for part in text.split(",")] if text else None

    def levels(self, name: str) -> list[float | None] | None:
        """Return numbers between commas, None for those left out; None without any."""
        text = self._values.get(name)
        if not text:
            return None
        return [_number(name, part) if part.strip() else None for part in text.split(",")]


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value - value != 0:
        raise UserError(f"{name} = {text[:40]}: must be a number.")
    return value


# -- answers -------------------------------------------------------------------------------


def _index(explorer: Explorer, query: Query) -> Response:
    return _json(explorer.index())


def _item(explorer: Explorer, query: Query) -> Response:
    since = query.integer("since")
    id = query.text("id")
    return _json(explorer.document(id) if since is None else explorer.since(id, since))


def _mixing(explorer: Explorer, query: Query) -> Response:
    return _json(explorer.matrices(query.text("id"), query.needed("round")))


def _judge(explorer: Explorer, query: Query) -> Response:
    return _json(
        explorer.judge(
            query.text("id"),
            query.integer("client"),
            query.reals("preference"),
            query.real("threshold", 0.5),
            query.levels("aspiration"),
        )
    )


def _grid(explorer: Explorer, query: Query) -> Response:
    return _json(explorer.grid(query.text("id"), query.needed("client")))


def _export(explorer: Explorer, query: Query) -> Response:
    name, content = explorer.export(
        query.text("id"), query.needed("client"), query.text("format"), query.reals("preference")
    )
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _table(explorer: Explorer, query: Query) -> Response:
    return Response(explorer.table(query.text("id"), query.text("format")), media_type="text/plain")


def _compare(explorer: Explorer, query: Query) -> Response:
    return _json(explorer.compare(query.text("ids").split(",")))


ANSWERS: dict[str, Answer] = {
    "index": _index,
    "item": _item,
    "mixing": _mixing,
    "judge": _judge,
    "grid": _grid,
    "export": _export,
    "table": _table,
    "compare": _compare,
}
"""Addresses below the token."""


def _json(value: Any, status: int = 200) -> Response:
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise UserError("a number in the files of this item is not finite: damaged.") from None
    return Response(text, status, media_type="application/json")


# -- the application -----------------------------------------------------------------------


def application(explorer: Explorer, token: str, port: int) -> ASGIApp:
    """Return the application.

    Args:
        explorer: What there is to see.
        token: Secret first part of every address.
        port: Port at which it is served, for the check of the host's name.
    """
    routes = [Route("/", _page), Route("/page/{name:path}", _file)]
    routes += [Route(f"/{name}", _endpoint(explorer, each)) for name, each in ANSWERS.items()]
    inner = Starlette(routes=routes, middleware=[Middleware(GZipMiddleware, minimum_size=1_000)])
    return _Guard(inner, token, {f"{HOST}:{port}", f"localhost:{port}"})


def _endpoint(explorer: Explorer, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            if len(request.url.query) > _LONGEST:
                raise UserError("the address is too long.")
            return await run_in_threadpool(answer, explorer, Query(request))
        except UserError as error:
            return _json({"error": str(error)}, 400)

    return endpoint


async def _page(request: Request) -> Response:
    page, policy = served_page()
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": policy})


async def _file(request: Request) -> Response:
    file = files().get(request.path_params["name"])
    if file is None:
        return _json({"error": "there is no such file."}, 404)
    return Response(file.content, media_type=file.type)


class _Guard:
    """Refuses what does not have the token, asks for another host, or does more than read.

    Args:
        inner: The application behind it.
        token: Secret first part of every address.
        hosts: Names of this server, so that no name of somebody else's can be bound to it.
    """

    def __init__(self, inner: ASGIApp, token: str, hosts: set[str]) -> None:
        self._inner, self._token, self._hosts = inner, token.encode(), hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        rest = scope["path"].lstrip("/").partition("/")[2]

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                extra = _HEADERS | {"Content-Security-Policy": _STRICT}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in extra.items()
                        if name.lower().encode() not in names
                    ),
                ]
            await send(message)

        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        below = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(), "root_path": ""}
        await self._inner(below, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _json({"error": "this server has another name."}, 403)
        first, slash, _ = scope["path"].lstrip("/").partition("/")
        if not secrets.compare_digest(unquote(first).encode(), self._token) or not slash:
            return _json({"error": "the address lacks the token that comity explore printed."}, 404)
        if scope["method"] not in ("GET", "HEAD"):
            return _json({"error": "this server only answers questions: GET."}, 405)
        return None


def listen(port: int) -> socket.socket:
    """Return a socket of this machine's loopback.

    Args:
        port: The port; 0: any that is free.
    """
    # asyncio sends small answers at once only where the protocol is named: else they take 40 ms
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        why = getattr(error, "strerror", None) or error
        raise UserError(
            f"port = {port}: cannot be used ({why}); choose another, or leave --port out."
        ) from None
    return bound


def server_of(explorer: Explorer, bound: socket.socket, token: str) -> uvicorn.Server:
    """Return the server; its method ``run`` takes the socket.

    Args:
        explorer: What there is to see.
        bound: The socket.
        token: Secret first part of every address.
    """
    port = bound.getsockname()[1]
    config = uvicorn.Config(
        application(explorer, token, port), log_level="error", access_log=False, lifespan="off",
        server_header=False, timeout_graceful_shutdown=2, loop="asyncio", http="h11", ws="none",
    )  # fmt: skip
    return uvicorn.Server(config)


def new_token() -> str:
    """Return a secret that nobody guesses."""
    return secrets.token_urlsafe(24)


def address(bound: socket.socket, token: str) -> str:
    """Return the address of the page."""
    return f"http://{HOST}:{bound.getsockname()[1]}/{token}/"
