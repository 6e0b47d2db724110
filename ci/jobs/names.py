"""Names of jobs: readable, drawn from a seed, so that the same run always has the same."""

from __future__ import annotations

import hashlib

# Pods are called `<job>-<index>-<five letters>`, and a name has 63 letters; an index has four digits.
LONGEST = 52
_ADJECTIVES = (
    "amber", "bold", "brave", "bright", "brisk", "calm", "clear", "clever", "crisp", "deft", "eager",
    "early", "fair", "fond", "free", "fresh", "gentle", "golden", "grand", "green", "happy", "keen",
    "kind", "lively", "lucky", "mellow", "merry", "mild", "neat", "nimble", "noble", "plain", "proud",
    "quiet", "rapid", "ready", "rosy", "royal", "sharp", "silent", "silver", "smart", "snug", "solid",
    "spry", "steady", "still", "sunny", "swift", "tidy", "true", "vivid", "warm", "wise", "witty", "young",
)  # fmt: skip
_NOUNS = (
    "acorn", "alder", "badger", "beech", "birch", "bison", "brook", "cedar", "cliff", "comet", "crane",
    "delta", "dune", "eagle", "ember", "falcon", "fern", "finch", "fjord", "fox", "glade", "grove", "harbour",
    "hare", "hawk", "heron", "hill", "island", "ivy", "lagoon", "lake", "larch", "lark", "lynx", "maple",
    "marsh", "meadow", "moss", "oak", "orchid", "otter", "owl", "pebble", "pine", "plover", "pond", "raven",
    "reef", "ridge", "river", "robin", "sparrow", "spruce", "stone", "swan", "tulip", "willow", "wren",
)  # fmt: skip


def job_name(word: str, seed: str) -> str:
    """`<word>-<adjective>-<noun>-<five hex digits>`, a DNS label of at most 52 letters.

    Args:
        word: the spec's name or kind.
        seed: the run's id; the same gives the same name.
    """
    digest = hashlib.sha256(f"{word}\n{seed}".encode()).digest()
    adjective = _ADJECTIVES[digest[0] % len(_ADJECTIVES)]
    noun = _NOUNS[digest[1] % len(_NOUNS)]
    return f"{word}-{adjective}-{noun}-{digest[2:5].hex()[:5]}"
