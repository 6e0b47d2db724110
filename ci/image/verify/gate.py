"""What stands between a build and a push: every check, the SBOM written, an error where one failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import docker

from ci.core.findings import refuse_failed
from ci.image.resolved import ResolvedStack
from ci.image.verify.expected import REVISION_LABEL, Expected, of_labels, of_stack
from ci.image.verify.roles import Patience
from ci.image.verify.sbom import Described, check_library, created_at, sbom_of
from ci.image.verify.size import previous
from ci.image.verify.verify import Demands, Verified, verify
from test_selection.files import atomic_writer


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
