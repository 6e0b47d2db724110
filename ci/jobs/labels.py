"""Names, labels and annotations: how all of a job is found in a cluster, and what it was made of."""

from __future__ import annotations

import hashlib
import re

from ci.jobs.job import Job

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
MANAGED_BY = "spyre-ci"
NAME_LABEL = "app.kubernetes.io/name"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
COMPONENT_LABEL = "app.kubernetes.io/component"
RUN_LABEL = "spyre-ci.io/run"
# Kueue starts what has it once there is room for all of it, https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
ANNOTATION = "spyre-ci.io/"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def job_name(word: str, seed: str) -> str:
    """`<word>-<adjective>-<noun>-<five hex digits>`: a DNS label, the same for the same seed.

    It has 52 letters at most: pods are called `<job>-<index>-<five letters>`, and a name has 63.

    Args:
        word: the spec's name or kind.
        seed: the run's id.
    """
    digest = hashlib.sha256(f"{word}\n{seed}".encode()).digest()
    adjective = _ADJECTIVES[digest[0] % len(_ADJECTIVES)]
    noun = _NOUNS[digest[1] % len(_NOUNS)]
    return f"{word}-{adjective}-{noun}-{digest[2:5].hex()[:5]}"


def found_by(name: str) -> dict[str, str]:
    """The labels of everything that is a job's, as a Service and a Deployment choose their pods."""
    return {NAME_LABEL: name, MANAGED_BY_LABEL: MANAGED_BY}


def selector(name: str) -> str:
    """The same as a selector of the API."""
    return ",".join(f"{key}={value}" for key, value in found_by(name).items())


def labels_of(job: Job) -> dict[str, str]:
    """The labels of every object of a job, its pods too."""
    return found_by(job.name) | {COMPONENT_LABEL: job.spec.kind, RUN_LABEL: label_value(job.run)}


def label_value(text: str) -> str:
    """A text as a label's value: itself if it is one, else what can stand of it and a hash."""
    if _VALUE.fullmatch(text):
        return text
    kept = re.sub(r"[^A-Za-z0-9_.]+", "-", text)[:54]
    return f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".lstrip("-_.")


def origin_of(job: Job) -> dict[str, str]:
    """What a job was made of, as annotations; of pods too."""
    found = {
        "commit": job.commit,
        "dirty": str(job.dirty).lower() if job.commit else "",
        "fingerprint": job.fingerprint,
        "run-id": job.run,
    }
    return {f"{ANNOTATION}{name}": value for name, value in found.items() if value}


def annotations_of(job: Job) -> dict[str, str]:
    """The spec's tags and what the job was made of; the cluster refuses more than annotations hold."""
    return {**job.spec.tags, **origin_of(job)}
