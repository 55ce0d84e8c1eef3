"""Runs `python -m MODULE` on files that `npm run build -- --stack` sends, in a pod of the stack.

Stands alone, because it is the pod's command, and needs only the standard library. It listens on loopback, which only
a port-forward of Kubernetes reaches, and ends after IDLE_SECONDS without a request, so that a builder who is gone holds
no GPU.

    PUT /files/PATH    writes a file
    GET /files/PATH    reads one
    POST /run          starts the command: a JSON list of a module and its arguments
    GET /run           {"id": of this process, "running": bool, "code": number or null, "output": its last lines}
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

IDLE_SECONDS = 300
ROOT = Path.cwd().resolve()
ID = uuid.uuid4().hex
LOG = ROOT / "output.txt"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    process: subprocess.Popen[bytes] | None = None
    last_request = time.monotonic()

    def do_PUT(self) -> None:
        path = self.file()
        path.parent.mkdir(parents=True, exist_ok=True)
        left = int(self.headers["content-length"])
        with path.open("wb") as file:
            while left > 0 and (part := self.rfile.read(min(left, 1 << 20))):
                Handler.last_request = time.monotonic()
                left -= file.write(part)
        self.answer(b"", 400 if left > 0 else 200)

    def do_POST(self) -> None:
        command = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with LOG.open("wb") as log:
            Handler.process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
            )
        self.answer(b"")

    def do_GET(self) -> None:
        if self.path != "/run":
            with self.file().open("rb") as file:
                self.head(os.fstat(file.fileno()).st_size)
                while part := file.read(1 << 20):
                    self.wfile.write(part)
                    Handler.last_request = time.monotonic()
            return
        code = None if self.process is None else self.process.poll()
        output = LOG.read_bytes()[-20_000:].decode(errors="replace") if LOG.exists() else ""
        running = self.process is not None and code is None
        self.answer(json.dumps({"id": ID, "running": running, "code": code, "output": output}).encode())

    def file(self) -> Path:
        """Return the path of a request below ROOT. Raises ValueError for one outside of it."""
        path = (ROOT / self.path.removeprefix("/files/")).resolve()
        if not path.is_relative_to(ROOT):
            raise ValueError(f"{path} is outside of {ROOT}")
        return path

    def answer(self, body: bytes, status: int = 200) -> None:
        self.head(len(body), status)
        self.wfile.write(body)

    def head(self, length: int, status: int = 200) -> None:
        Handler.last_request = time.monotonic()
        self.send_response(status)
        self.send_header("content-length", str(length))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing for a request."""


def end_when_idle(server: ThreadingHTTPServer) -> None:
    while time.monotonic() - Handler.last_request < IDLE_SECONDS:
        time.sleep(1)
    print(f"no request for {IDLE_SECONDS} seconds")
    server.shutdown()


if __name__ == "__main__":
    Path(os.environ.get("TMPDIR", "/tmp")).mkdir(parents=True, exist_ok=True)
    listener = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    threading.Thread(target=end_when_idle, args=(listener,), daemon=True).start()
    listener.serve_forever()
