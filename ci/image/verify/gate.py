"""What stands between a build and a push: every check, the SBOM written, an error where one failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import docker

from ci.core.findings import Finding, judged, refuse_failed
from ci.image.resolved import ResolvedStack
from ci.image.roles import NAMES
from ci.image.verify import inventory as contents
from ci.image.verify import roles
from ci.image.verify.expected import REVISION_LABEL, Expected, of_labels, of_stack
from ci.image.verify.inventory import Inventory
from ci.image.verify.roles import Patience, check_role
from ci.image.verify.sbom import Described, check_library, created_at, sbom_of
from ci.image.verify.size import judge_size, layers_of, previous
from ci.image.verify.subject import Subject
from test_selection.files import atomic_writer

MOST_SHOWN = 5


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
