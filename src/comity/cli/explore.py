"""The command that shows work on a page: explore."""

from __future__ import annotations

import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from comity.errors import UserError


def explore(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Runs, comparisons, searches, or directories of such."
        ),
    ],
    port: Annotated[int, typer.Option(help="Port of this machine; 0: any that is free.")] = 0,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the page as one file instead; must not exist yet."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Show runs on a page: move a preference, watch a federation, take a model home."""
    from comity.explore.explorer import Explorer

    explorer = Explorer(paths)
    for item in explorer.shelf.named():
        explorer.document(item.id)  # damage shows now, not in the browser
    if save is not None:
        from comity.explore.saving import save_page

        for sentence in save_page(explorer, save):
            print(sentence)
        return
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise UserError(
            "to serve the page takes two packages more: pip install 'comity[explore]'; --save "
            "page.html needs none."
        )
    from comity.explore import server

    bound, token = server.listen(port), server.new_token()
    place = server.address(bound, token)
    print(f"Page: {place}\nOnly this machine can open it. Ctrl-C ends it.", flush=True)
    if browser:
        webbrowser.open(place)
    server.server_of(explorer, bound, token).run(sockets=[bound])
