"""What stands between a build and a push: every check, the SBOM written, an error where one failed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import docker

from ci.core.findings import Finding, judged, refuse_failed
from ci.image.build import shown_step
from ci.image.engine import fetch
from ci.image.registry import find_digest
from ci.image.resolved import ResolvedStack, by_digest
from ci.image.roles import NAMES
from ci.image.verify import inventory as contents
from ci.image.verify import roles
from ci.image.verify.expected import REVISION_LABEL, Expected, check_labels, of_labels, of_stack
from ci.image.verify.inventory import Inventory
from ci.image.verify.roles import Patience, check_role
from ci.image.verify.sbom import Described, check_library, created_at, sbom_of
from ci.image.verify.subject import Subject
from test_selection.files import atomic_writer

MIB = 1024 * 1024
MOST_SHOWN = 5
SHOWN = 72
_NOP = re.compile(r"^/bin/(?:ba)?sh -c #\(nop\)\s*")
_CONTENT = re.compile(r"\b(dir|file|multi):[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Verifies images.

    Attributes:
        client: the engine.
        patience: how long a role may take.
        most_percent: by which an image may grow.
        model: a folder that `serve` finds at /model; None: one that holds nothing of use.
        sbom: file the SBOM goes to; None: none is written.
        environ: SOURCE_DATE_EPOCH is read from it.
        echo: takes lines for people.
    """

    client: docker.DockerClient
    patience: Patience
    most_percent: float
    model: Path | None
    sbom: Path | None
    environ: Mapping[str, str]
    echo: Callable[[str], None]

    def ready(self) -> None:
        """Say before a long build what would be missed after it.

        Raises:
            CommandError: what writes the SBOM is not installed.
        """
        if self.sbom is not None:
            check_library()

    def pass_built(self, image: str, resolved: ResolvedStack, *, name: str, against: str | None) -> None:
        """Let an image pass that was just built.

        Args:
            image: its id.
            resolved: what it was built from.
            name: that it will have, with a tag.
            against: the tag that will move to it; None: none will.

        Raises:
            VerificationError: a check failed; all that did are named.
        """
        expected = of_stack(resolved)
        if resolved.revision:
            labels = {**expected.labels, REVISION_LABEL: resolved.revision}
            expected = replace(expected, labels=labels)
        verified = self.look(image, expected, stack=resolved, against=against, called=name)
        refuse_failed(name, verified.findings)

    def look(
        self,
        name: str,
        expected: Expected | None,
        *,
        stack: ResolvedStack | None,
        against: str | None,
        called: str = "",
    ) -> Verified:
        """Check an image and write its SBOM; that a check failed is among what is returned.

        Args:
            name: of the image, or its id.
            expected: what it is held to; None: what its labels say.
            stack: for the SBOM; None: not known.
            against: an image or a tag of a registry whose size it is compared with; None: none.
            called: what it is called in documents; empty: by its name.

        Raises:
            SpyreCiError: the engine or a registry refuses, or the SBOM cannot be written.
        """
        labels = self.client.images.get(name).labels
        last = previous(self.client, against) if against else None
        demands = Demands(
            expected=expected or of_labels(labels),
            patience=self.patience,
            model=self.model,
            against=last,
            against_name=_called(against, there=last is not None),
            most_percent=self.most_percent,
        )
        self.echo(f"verifying {called or name}")
        verified = verify(self.client, name, demands, echo=self.echo)
        if self.sbom is not None and verified.inventory is not None:
            self._write_sbom(self.sbom, called or name, verified, stack)
        return verified

    def _write_sbom(self, path: Path, name: str, verified: Verified, stack: ResolvedStack | None) -> None:
        assert verified.inventory is not None  # noqa: S101  # the caller looked
        repository, tag = split_name(name)
        created = created_at(
            str(verified.attrs.get("Created", "")), self.environ.get("SOURCE_DATE_EPOCH", "")
        )
        described = Described(
            name=repository, version=tag, image=verified.image, created=created, stack=stack
        )
        text = sbom_of(described, verified.inventory)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_writer(path) as file:
            file.write(text.encode())
        self.echo(f"its SBOM is in {path}")


