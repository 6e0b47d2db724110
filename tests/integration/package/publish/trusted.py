"""Stand-ins for GitHub's token issuer and for TestPyPI under its own name, by a proxy and a certificate.

Twine does trusted publishing with PyPI and TestPyPI alone, by https. So a proxy of this machine leads whoever
asks for test.pypi.org to the stand-in, whose certificate only the test's processes trust.
"""

from __future__ import annotations

import base64
import email.parser
import email.policy
import hashlib
import json
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MINTED, ASKS = "pypi-m1nted", "asking-t0ken"
# A JWT, as far as it is looked at before it is handed on.
CLAIMS = base64.urlsafe_b64encode(b'{"aud": "testpypi"}').decode().rstrip("=")
JOB = f"e30.{CLAIMS}.s1gned"
HOST = "test.pypi.org"


@dataclass(slots=True, kw_only=True)
class TestPyPI:
    """What stands in for TestPyPI.

    Attributes:
        knows: whether it knows the job as a publisher of the project.
        files: by name.
        asked: what GitHub was asked for: the audience, and by whose token.
    """

    __test__ = False
    knows: bool = True
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], index: TestPyPI, port: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.index, self.leads_to = index, port


class Handler(BaseHTTPRequestHandler):
    server: Server

    def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def tell(self, status: int, content: Any) -> None:
        self.answer(status, json.dumps(content).encode())

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Issuer(Handler):
    """GitHub's, as a job sees it."""

    def do_GET(self) -> None:
        audience = self.path.rpartition("audience=")[2]
        self.server.index.asked.append((audience, self.headers["Authorization"]))
        self.tell(200, {"value": JOB})


class Index(Handler):
    """TestPyPI, with its token exchange, its upload and its simple API in JSON (PEP 691)."""

    def do_GET(self) -> None:
        files = self.server.index.files
        if self.path == "/_/oidc/audience":
            self.tell(200, {"audience": "testpypi"})
        elif self.path.startswith("/simple/") and files:
            listed = [
                {
                    "filename": name,
                    "url": f"/files/{name}",
                    "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
                }
                for name, data in files.items()
            ]
            content = {
                "meta": {"api-version": "1.1"},
                "name": "spyre-demo",
                "files": listed,
                "versions": ["1.0"],
            }
            self.answer(200, json.dumps(content).encode(), "application/vnd.pypi.simple.v1+json")
        elif self.path.startswith("/files/"):
            self.answer(200, files[self.path.rpartition("/")[2]], "application/octet-stream")
        else:
            self.tell(404, {})

    def do_POST(self) -> None:
        index, body = self.server.index, self.body()
        if self.path == "/_/oidc/mint-token":
            if index.knows and json.loads(body) == {"token": JOB}:
                self.tell(200, {"success": True, "token": MINTED})
            else:
                said = {"code": "invalid-publisher", "description": "no publisher is known by these claims"}
                self.tell(422, {"message": "Token request failed", "errors": [said]})
        elif (
            self.headers["Authorization"]
            != "Basic " + base64.b64encode(f"__token__:{MINTED}".encode()).decode()
        ):
            self.tell(403, {})
        else:
            name, data = _uploaded(self.headers["Content-Type"], body)
            index.files[name] = data
            self.tell(200, {})


def _uploaded(kind: str, body: bytes) -> tuple[str, bytes]:
    """The file of a form."""
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    for part in parser.parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body).iter_parts():
        if (name := part.get_filename()) is not None:
            data = part.get_payload(decode=True)
            assert isinstance(data, bytes)
            return name, data
    raise AssertionError("no file was uploaded")


class Proxy(Handler):
    """Leads whoever asks for PyPI to the stand-in, and nobody anywhere else."""

    def do_CONNECT(self) -> None:
        if self.path != f"{HOST}:443":
            self.tell(502, {})
            return
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with socket.create_connection(("127.0.0.1", self.server.leads_to)) as there:
            pair = {self.connection: there, there: self.connection}
            while readable := select.select(list(pair), [], [], 30)[0]:
                for one in readable:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    pair[one].sendall(data)


def certificate(folder: Path) -> Path:
    """A key and a certificate of its own for TestPyPI's name, in one file."""
    key, made = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}",
            "-addext", f"subjectAltName=DNS:{HOST}", "-keyout", str(key), "-out", str(made),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )  # fmt: skip
    (folder / "both.pem").write_bytes(key.read_bytes() + made.read_bytes())
    return made


@contextmanager
def github_and_testpypi(folder: Path) -> Iterator[tuple[TestPyPI, dict[str, str]]]:
    """TestPyPI's stand-in, and the environment of a GitHub job that finds it."""
    index, trusted = TestPyPI(), certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    with ExitStack() as stack:
        issuer = stack.enter_context(Server(Issuer, index))
        behind = stack.enter_context(Server(Index, index))
        behind.socket = context.wrap_socket(behind.socket, server_side=True)
        proxy = stack.enter_context(Server(Proxy, index, behind.server_port))
        for one in (issuer, behind, proxy):
            threading.Thread(target=one.serve_forever, daemon=True).start()
            stack.callback(one.shutdown)
        address = f"http://127.0.0.1:{proxy.server_port}"
        yield (
            index,
            {
                "GITHUB_ACTIONS": "true",
                "ACTIONS_ID_TOKEN_REQUEST_URL": f"http://127.0.0.1:{issuer.server_port}/?api=1",
                "ACTIONS_ID_TOKEN_REQUEST_TOKEN": ASKS,
                "HTTPS_PROXY": address,
                "https_proxy": address,
                "NO_PROXY": "127.0.0.1",
                "no_proxy": "127.0.0.1",
                "REQUESTS_CA_BUNDLE": str(trusted),
                "PIP_CERT": str(trusted),
            },
        )
