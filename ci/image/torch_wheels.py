"""Which wheel of torch an index has: pip says, for the image's Python and platform and not for those here."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping

from ci.core.addresses import without_secrets
from ci.core.commands import run_command
from ci.core.errors import CommandError, MissingInputError, SpyreCiError
from ci.image.model import Platform

# An index that does not describe its wheels apart gives the whole wheel, some 200 MB.
TIMEOUT_S = 900
# Of C libraries that bases have, the newest first: Red Hat 7 to 9 and what came between.
_GLIBC = range(34, 16, -1)
_MACHINES: Mapping[Platform, str] = {
    "linux/amd64": "x86_64",
    "linux/ppc64le": "ppc64le",
    "linux/s390x": "s390x",
}
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_SHOWN = 8


def find_wheel(
    index: str, version: str | None, *, python: str, platform: Platform, environ: Mapping[str, str]
) -> tuple[str, str]:
    """The wheel of torch that pip would install from an index: its version, and SHA-256 where it is told.

    Args:
        index: its address.
        version: of a release; None: the newest, nightly ones too.
        python: of the image, such as 3.12.
        platform: of the image.
        environ: pip's: proxies, certificates, credentials.

    Raises:
        MissingInputError: the index has no such wheel.
        CommandError: the index cannot be reached, or pip is not found.
    """
    with tempfile.TemporaryDirectory(prefix="spyre-ci-pip-") as folder:
        words = [*arguments(version, python=python, platform=platform), "--target", folder]
        given = environment(index, environ, empty=folder)
        try:
            report = run_command([sys.executable, "-m", "pip", *words], timeout_s=TIMEOUT_S, env=given)
        except CommandError as error:
            wanted = f"torch {version}" if version else "wheel of torch"
            raise refusal(error.what, index, f"{wanted} for Python {python} on {platform}") from None
    return wheel_of(report, index)


def environment(index: str, environ: Mapping[str, str], *, empty: str) -> dict[str, str]:
    """The environment of pip: the wheel comes from the one index, whatever other places pip's settings name.

    Variables win over pip's own files of settings, which may hold proxies and certificates and so are read;
    one that is empty wins over nothing, so constraints are those of an empty file.

    Args:
        index: its address.
        environ: whose proxies, certificates and credentials stay.
        empty: an empty folder.
    """
    ours = {"PIP_INDEX_URL": index, "PIP_EXTRA_INDEX_URL": index, "PIP_FIND_LINKS": empty}
    return {**environ, **ours, "PIP_CONSTRAINT": os.devnull, "PIP_NO_INDEX": "0", "LC_ALL": "C"}


def arguments(version: str | None, *, python: str, platform: Platform) -> list[str]:
    """What pip is asked."""
    machine = _MACHINES[platform]
    tags = [*(f"manylinux_2_{minor}_{machine}" for minor in _GLIBC), f"manylinux2014_{machine}"]
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--no-deps"]
    words += ["--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--retries=2"]
    words += ["--python-version", python, "--implementation", "cp", "--abi", f"cp{python.replace('.', '')}"]
    words += [f"--platform={tag}" for tag in (*tags, f"linux_{machine}")]
    return [*words, f"torch=={version}"] if version else [*words, "--pre", "torch"]


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


def refusal(said: str, index: str, wanted: str) -> SpyreCiError:
    """What pip said, as the user's error it is.

    Args:
        said: by pip.
        index: that it asked.
        wanted: the wheel, as it is told.
    """
    found = _VERSIONS.search(said)
    lines = [line.strip(" |") for line in without_secrets(said).splitlines() if line.strip(" |")]
    broken = [line for line in lines if "connection broken" in line]
    if found is None or broken:
        return CommandError(
            f"pip cannot look up torch: {[*broken, lines[-1]][0][:300]}",
            where=index,
            remedy="check pip, the index, proxies (HTTPS_PROXY) and certificates (PIP_CERT)",
        )
    others = [one for one in found[1].split(", ") if one != "none"]
    there = f"it has {', '.join(others[-_SHOWN:])}" if others else "it has none for this Python and platform"
    return MissingInputError(
        f"the index has no {wanted}: {there}",
        where=index,
        remedy="choose another version, index, base.python_version or platform",
    )
