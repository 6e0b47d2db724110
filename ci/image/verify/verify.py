"""Every check of an image, in order; none is left out because one before it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import docker

from ci.core.findings import Finding
from ci.image.roles import NAMES
from ci.image.verify import inventory as contents
from ci.image.verify import starts
from ci.image.verify.expected import Expected
from ci.image.verify.inventory import Inventory
from ci.image.verify.labels import check_labels
from ci.image.verify.roles import Patience, check_role
from ci.image.verify.size import judge_size, layers_of
from ci.image.verify.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What is asked of an image.

    Attributes:
        expected: what it is held to.
        patience: how long a role may take.
        model: a folder that `serve` finds at /model; None: one that holds nothing of use.
        against: the last image, which the engine has; None: there is none.
        against_name: what it is called, or why there is none.
        most_percent: by which it may grow.
    """

    expected: Expected
    patience: Patience
    model: Path | None = None
    against: str | None = None
    against_name: str = "no tag is named"
    most_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What came of it.

    Attributes:
        image: its id.
        findings: of every check, in order.
        inventory: None where it cannot be told.
        attrs: what the engine tells of the image.
    """

    image: str
    findings: tuple[Finding, ...]
    inventory: Inventory | None
    attrs: Mapping[str, Any]


def verify(
    client: docker.DockerClient, name: str, demands: Demands, *, echo: Callable[[str], None]
) -> Verified:
    """Check an image.

    Args:
        client: the engine, which has it.
        name: of the image.
        demands: what is asked of it.
        echo: takes a line a check, as they are done.

    Raises:
        SpyreCiError: the engine or the registry refuses; that a check failed is among the findings.
    """
    attrs = client.images.get(name).attrs
    subject = Subject(client=client, image=str(attrs["Id"]), attrs=attrs)
    findings = []
    for finding in _checks(subject, demands):
        echo(finding.line)
        findings.append(finding)
    found = contents.take(subject)
    for finding in _inside(found, demands.expected):
        echo(finding.line)
        findings.append(finding)
    return Verified(
        image=subject.image,
        findings=tuple(findings),
        inventory=None if isinstance(found, Finding) else found,
        attrs=attrs,
    )


def _checks(subject: Subject, demands: Demands) -> Iterator[Finding]:
    expected = demands.expected
    yield check_labels(subject.labels, expected)
    yield _size(subject, demands)
    yield starts.check_user(subject, expected)
    yield starts.check_read_only(subject)
    yield starts.check_arbitrary_user(subject)
    yield starts.check_torch(subject, expected)
    yield starts.check_exit_code(subject)
    yield starts.check_signals(subject)
    yield starts.check_shell(subject)
    with TemporaryDirectory(prefix="spyre-ci-model-") as folder:
        model = demands.model or _no_model(Path(folder))
        for name in NAMES:
            yield check_role(subject, name, expected, demands.patience, model)


def _no_model(folder: Path) -> Path:
    # Read by a user of another number.
    folder.chmod(0o755)
    (folder / "README").write_text("No model: this image is being verified.\n", encoding="utf-8")
    return folder


def _size(subject: Subject, demands: Demands) -> Finding:
    before = layers_of(subject.client, demands.against) if demands.against else None
    return judge_size(
        before,
        layers_of(subject.client, subject.image),
        against=demands.against_name,
        most_percent=demands.most_percent,
    )


def _inside(found: Inventory | Finding, expected: Expected) -> Iterator[Finding]:
    if isinstance(found, Finding):
        yield found
        return
    yield contents.check_contents(found)
    yield contents.check_powerful(found)
    yield contents.check_writable(found)
    if expected.absent:
        yield contents.check_build_packages(found, expected)
