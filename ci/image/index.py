"""Which wheel of torch a package index has for an image: asked of pip, on the machine that builds."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel that is there.

    Attributes:
        version: exact, with its local part, such as 2.14.0.dev20261101+cpu.
        sha256: in hex; empty where neither the index nor pip tells it.
    """

    version: str
    sha256: str


def find_wheel(wanted: Wanted, *, environ: Mapping[str, str]) -> Wheel:
    """The wheel of torch that pip would install from an index.

    Args:
        wanted: what is looked for.
        environ: pip's: proxies, certificates, credentials.

    Raises:
        MissingInputError: the index has no such wheel.
        CommandError: the index cannot be reached, or pip is not there.
    """
    with tempfile.TemporaryDirectory(prefix="spyre-ci-pip-") as folder:
        try:
            said = run_command(
                [sys.executable, "-m", "pip", *arguments(wanted), "--target", folder],
                timeout_s=TIMEOUT_S,
                env=environment(wanted, environ, empty=folder),
            )
        except CommandError as error:
            raise refusal(wanted, error) from None
    return wheel_of(said, wanted.index)


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
    name = f"torch=={wanted.version}" if wanted.version else "torch"
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--no-deps"]
    words += ["--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--retries=2"]
    words += ["--python-version", wanted.python, "--implementation", "cp"]
    words += ["--abi", f"cp{wanted.python.replace('.', '')}"]
    words += [word for one in platform_tags(wanted.platform) for word in ("--platform", one)]
    return [*words, *([] if wanted.version else ["--pre"]), name]


def platform_tags(platform: Platform) -> list[str]:
    """The tags of wheels that run there, the newest C library first."""
    machine = _MACHINES[platform]
    named = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC]
    return [*named, f"manylinux2014_{machine}", f"linux_{machine}"]


def wheel_of(report: str, index: str) -> Wheel:
    """The wheel of pip's installation report.

    Raises:
        CommandError: it is no report in the form that is known.
    """
    try:
        (one,) = json.loads(report)["install"]
        hashes = one["download_info"].get("archive_info", {}).get("hashes", {})
        return Wheel(version=str(one["metadata"]["version"]), sha256=str(hashes.get("sha256", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(
            f"pip's report of {index} cannot be read: {error!r}",
            remedy="update pip in the environment of spyre-ci to 23.0 or newer",
        ) from None


def refusal(wanted: Wanted, error: CommandError) -> SpyreCiError:
    """What pip said, as the user's error it is."""
    said = error.what
    if "No module named pip" in said:
        return CommandError(
            "pip, which looks up wheels, is not installed here",
            remedy=f"{sys.executable} -m ensurepip, or install pip into the environment of spyre-ci",
        )
    if "took longer" in said or "connection broken by" in said or "Could not fetch URL" in said:
        lines = [line.strip(" |") for line in said.splitlines() if "connection broken" in line] or [said]
        return CommandError(
            f"the package index cannot be reached: {without_secrets(lines[-1])[:300]}",
            where=wanted.index,
            remedy="check its address, proxies (HTTPS_PROXY) and certificates (PIP_CERT)",
        )
    found = _VERSIONS.search(said)
    if found is None:
        return CommandError(without_secrets(said), where=wanted.index)
    others = [one for one in found[1].split(", ") if one != "none"]
    name = f"torch {wanted.version}" if wanted.version else "wheel of torch"
    there = f"it has {', '.join(others[-_SHOWN:])}" if others else "it has none for these"
    return MissingInputError(
        f"the index has no {name} for Python {wanted.python} on {wanted.platform}: {there}",
        where=wanted.index,
        remedy="choose another version, index, base.python_version or platform",
    )