def split_name(name: str) -> tuple[str, str]:
    """Repository, and tag or digest, of an image's name.

    Args:
        name: such as registry:5000/a/b:tag, or with a digest after `@`.
    """
    before, at, digest = name.partition("@")
    folder, slash, last = before.rpartition("/")
    repository, _, tag = last.partition(":")
    return f"{folder}{slash}{repository}", digest if at else tag


def is_tag(given: str) -> bool:
    """Whether a word names a tag alone, and not an image: it has no `/`, `:` and `@`."""
    return not set(given) & set("/:@")


def _called(against: str | None, *, there: bool) -> str:
    if against is None:
        return "no tag moves to it"
    return against if there else f"there is no {against} yet"


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
    yield roles.check_user(subject, expected)
    yield roles.check_read_only(subject)
    yield roles.check_arbitrary_user(subject)
    yield roles.check_torch(subject, expected)
    yield roles.check_exit_code(subject)
    yield roles.check_signals(subject)
    yield roles.check_shell(subject)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer.

    Attributes:
        step: that made it, without what differs between builds.
        size: bytes.
    """

    step: str
    size: int


def layers_of(client: docker.DockerClient, image: str) -> list[Layer]:
    """The layers of an image that the engine has, from the base on."""
    rows = reversed(client.images.get(image).history())
    return [Layer(step=step_of(str(row["CreatedBy"])), size=int(row["Size"])) for row in rows if row["Size"]]


def step_of(created_by: str) -> str:
    """The step that made a layer, as its Containerfile has it."""
    text = _CONTENT.sub(r"\1", _NOP.sub("", created_by))
    if text.startswith("/bin/bash -euo pipefail -c "):
        text = "RUN " + text.removeprefix("/bin/bash -euo pipefail -c ")
    return " ".join(shown_step(text).split()) or "base"


def previous(client: docker.DockerClient, name: str) -> str | None:
    """The image a tag of a registry points to now, by digest, fetched; None where there is none.

    Raises:
        CommandError: the registry cannot be reached, or refuses the credentials.
    """
    digest = find_digest(client, name)
    if digest is None:
        return None
    exact = by_digest(name, digest)
    fetch(client, exact)
    return exact


def grown(before: Sequence[Layer], after: Sequence[Layer]) -> list[tuple[str, int]]:
    """Steps whose layers grew or are new, with the bytes, the most first.

    Args:
        before: of the last image.
        after: of this one. Steps of the same words are taken in their order.
    """
    old = dict(_counted(before))
    more = [(one[0], size - old.get(one, 0)) for one, size in _counted(after)]
    return sorted(((step, size) for step, size in more if size > 0), key=lambda one: (-one[1], one[0]))


def judge_size(
    before: Sequence[Layer] | None, after: Sequence[Layer], *, against: str, most_percent: float
) -> Finding:
    """Whether an image grew by more than it may.

    Args:
        before: of the last image; None: there is none.
        after: of this one.
        against: what the last one is called.
        most_percent: by which it may grow.
    """
    size = sum(one.size for one in after)
    told = f"{size / MIB:.1f} MiB in {len(after)} layers"
    if before is None:
        return Finding(check="size", seen=f"{told}; nothing to compare with: {against}")
    base = sum(one.size for one in before)
    percent = 100 * (size - base) / base if base else 0.0
    seen = f"{told}, {percent:+.1f} % against {against}"
    if percent <= most_percent:
        return Finding(check="size", seen=seen)
    steps = grown(before, after)
    listed = "; ".join(f"{more / MIB:+.1f} MiB {step[:SHOWN]}" for step, more in steps[:MOST_SHOWN])
    return judged(
        "size",
        f"{seen}, more than {most_percent:g} %: {listed}",
        holds=False,
        remedy="make these layers smaller, or raise image.max_growth_percent",
    )


def _counted(layers: Sequence[Layer]) -> list[tuple[tuple[str, int], int]]:
    seen: Counter[str] = Counter()
    counted = []
    for one in layers:
        counted.append(((one.step, seen[one.step]), one.size))
        seen[one.step] += 1
    return counted
