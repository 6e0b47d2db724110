"""What a build's steps are given besides their context: package files, and settings that may be secret.

A server on loopback while the build runs. The address it is asked at has a path that nobody can guess, and
goes to the steps by a build argument that builders keep out of history and cache (see ci.image.steps); what
a step takes from it is in no layer.
"""

from __future__ import annotations

import hashlib
import secrets
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ci.core.addresses import without_credentials

ARGUMENT = "FTP_PROXY"
# Declared by what is rendered: what another index gave is not taken from the builder's cache.
INDEX_ARGUMENT = "PACKAGE_INDEX"


@contextmanager
def pantry(files: Mapping[str, Path], *, settings: str = "") -> Iterator[str]:
    """Serve while the block runs; gives the address for ARGUMENT.

    Args:
        files: by the SHA-256 they are asked by.
        settings: shell lines that a step evaluates.
    """
    key = secrets.token_urlsafe(24)

    class Handler(BaseHTTPRequestHandler):
        timeout = 60

        def do_GET(self) -> None:
            user, _, path = self.path.lstrip("/").partition("/")
            kind, _, name = path.partition("/")
            if not secrets.compare_digest(user, key):
                self.send_error(404)
            elif kind == "settings":
                self._give(settings.encode())
            elif kind == "files" and name in files:
                self._give(files[name].read_bytes())
            else:
                self.send_error(404)

        def _give(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: an address is as good as what it gives."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="pantry", daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}/{key}"
        finally:
            server.shutdown()
            thread.join()


def settings_of(environ: Mapping[str, str], *, certificates: Path | None) -> str:
    """Shell lines that give a step proxies, package indexes and a company's certificates.

    Args:
        environ: of whoever builds; what pip and package managers read of it goes on.
        certificates: a bundle of certificates in PEM; None: the image's own.
    """
    lines = [f"export {name}={shlex.quote(environ[name])}" for name in HANDED_ON if environ.get(name)]
    if certificates is not None:
        lines += [
            "__certificates=$(mktemp)",
            "trap 'rm -f \"$__certificates\"' EXIT",
            f"printf '%s' {shlex.quote(certificates.read_text(encoding='utf-8'))} > \"$__certificates\"",
            *(f'export {name}="$__certificates"' for name in BUNDLES),
            _FOR_APT,
        ]
    return "\n".join(lines) + "\n"


def index_key(environ: Mapping[str, str]) -> str:
    """What tells one package index from another, without telling where it is: 12 hex digits.

    Args:
        environ: of whoever builds; an index's credentials make no difference.
    """
    said = [without_credentials(environ.get(name, "")) for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]


def proxies_of(environ: Mapping[str, str]) -> dict[str, str]:
    """What a Containerfile that knows no pantry is given; builders keep these arguments to themselves.

    Args:
        environ: of whoever builds.
    """
    return {name: environ[name] for name in PROXIES if environ.get(name)}


# apt reads no variable for certificates.
_FOR_APT = (
    "if command -v apt-get >/dev/null; then "
    'printf \'Acquire::https::CAInfo "%s";\\n\' "$__certificates" > "$__certificates.apt"; '
    'export APT_CONFIG="$__certificates.apt"; '
    'trap \'rm -f "$__certificates" "$__certificates.apt"\' EXIT; fi'
)
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
HANDED_ON = (
    *PROXIES,
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
)
BUNDLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
