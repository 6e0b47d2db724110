"""What an image is held to: what its stack was resolved to, or without a stack its own labels; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ci.core.findings import Finding, judged
from ci.image.containerfile import labels_of
from ci.image.resolved import ResolvedStack
from ci.image.roles import roles_in

PYTORCH_LABEL = "io.github.torch-spyre.pytorch"
# Of an image whose PyTorch told its commit when it was built.
COMMIT_LABEL = "io.github.torch-spyre.pytorch.commit"
REVISION_LABEL = "org.opencontainers.image.revision"
# What an image of ours has, whatever it is made of.
NEEDED = (
    "io.github.torch-spyre.pytorch",
    "io.github.torch-spyre.variant",
    "org.opencontainers.image.base.digest",
    "org.opencontainers.image.base.name",
    "org.opencontainers.image.title",
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an image is held to.

    Attributes:
        labels: with their values.
        needed: labels that have to be there, whatever they say.
        version: of PyTorch; empty where nothing says it.
        commit: of PyTorch; empty where nothing says it.
        roles: the words each is verified with, by name.
        user: number; None: any but 0.
        absent: packages of the distribution that belong to the build alone.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    needed: Sequence[str] = NEEDED
    version: str = ""
    commit: str = ""
    roles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    user: int | None = None
    absent: Sequence[str] = ()


def of_stack(resolved: ResolvedStack) -> Expected:
    """What an image of a stack is held to."""
    # Not the revision: an image that did not change was built at an earlier one.
    base = resolved.stack.base
    return Expected(
        labels=dict(labels_of(resolved)),
        version=resolved.pytorch.requirement.partition("==")[2],
        commit=resolved.pytorch.commit,
        roles={name: role.check for name, role in sorted(resolved.stack.roles.items())},
        user=resolved.stack.user,
        absent=sorted(set(base.build_packages) - set(base.packages)),
    )


def of_labels(labels: Mapping[str, str]) -> Expected:
    """What an image is held to by what it says of itself."""
    told = labels.get(PYTORCH_LABEL, "")
    return Expected(
        version=told.partition("==")[2],
        commit=labels.get(COMMIT_LABEL) or (told if _COMMIT.fullmatch(told) else ""),
        roles=roles_in(labels),
    )


def is_version(expected: str, version: str) -> bool:
    """Whether a torch is of a version; what stands after `+` counts where the expected version has it.

    Args:
        expected: such as 2.13.0; empty: any.
        version: such as 2.13.0+cpu.
    """
    return expected in {"", version, version.partition("+")[0]}


def check_labels(labels: Mapping[str, str], expected: Expected) -> Finding:
    """Each label is there with its value, however many more there are.

    Args:
        labels: the image's.
        expected: what it is held to.
    """
    missing = sorted({*expected.needed, *expected.labels} - set(labels))
    other = sorted(
        name for name, value in expected.labels.items() if name in labels and labels[name] != value
    )
    wrong = [f"{name} is missing" for name in missing]
    wrong += [f"{name} is {labels[name] or 'empty'}, not {expected.labels[name]}" for name in other]
    more = f"; and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
    right = (
        f"all {len(expected.labels)} as resolved" if expected.labels else f"{len(labels)}, none is missing"
    )
    return judged(
        "labels",
        "; ".join(wrong[:MOST_SHOWN]) + more if wrong else right,
        holds=not wrong,
        remedy="build it with `spyre-ci image build`, from the stack and the refs it is compared with",
    )
