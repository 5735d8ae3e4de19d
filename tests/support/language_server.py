"""A TOML language server, asked as an editor asks it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

TOMBI = Path(sys.executable).parent / "tombi"
_DEADLINE = 60.0  # seconds


class LanguageServer:
    """One process that speaks the language server protocol on its pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._asked = 0

    def completions(self, file: Path, line: int, column: int) -> list[str]:
        """What it offers at a place, counted from 0; asked until it has read file and schema."""
        document = {"uri": file.as_uri(), "languageId": "toml", "version": 1, "text": file.read_text()}
        self._tell("textDocument/didOpen", {"textDocument": document})
        place = {"textDocument": {"uri": file.as_uri()}, "position": {"line": line, "character": column}}
        while True:  # ended by the deadline
            found = self.ask("textDocument/completion", place)
            items = found["items"] if isinstance(found, dict) else found
            if items:
                return [item["label"].strip('"') for item in items]
            time.sleep(0.1)

    def ask(self, method: str, parameters: Any) -> Any:
        """The result of a request; what the server asks meanwhile is answered with nothing."""
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": parameters})
        while True:
            message = self._receive()
            if message.get("id") == self._asked and "method" not in message:
                return message.get("result")
            if "id" in message and "method" in message:
                self._send({"id": message["id"], "result": None})

    def _tell(self, method: str, parameters: Any) -> None:
        self._send({"method": method, "params": parameters})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        pipe = self._process.stdout
        assert pipe is not None
        length = 0
        while header := pipe.readline().strip():
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        if not length:
            raise AssertionError("the language server has ended, or took too long")
        return json.loads(pipe.read(length))


@contextmanager
def language_server(folder: Path) -> Iterator[LanguageServer]:
    """Tombi's, offline; killed where it takes too long."""
    command = [TOMBI, "lsp", "--offline"]
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    timer = threading.Timer(_DEADLINE, process.kill)
    timer.start()
    try:
        server = LanguageServer(process)
        server.ask("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}})
        yield server
    finally:
        timer.cancel()
        timer.join()
        process.kill()
        process.communicate()


def lint(file: Path) -> list[str]:
    """The lines of tombi's complaints about a file, as ``LINE: text``; warnings too."""
    command = [TOMBI, "lint", "--offline", "--quiet", "--error-on-warnings", file]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_DEADLINE, check=False, env={"NO_COLOR": "1"}
    )
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    found = [
        f"{place.rsplit(':', 2)[-2]}: {text}" for text, place in pairwise(said) if place.startswith("at ")
    ]
    assert bool(found) == bool(done.returncode), said
    return found
