"""Publish a release to an index: compared before, continued where it stopped, installed from there after."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.tags import sys_tags

from ci.core.errors import EXIT_TEST_FAILED, CommandError, SettingsError, SpyreCiError, UsageError
from ci.core.withheld import without_job_secrets
from ci.package.artifacts import Artifact
from ci.package.credentials import Credentials, past_proxies
from ci.package.environment import Environment, passing
from ci.package.index_client import Comparison, IndexAwayError, IndexClient, upload_order
from ci.package.installation import import_installed
from ci.package.text import without_index_secrets
from ci.package.upload import State, UnfinishedError, Uploader, UploadState
from test_selection.files import write_json

KIND = "package-published"
_LONGEST_PAUSE_S = 30.0
_DOWNLOAD_S = 3600


class NotInstallableError(SpyreCiError):
    """What is published does not work where it is installed."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Publishes a release to an index.

    Attributes:
        client: of the index.
        artifacts: files of one release.
        commit: they were built from; empty where nobody knows.
        records: folder of what is noted.
        environ: this process's.
        constraints: requirements that hold wherever something is installed.
        timeout_s: seconds one upload may take, and within which the index must show all.
        say: takes a line for people.
        now: seconds since the epoch.
        sleep: waits some seconds.
    """

    client: IndexClient
    artifacts: Sequence[Artifact]
    commit: str
    records: Path
    environ: Mapping[str, str]
    constraints: Sequence[str]
    timeout_s: float
    say: Callable[[str], None]
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

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
        version = self.artifacts[0].version
        if other_preview and not version.is_devrelease:
            raise UsageError(
                f"{version} is no preview: what is released twice must have the same bytes",
                where="--skip-existing-version",
                remedy="leave the flag out",
            )
        try:
            found = self.client.compare(self.artifacts)
        except IndexAwayError as error:
            what = f"{error.what}; nothing was published"
            raise IndexAwayError(what, where=error.where, remedy=error.remedy) from error
        if not (other_preview and found.taken and not found.absent):
            found.refuse_taken(self.client.name)
        if found.taken:
            self.say(f"a preview {version} is there already, of another build: nothing to upload")
        elif found.there:
            count = len(self.artifacts)
            rest = "nothing to upload" if not found.absent else f"continues with {len(found.absent)}"
            self.say(f"{len(found.there)} of {count} files are there already, with the same bytes: {rest}")
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
        state = self._state(found)
        if found.taken:
            return self._note(state, skipped=True)
        if found.absent and credentials is not None:
            uploader = Uploader(
                client=self.client,
                credentials=credentials(),
                environ=self.environ,
                timeout_s=self.timeout_s,
                say=self.say,
                note=lambda: self._note(state),
            )
            uploader.upload(state)
            self.say(state.line)
        # Should the rest fail, nobody is to read that it once did not.
        self._note(state)
        self.wait_until_shown()
        for name in state.names("absent"):
            state.states[name] = "there"
        return self._note(state, installed=self._install(), complete=True)

    def would(self, found: Comparison) -> dict[str, Any]:
        """What `publish` would upload, for machines."""
        for one in found.absent:
            self.say(f"would upload {one.filename} (sha256 {one.sha256}) to {self.client.index.upload}")
        return self._content(self._state(found))

    def _state(self, found: Comparison) -> UploadState:
        there: dict[str, State] = {one.filename: "there" for one in found.there}
        return UploadState(artifacts=upload_order(self.artifacts), states=there)

    def wait_until_shown(self) -> None:
        """Wait until the index shows every file with its bytes.

        Raises:
            UnfinishedError: it does not within the time.
            TakenError: it shows other bytes.
        """
        end, pause = self.client.clock() + self.timeout_s, 1.0
        while True:
            missing = ""
            try:
                found = self.client.compare(self.artifacts)
            except (IndexAwayError, SettingsError) as error:
                missing = error.what
            else:
                found.refuse_taken(self.client.name)
                if not found.absent:
                    return
                missing = f"not shown: {', '.join(one.filename for one in found.absent)}"
            if self.client.clock() + pause > end:
                raise self._unfinished(
                    f"everything was uploaded, and after {self.timeout_s:g} s the index does not show all: "
                    f"{missing}"
                )
            self.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _install(self) -> list[str]:
        """Install a wheel from the index into a clean environment and import it; its name."""
        wheels = [one for one in self.artifacts if one.kind == "wheel"]
        if all(one.tags.isdisjoint(sys_tags()) for one in wheels):
            self.say("no wheel is for this Python and platform: none was installed")
            return []
        environ = without_job_secrets(self.environ)
        try:
            with (
                tempfile.TemporaryDirectory(prefix="spyre-ci-published-") as folder,
                passing(environ, constraints=self.constraints) as env,
            ):
                taken = self._download(env, wheels, Path(folder))
                # What it depends on comes from where the user's packages come from: on an index of previews
                # anybody may have taken the name.
                env.install([taken])
                imported = self._imported(env, taken.name)
        except CommandError as error:
            said = without_index_secrets(error.what, environ)
            raise self._unfinished(f"pip could not install it: {said}") from error
        self.say(f"{taken.name} was installed from {self.client.name}; imported: {imported}")
        return [taken.name]

    def _download(self, env: Environment, wheels: Sequence[Artifact], folder: Path) -> Path:
        """What pip takes from this index and no other place, and of no other bytes than ours."""
        first, simple = wheels[0], self.client.index.simple
        # No settings file of pip's names other places; certificates are those we got here with.
        alone = past_proxies({**env.variables, "PIP_CONFIG_FILE": os.devnull}, simple)
        bundle = self.environ.get("PIP_CERT") or self.environ.get("REQUESTS_CA_BUNDLE")
        hashes = " ".join(f"--hash=sha256:{one.sha256}" for one in wheels)
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{first.name}=={first.version} {hashes}\n", encoding="utf-8")
        words: list[str | Path] = [
            "-m", "pip", "download", "--isolated", "--quiet", "--no-input", "--no-deps", "--no-cache-dir",
            "--only-binary", ":all:", "--disable-pip-version-check", "--index-url", simple, "--dest", folder,
            "--require-hashes", "--requirement", wanted, *(["--cert", bundle] if bundle else []),
        ]  # fmt: skip
        replace(env, variables=alone).run(words, timeout_s=_DOWNLOAD_S)
        return next(folder.glob("*.whl"))

    def _imported(self, env: Environment, name: str) -> str:
        try:
            return import_installed(env, self.artifacts[0].name)
        except CommandError as error:
            raise NotInstallableError(
                f"{name} is published, and cannot be imported: {error.what}",
                where=self.client.name,
                remedy="mend it and raise the version; where an index lets you, yank this one",
            ) from error

    def _note(self, state: UploadState, **more: Any) -> dict[str, Any]:
        content = {**self._content(state), **more}
        write_json(self.records / f"published-{self.client.name}.json", KIND, content)
        return content

    def _content(self, state: UploadState) -> dict[str, Any]:
        return {
            "index": self.client.name,
            "simple": self.client.index.simple,
            "project": self.artifacts[0].name,
            "version": str(self.artifacts[0].version),
            "commit": self.commit,
            "when": datetime.fromtimestamp(self.now(), UTC).isoformat(timespec="seconds"),
            # Twine's word and a page are not what users get: it is complete once it was installed from there.
            "complete": False,
            **state.as_json(),
            "installed": [],
        }

    def _unfinished(self, what: str) -> UnfinishedError:
        return UnfinishedError(
            what,
            where=f"{self.client.name} ({self.client.index.simple})",
            remedy="the same command looks again and uploads nothing twice",
        )
