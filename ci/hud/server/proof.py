"""How our own server shows who it is: by knowing the token, without telling it."""

from __future__ import annotations

import hashlib
import hmac

SERVER_NAME = "spyre-ci-hud"


def proof_of_token(token: str, nonce: str) -> str:
    """What shows that a server knows the token, without telling it."""
    return hmac.new(token.encode(), f"{SERVER_NAME}:{nonce}".encode(), hashlib.sha256).hexdigest()
