"""Which wheel of torch an index has: pip says, for the image's Python and platform and not for those here."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from ci.core.addresses import without_secrets
from ci.core.errors import CommandError, MissingInputError, SpyreCiError
from ci.core.process import run_command
from ci.image.model import Platform

# An index that does not describe its wheels apart gives the whole wheel, some 200 MB.
TIMEOUT_S = 900
# Of C libraries that bases have: Red Hat 7 to 9 and what came between.
_GLIBC = range(34, 16, -1)
_MACHINES: Mapping[Platform, str] = {
    "linux/amd64": "x86_64",
    "linux/ppc64le": "ppc64le",
    "linux/s390x": "s390x",
}
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wheel that is looked for.

    Attributes:
        index: its address.
        version: of a release; None: the newest, nightly ones too.
        python: of the image, such as 3.12.
        platform: of the image.
    """

    index: str
    version: str | None
    python: str
    platform: Platform


def find_wheel(wanted: Wanted, *, environ: Mapping[str, str]) -> tuple[str, str]:
    """The wheel of torch that pip would install from an index: its version, and SHA-256 where it is told.

    Args:
        wanted: what is looked for.
        environ: pip's: proxies, certificates, credentials.

    Raises:
        MissingInputError: the index has no such wheel.
        CommandError: the index cannot be reached, or pip is not there.
    """
    with tempfile.TemporaryDirectory(prefix="spyre-ci-pip-") as folder:
        try:
            report = run_command(
                [sys.executable, "-m", "pip", *arguments(wanted), "--target", folder],
                timeout_s=TIMEOUT_S,
                env=environment(wanted, environ, empty=folder),
            )
        except CommandError as error:
            raise refusal(wanted, error) from None
    return wheel_of(report, wanted.index)


def environment(wanted: Wanted, environ: Mapping[str, str], *, empty: str) -> dict[str, str]:
    """The environment of pip: the wheel comes from the one index, whatever other places pip's settings name.

    Variables win over pip's own files of settings, which may hold proxies and certificates and so are read;
    one that is empty wins over nothing.

    Args:
        wanted: names the index.
        environ: whose proxies, certificates and credentials stay.
        empty: an empty folder.
    """
    ours = {"PIP_INDEX_URL": wanted.index, "PIP_EXTRA_INDEX_URL": wanted.index, "PIP_FIND_LINKS": empty}
    kept = {name: text for name, text in environ.items() if name != "PIP_CONSTRAINT"}
    return {**kept, **ours, "PIP_NO_INDEX": "0", "LC_ALL": "C"}


def arguments(wanted: Wanted) -> list[str]:
    """What pip is asked."""
    machine = _MACHINES[wanted.platform]
    # The newest C library first.
    tags = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC]
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--no-deps"]
    words += ["--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--retries=2"]
    words += ["--python-version", wanted.python, "--implementation", "cp"]
    words += ["--abi", f"cp{wanted.python.replace('.', '')}"]
    words += [f"--platform={one}" for one in (*tags, f"manylinux2014_{machine}", f"linux_{machine}")]
    return [*words, f"torch=={wanted.version}"] if wanted.version else [*words, "--pre", "torch"]


def wheel_of(report: str, index: str) -> tuple[str, str]:
    """Version and SHA-256 of the wheel in pip's installation report.

    Raises:
        CommandError: it is no report in the form that is known.
    """
    try:
        (one,) = json.loads(report)["install"]
        hashes = one["download_info"].get("archive_info", {}).get("hashes", {})
        return str(one["metadata"]["version"]), str(hashes.get("sha256", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(
            f"pip's report of {index} cannot be read: {error!r}",
            remedy="update pip in the environment of spyre-ci to 23.0 or newer",
        ) from None


def refusal(wanted: Wanted, error: CommandError) -> SpyreCiError:
    """What pip said, as the user's error it is."""
    said = without_secrets(error.what)
    found = _VERSIONS.search(said)
    lines = [line.strip(" |") for line in said.splitlines() if line.strip(" |")]
    if found is None or any("connection broken" in line for line in lines):
        why = next((line for line in lines if "broken" in line), lines[-1])
        return CommandError(
            f"pip cannot look up torch: {why[:300]}",
            where=wanted.index,
            remedy="check that pip is here, the index, proxies (HTTPS_PROXY) and certificates (PIP_CERT)",
        )
    others = [one for one in found[1].split(", ") if one != "none"]
    name = f"torch {wanted.version}" if wanted.version else "wheel of torch"
    there = f"it has {', '.join(others[-_SHOWN:])}" if others else "it has none for these"
    return MissingInputError(
        f"the index has no {name} for Python {wanted.python} on {wanted.platform}: {there}",
        where=wanted.index,
        remedy="choose another version, index, base.python_version or platform",
    )
