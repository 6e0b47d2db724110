"""An S3 endpoint on this machine: moto's server, in the process of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import requests
from moto.server import ThreadedMotoServer

TIMEOUT_S = 30


@contextmanager
def s3_server() -> Iterator[str]:
    """Have an endpoint without any bucket; its address.

    What a server held lies in its process and not in it: the next one of the same process would have it too.
    """
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    try:
        yield address
        requests.post(f"{address}/moto-api/reset", timeout=TIMEOUT_S).raise_for_status()
    finally:
        server.stop()
