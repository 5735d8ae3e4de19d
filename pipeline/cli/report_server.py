"""The report, served on this machine alone while runs go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pipeline.cli.report_page import document, page
from pipeline.errors import RunError
from pipeline.runs.files import reason
from pipeline.runs.listing import RunRow


def serve(
    rows: Callable[[], Sequence[RunRow]], port: int, refresh: float, ready: Callable[[str], None]
) -> None:
    """Answer until Ctrl-C: ``/`` is the page, ``/data.json`` what it shows by now.

    Args:
        port: 0 for a free one.
        refresh: seconds between two questions of the page.
        ready: told the address.

    Raises:
        RunError: if the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self._is_local():
                self.send_error(403)
            elif self.path == "/":
                self._answer("text/html", page(rows(), Path.cwd(), refresh=refresh))
            elif self.path == "/data.json":
                self._answer("application/json", document(rows(), Path.cwd(), refresh=refresh))
            else:
                self.send_error(404)

        def _is_local(self) -> bool:
            """Whether it was asked for by this machine's name: a page of another site cannot read it."""
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            return host in ("127.0.0.1", "localhost")

        def _answer(self, kind: str, text: str) -> None:
            content = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing is said of ordinary requests."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise RunError(f"port {port}: {reason(error)}; choose another with --port") from error
    with server:
        ready(f"http://127.0.0.1:{server.server_port}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
