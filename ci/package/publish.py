"""Publish a release to an index: compared before, continued where it stopped, installed from there after."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from packaging.tags import sys_tags

from ci.core.errors import EXIT_TEST_FAILED, CommandError, SettingsError, SpyreCiError, UsageError
from ci.core.withheld import without_job_secrets
from ci.package.artifacts import Artifact
from ci.package.credentials import Credentials, past_proxies
from ci.package.environment import Environment, passing
from ci.package.gate import Release
from ci.package.index_client import Comparison, IndexAwayError, IndexClient, upload_order
from ci.package.installation import import_installed
from ci.package.upload import Answer, UnfinishedError, refusal, refuse_changed, upload_file
from test_selection.files import write_json

State = Literal["uploaded", "there", "absent", "unsure"]
_STATES: tuple[State, ...] = ("uploaded", "there", "absent", "unsure")
_LONGEST_PAUSE_S = 30.0
_DOWNLOAD_S = 3600
_CONTINUES = "repeat the command when the index is available: it continues where it stopped"


class NotInstallableError(SpyreCiError):
    """What is published does not work where it is installed."""

    exit_code = EXIT_TEST_FAILED


@dataclass(slots=True, kw_only=True)
class Publisher:
    """Publishes a release to an index.

    Attributes:
        client: of the index.
        release: what is published.
        records: folder of what is noted.
        environ: this process's.
        constraints: requirements that hold wherever something is installed.
        timeout_s: seconds one upload may take, and within which the index must show all.
        say: takes a line for people.
        states: of files by name: there before, uploaded by this command, or unsure: an upload was begun, and
            the index could not be asked since; the others are absent.
    """

    client: IndexClient
    release: Release
    records: Path
    environ: Mapping[str, str]
    constraints: Sequence[str]
    timeout_s: float
    say: Callable[[str], None]
    states: dict[str, State] = field(default_factory=dict)

    def compare(self, *, other_preview: bool = False) -> Comparison:
        """Compare the release with what the index has, before anything is uploaded.

        Args:
            other_preview: whether a development version that is there as another build is well, too.

        Raises:
            TakenError: the version is there with other bytes.
            UsageError: another build of what is no development version was to be well.
            IndexAwayError: the index is away.
            SettingsError: it shows nothing without a login.
        """
        version = self.release.version
        if other_preview and not version.is_devrelease:
            raise UsageError(
                f"{version} is not a preview: a release must not have two builds",
                where="--skip-existing-version",
                remedy="omit the flag",
            )
        try:
            found = self.client.compare(self.release.artifacts)
        except IndexAwayError as error:
            what = f"{error.what}; nothing was published"
            raise IndexAwayError(what, where=error.where, remedy=error.remedy) from error
        if not (other_preview and found.taken and not found.absent):
            found.refuse_taken(self.client.name)
        self.states.update({one.filename: "there" for one in found.there})
        if found.taken:
            self.say(f"the index already has another build of the preview {version}: nothing to upload")
        elif found.there:
            rest = "nothing to upload" if not found.absent else f"{len(found.absent)} to upload"
            of = f"{len(found.there)} of {len(self.release.artifacts)}"
            self.say(f"{of} files are already on the index with the same contents: {rest}")
        return found

    def publish(self, found: Comparison, credentials: Callable[[], Credentials] | None) -> dict[str, Any]:
        """Upload what is absent, and install the release from the index; what was done, for machines.

        Args:
            found: what the index has of it.
            credentials: find what allows an upload; None: somebody else has uploaded, and the index shows it
                soon.

        Raises:
            SpyreCiError: nobody may upload, or it is not finished.
        """
        if found.taken:
            return self._note(skipped=True)
        if found.absent and credentials is not None:
            self.upload(found.absent, credentials())
        # Should the rest fail, nobody is to read that it once did not.
        self._note()
        self._wait_until_shown()
        self.states.update(dict.fromkeys(self._names("absent"), "there"))
        return self._note(installed=self._install(), complete=True)

    def would(self, found: Comparison) -> dict[str, Any]:
        """What `publish` would upload, for machines."""
        for one in found.absent:
            self.say(f"would upload {one.filename} (sha256 {one.sha256}) to {self.client.index.upload}")
        return self._content()

    def upload(self, absent: Sequence[Artifact], credentials: Credentials) -> None:
        """Upload files, and keep what became of each in `states`.

        Raises:
            TakenError: the index has other bytes of one by now.
            SettingsError: it does not know the token, or it may not upload this.
            UploadRefusedError: it does not take a file, or one was changed since it was looked at.
            UnfinishedError: it is away, or did not keep a file.
            KeyboardInterrupt: Ctrl-C; what was published is said before.
        """
        for one in absent:
            refuse_changed(one)
            self.say(f"uploading {one.filename} to {self.client.name}")
            self.states[one.filename] = "unsure"
            self._note()  # a process can be killed at any time
            try:
                answer = upload_file(
                    one, self.client.index.upload, credentials, environ=self.environ, timeout_s=self.timeout_s
                )
                # A page is a copy that may come later: it is waited for when all is uploaded.
                self.states[one.filename] = "uploaded"
                if answer.code != 0:
                    self._ask_after(one, answer)
            except KeyboardInterrupt:
                self.say(f"interrupted: {self.line()}; repeat the command to continue")
                raise
            finally:
                self._note()
        self.say(self.line())

    def _ask_after(self, one: Artifact, answer: Answer) -> None:
        """Ask the index for a file that twine says it could not upload."""
        self.states[one.filename] = "unsure"
        try:
            found = self.client.compare([one])
        except (IndexAwayError, SettingsError) as error:
            what = f"the index no longer answers: {error.what}; {self.line()}"
            raise UnfinishedError(what, where=error.where, remedy=_CONTINUES) from error
        if found.there:
            self.states[one.filename] = "uploaded"
            said = answer.status or "nothing"
            self.say(f"the index answered {said}, but it has {one.filename}")
            return
        if found.taken or not answer.doubtful:
            del self.states[one.filename]
        found.refuse_taken(f"{self.client.name}, where another upload is running; {self.line()}")
        status = f" ({answer.status})" if answer.status else ""
        what = f"{one.filename} was not accepted{status}; {self.line()}"
        raise refusal(answer, what, where=f"{self.client.name} ({self.client.index.upload})")

    def _wait_until_shown(self) -> None:
        """Wait until the index shows every file with its bytes."""
        end, pause = time.monotonic() + self.timeout_s, 1.0
        while True:
            try:
                found = self.client.compare(self.release.artifacts)
            except (IndexAwayError, SettingsError) as error:
                missing = error.what
            else:
                found.refuse_taken(self.client.name)
                if not found.absent:
                    return
                missing = f"not listed: {', '.join(one.filename for one in found.absent)}"
            if time.monotonic() + pause > end:
                raise self._unfinished(
                    f"everything was uploaded, but after {self.timeout_s:g} s the index does not list all of "
                    f"it: {missing}"
                )
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _install(self) -> list[str]:
        """Install a wheel from the index into a clean environment and import it; its name."""
        wheels = [one for one in self.release.artifacts if one.kind == "wheel"]
        if all(one.tags.isdisjoint(sys_tags()) for one in wheels):
            self.say("no wheel supports this Python and platform: none was installed")
            return []
        try:
            with (
                tempfile.TemporaryDirectory(prefix="spyre-ci-published-") as folder,
                passing(without_job_secrets(self.environ), constraints=self.constraints) as env,
            ):
                taken = self._download(env, wheels, Path(folder))
                # What it depends on comes from where the user's packages come from: on an index of previews
                # anybody may have taken the name.
                env.install([taken])
                imported = self._imported(env, taken.name)
        except CommandError as error:
            raise self._unfinished(f"pip could not install it: {error.what}") from error
        self.say(f"{taken.name} was installed from {self.client.name}; imported: {imported}")
        return [taken.name]

    def _download(self, env: Environment, wheels: Sequence[Artifact], folder: Path) -> Path:
        """What pip takes from this index and no other place, and of no other bytes than ours."""
        simple = self.client.index.simple
        # No settings file of pip's names other places; certificates are those we got here with.
        alone = past_proxies({**env.variables, "PIP_CONFIG_FILE": os.devnull}, simple)
        bundle = self.environ.get("PIP_CERT") or self.environ.get("REQUESTS_CA_BUNDLE")
        hashes = " ".join(f"--hash=sha256:{one.sha256}" for one in wheels)
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{wheels[0].name}=={self.release.version} {hashes}\n", encoding="utf-8")
        words: list[str | Path] = [
            "-m", "pip", "download", "--isolated", "--quiet", "--no-input", "--no-deps", "--no-cache-dir",
            "--only-binary", ":all:", "--disable-pip-version-check", "--index-url", simple, "--dest", folder,
            "--require-hashes", "--requirement", wanted, *(["--cert", bundle] if bundle else []),
        ]  # fmt: skip
        replace(env, variables=alone).run(words, timeout_s=_DOWNLOAD_S)
        return next(folder.glob("*.whl"))

    def _imported(self, env: Environment, name: str) -> str:
        try:
            return import_installed(env, self.release.project)
        except CommandError as error:
            raise NotInstallableError(
                f"{name} is published, but cannot be imported: {error.what}",
                where=self.client.name,
                remedy="fix it and raise the version; if the index allows it, yank this one",
            ) from error

    def _names(self, *states: State) -> list[str]:
        """Files in one of these states, in the order they are uploaded in."""
        known = [one.filename for one in upload_order(self.release.artifacts)]
        return [name for name in known if self.states.get(name, "absent") in states]

    def line(self) -> str:
        """Which files are published and which are not."""
        published, unsure = self._names("there", "uploaded"), self._names("unsure")
        if not published and not unsure:
            return "nothing was published"
        of = f"{len(published)} of {len(self.release.artifacts)} files {_is(published)} published"
        parts = [f"{of}: {', '.join(published)}" if published else of]
        if missing := self._names("absent"):
            parts.append(f"not published: {', '.join(missing)}")
        if unsure:
            parts.append(f"unknown whether published: {', '.join(unsure)}")
        return "; ".join(parts)

    def _note(self, **more: Any) -> dict[str, Any]:
        content = {**self._content(), **more}
        write_json(self.records / f"published-{self.client.name}.json", "package-published", content)
        return content

    def _content(self) -> dict[str, Any]:
        return {
            "index": self.client.name,
            "simple": self.client.index.simple,
            "project": self.release.project,
            "version": str(self.release.version),
            "commit": self.release.commit,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            # Twine's word and a page are not what users get: it is complete once it was installed from there.
            "complete": False,
            "files": [
                {**one.as_json(), "state": self.states.get(one.filename, "absent")}
                for one in upload_order(self.release.artifacts)
            ],
            "state": {state: self._names(state) for state in _STATES},
            "installed": [],
        }

    def _unfinished(self, what: str) -> UnfinishedError:
        return UnfinishedError(
            what,
            where=f"{self.client.name} ({self.client.index.simple})",
            remedy="repeat the command: it checks again and uploads nothing twice",
        )


def _is(names: Sequence[object]) -> str:
    return "is" if len(names) == 1 else "are"
