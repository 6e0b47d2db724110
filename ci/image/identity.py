"""The tag of an image: a hash of everything that goes into it, so that two builders agree; pure."""

from __future__ import annotations

import hashlib
import json

from ci.image.params import params_of
from ci.image.resolved import ResolvedStack

# 80 bits: no two of a registry's images meet by chance.
DIGITS = 20
PREFIX = "stack-"


def identity_of(resolved: ResolvedStack, containerfile: str, *, index: str = "") -> str:
    """The tag `stack-<20 hex digits>` of what is built from a rendered file.

    The commit of the checkout that builds it goes into a label alone: it changes with every commit, and the
    image does not.

    Args:
        resolved: the stack, named exactly.
        containerfile: as rendered, without what changes and does not matter.
        index: tells the package index that steps find from another; see ci.image.pantry.index_key.
    """
    said = {
        "containerfile": containerfile,
        "index": index,
        "platform": resolved.platform,
        "base": resolved.base_digest,
        "pytorch": [resolved.pytorch.requirement, resolved.pytorch.commit],
        "components": {
            one.component.name: [one.revision, params_of(resolved.stack, one.component)]
            for one in resolved.components
        },
        # Who finds the tag in a registry runs no tests: they have to be the ones that it passed.
        "tests": {
            one.component.name: [one.component.test, one.component.device_test]
            for one in resolved.components
            if one.component.test or one.component.device_test
        },
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
