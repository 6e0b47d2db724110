"""The shell steps of an image's build that are ours; pure.

While a step runs, a server on loopback (see ci.image.pantry) holds what the build is given besides its
context: package files, certificates, package indexes. $FTP_PROXY has its address, because builders keep that
variable, alone with its kind, out of an image's history and of the key of their cache.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ci.image.resolved import ResolvedFile

VENV = "/opt/spyre/venv"
SHELL = ("/bin/bash", "-euo", "pipefail", "-c")
# Gives settings of the build to this step alone; without a pantry it does nothing.
SETTINGS = (
    'if [ -n "${FTP_PROXY:-}" ]; then '
    '__host=${FTP_PROXY%%/*} __key=${FTP_PROXY#*/}; exec 9<>"/dev/tcp/${__host%%:*}/${__host##*:}"; '
    "printf 'GET /%s/settings HTTP/1.0\\r\\n\\r\\n' \"$__key\" >&9; "
    "eval \"$(sed '1,/^\\r$/d' <&9)\"; exec 9>&-; fi"
)
PREPARE = 'mkdir -p "$DESTDIR" "$WHEELS"'
# Into the folder that is copied, by the interpreter that will run it: scripts name that one.
INSTALL_WHEELS = (
    'shopt -s nullglob; found=("$WHEELS"/*.whl); if [ "${#found[@]}" -gt 0 ]; then '
    'pip install --no-deps --no-index --no-cache-dir --root "$DESTDIR" "${found[@]}"; fi'
)


def with_settings(step: str) -> str:
    """A component's step, which finds proxies, certificates and package indexes as ours do."""
    return f"{SETTINGS}\n{step}"


def without_settings(script: str) -> str:
    """A script as people would write it."""
    return script.removeprefix(SETTINGS).lstrip(";\n ")


def install_packages(manager: str, packages: Sequence[str]) -> str:
    """Install packages of the distribution, and leave no lists and caches.

    Args:
        manager: apt or dnf.
        packages: names; none: nothing is done.
    """
    if not packages:
        return ":"
    names = " ".join(shlex.quote(name) for name in sorted(set(packages)))
    if manager == "dnf":
        return f"{SETTINGS}; dnf install -y --setopt=install_weak_deps=False {names}; dnf clean all"
    return (
        f"{SETTINGS}; export DEBIAN_FRONTEND=noninteractive; apt-get update; "
        f"apt-get install -y --no-install-recommends {names}; apt-get clean; rm -rf /var/lib/apt/lists/*"
    )


def make_venv(python: str, version: str | None = None) -> str:
    """Make the environment Python packages go into.

    Args:
        python: the base's interpreter.
        version: the interpreter has to be of; None: any.
    """
    make = f"{shlex.quote(python)} -m venv {VENV}"
    if version is None:
        return make
    check = (
        f"import sys; said = '{version}'; there = '%d.%d' % sys.version_info[:2]; "
        "sys.exit(there != said and f'the base has Python {there}, and base.python_version is {said}')"
    )
    return f"{shlex.quote(python)} -c {shlex.quote(check)}; {make}"


def install_python(requirements: Sequence[str]) -> str:
    """Install Python packages from the index of the build's settings."""
    names = " ".join(shlex.quote(name) for name in requirements)
    return f"{SETTINGS}; pip install --no-cache-dir --no-compile {names}"


def install_files(manager: str, files: Sequence[ResolvedFile]) -> str:
    """Fetch package files from the pantry, compare their hashes, install them, and keep none of them."""
    fetch = [
        f'python3 -c {shlex.quote(_FETCH)} "http://$FTP_PROXY/files/{one.sha256}" '
        f"{shlex.quote(one.path.rpartition('/')[2])} {one.sha256}"
        for one in files
    ]
    install = [
        line
        for suffix, line in (
            (".whl", "pip install --no-cache-dir --no-compile ./*.whl"),
            (".deb", _INSTALL_DEBS),
            (".rpm", _INSTALL_RPMS if manager == "dnf" else "rpm --install ./*.rpm"),
        )
        if any(one.path.endswith(suffix) for one in files)
    ]
    return "; ".join([SETTINGS, 'cd "$(mktemp -d)"', *fetch, *install, 'rm -rf "$PWD"'])


def make_user(number: int) -> str:
    """Make the user an image runs as, in group 0, as OpenShift wants it, with a home the group can write."""
    return (
        f"printf 'spyre:x:{number}:0::/opt/spyre/home:/bin/bash\\n' >> /etc/passwd; "
        f"install -d -m 0775 -o {number} -g 0 /opt/spyre/home"
    )


_INSTALL_DEBS = (
    "apt-get update; apt-get install -y --no-install-recommends ./*.deb; rm -rf /var/lib/apt/lists/*"
)
_INSTALL_RPMS = "dnf install -y ./*.rpm; dnf clean all"
_FETCH = (
    "import hashlib, sys, urllib.request as u; "
    "d = u.build_opener(u.ProxyHandler({})).open(sys.argv[1], timeout=600).read(); "
    "assert hashlib.sha256(d).hexdigest() == sys.argv[3], 'another file: ' + sys.argv[2]; "
    "open(sys.argv[2], 'wb').write(d)"
)
