"""After an upload: the index shows every file, gives the same bytes, and pip installs what it gives."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.tags import sys_tags

from ci.core.errors import EXIT_TEST_FAILED, CommandError, SettingsError, SpyreCiError
from ci.package.account import UnfinishedError
from ci.package.artifacts import Artifact, contents_of, sha256_of
from ci.package.asking import Asker, IndexAwayError, fetch
from ci.package.credentials import past_proxies, without_secrets
from ci.package.environment import Environment, passing
from ci.package.listing import Listed, OtherBytesError, decide, key_of, refuse_taken
from ci.package.text import without_index_secrets

_LONGEST_PAUSE_S = 30.0
_DOWNLOAD_S = 3600
_IMPORT_S = 600
_IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


class NotInstallableError(SpyreCiError):
    """What is published does not work where it is installed."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Prover:
    """What looks whether users get what was published.

    Attributes:
        asker: the index.
        environ: this process's.
        constraints: that hold wherever something is installed.
        timeout_s: seconds within which the index must show everything.
        say: takes a line for people.
    """

    asker: Asker
    environ: Mapping[str, str]
    constraints: Sequence[str]
    timeout_s: float
    say: Callable[[str], None]

    def prove(self, artifacts: Sequence[Artifact]) -> list[str]:
        """Wait, download, compare, install and import; the files that were installed.

        Raises:
            UnfinishedError: the index does not show or give a file, or pip could not install it.
            OtherBytesError: other bytes came.
            NotInstallableError: what was installed cannot be imported.
        """
        listed = self.shown(artifacts)
        with tempfile.TemporaryDirectory(prefix="spyre-ci-published-") as folder:
            for one in artifacts:
                try:
                    fetch(self.asker, listed[one.filename], sha256=one.sha256, folder=Path(folder))
                except IndexAwayError as error:
                    raise self._unfinished(f"it does not give what it shows: {error.what}") from error
            self.say(f"{self.asker.name} gives the same bytes of all {len(artifacts)} files")
            return self._installed(artifacts, Path(folder))

    def shown(self, artifacts: Sequence[Artifact]) -> dict[str, Listed]:
        """Every file as the index shows it, by our name of it, once it shows all.

        Raises:
            UnfinishedError: it does not within the time.
            TakenError: it shows other bytes.
        """
        end, pause = self.asker.clock() + self.timeout_s, 1.0
        while True:
            missing = "it cannot be asked"
            try:
                found = self.asker.with_hashes(artifacts, self.asker.listed(artifacts[0].name, attempts=1))
                decision = decide(artifacts, found)
                refuse_taken(decision, self.asker.name)
                if not decision.absent:
                    known = {key_of(one.filename): one for one in found}
                    return {one.filename: known[key_of(one.filename)] for one in artifacts}
                missing = f"not shown: {', '.join(one.filename for one in decision.absent)}"
            except (IndexAwayError, SettingsError) as error:
                missing = error.what
            if self.asker.clock() + pause > end:
                raise self._unfinished(
                    f"everything was uploaded, and after {self.timeout_s:g} s the index does not show all: "
                    f"{missing}"
                )
            self.asker.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _installed(self, artifacts: Sequence[Artifact], folder: Path) -> list[str]:
        fitting = [one for one in artifacts if one.kind == "wheel" and not one.tags.isdisjoint(sys_tags())]
        if not fitting:
            self.say("no wheel is for this Python and platform: none was installed")
            return []
        environ = without_secrets(self.environ)
        try:
            with passing(environ, constraints=self.constraints) as env:
                taken = self._by_pip(env, fitting[0], folder)
                one = next((one for one in fitting if one.filename == taken.name), None)
                if one is None:
                    self.say(
                        f"pip takes {taken.name}, which is of another build: {fitting[0].filename} is tried"
                    )
                    one, taken = fitting[0], folder / fitting[0].filename
                if (found := sha256_of(taken)) != one.sha256:
                    raise OtherBytesError(
                        f"pip was given other bytes of {one.filename}: sha256 {found}, not {one.sha256}",
                        where=self.asker.index.simple,
                        remedy="find out who changed it before anybody installs it",
                    )
                # What it depends on comes from where the user's packages come from: on an index of previews
                # anybody may have taken the name.
                env.install([taken])
                self._import(env, one)
        except CommandError as error:
            said = without_index_secrets(error.what, environ)
            raise self._unfinished(f"pip could not install it: {said}") from error
        self.say(f"{one.filename} was installed from {self.asker.name} and imported")
        return [one.filename]

    def _by_pip(self, env: Environment, one: Artifact, folder: Path) -> Path:
        """What pip takes for this version, of this index and no other place."""
        into = folder / "pip"
        into.mkdir()
        alone = replace(env, variables=index_alone(env.variables, self.asker.index.simple))
        alone.run(
            [
                "-m", "pip", "download", "--quiet", "--no-input", "--no-deps", "--only-binary", ":all:",
                "--no-cache-dir", "--disable-pip-version-check", "--index-url", self.asker.index.simple,
                "--dest", str(into), f"{one.name}=={one.version}",
            ],
            timeout_s=_DOWNLOAD_S,
        )  # fmt: skip
        return next(into.iterdir())

    def _import(self, env: Environment, one: Artifact) -> None:
        names = top_level([member.name for member in contents_of(one).members])
        try:
            env.run(["-I", "-c", _IMPORT, *names], timeout_s=_IMPORT_S)
        except CommandError as error:
            raise NotInstallableError(
                f"{one.filename} is published, and {', '.join(names)} cannot be imported: {error.what}",
                where=self.asker.name,
                remedy="mend it and raise the version; where an index lets you, yank this one",
            ) from error

    def _unfinished(self, what: str) -> UnfinishedError:
        return UnfinishedError(
            what,
            where=f"{self.asker.name} ({self.asker.index.simple})",
            remedy="the same command looks again and uploads nothing twice",
        )


def top_level(members: Sequence[str]) -> list[str]:
    """What can be imported of a wheel, by the files in it."""
    found = set()
    for name in members:
        first, _, rest = name.partition("/")
        if rest and rest.endswith((".py", ".so", ".pyd")) and first.isidentifier():
            found.add(first)
        elif not rest and first.endswith((".py", ".so", ".pyd")) and first.partition(".")[0].isidentifier():
            found.add(first.partition(".")[0])
    return sorted(found)


def index_alone(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """The environment in which pip takes files of the index it is told, and of no other place."""
    elsewhere = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CONSTRAINT"}
    made = {key: one for key, one in environ.items() if key not in elsewhere}
    # A settings file of pip's may name other places, and certificates: those are the ones we got here with.
    made["PIP_CONFIG_FILE"] = os.devnull
    if "REQUESTS_CA_BUNDLE" in made:
        made.setdefault("PIP_CERT", made["REQUESTS_CA_BUNDLE"])
    return past_proxies(made, url)
