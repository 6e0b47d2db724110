"""What is in an image, told by its own interpreter: this file runs in a container, with nothing of ours.

Prints one line of JSON: Python packages, packages of the distribution, and files whose rights are unusual.
"""

import json
import os
import stat
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

TIMEOUT_S = 120
# Kept by the kernel or the engine, or meant to be written by all.
BESIDE = ("/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/run")  # noqa: S108  # named to be left out
ASK = {
    "deb": ["dpkg-query", "-W", "-f", "${binary:Package}\t${Version}\t${Architecture}\n"],
    "rpm": ["rpm", "-qa", "--queryformat", "%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\t%{ARCH}\n"],
}
OWNER = {"deb": ["dpkg-query", "-S"], "rpm": ["rpm", "-qf"]}


def python_packages() -> list[list[str]]:
    """Name and version of every Python package, by name."""
    found = {(one.metadata["Name"], one.version) for one in metadata.distributions() if one.metadata["Name"]}
    return sorted([name, version] for name, version in found)


def distribution() -> tuple[str, str, list[list[str]]]:
    """The kind of packages, the distribution, and name, version and architecture of each."""
    for kind, command in ASK.items():
        try:
            told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        except (OSError, subprocess.SubprocessError):
            continue
        rows = [line.split("\t") for line in told.stdout.splitlines()]
        return kind, os_release().get("ID", ""), sorted([row[0].partition(":")[0], *row[1:]] for row in rows)
    return "", "", []


def os_release() -> dict[str, str]:
    """What /etc/os-release says."""
    try:
        with Path("/etc/os-release").open(encoding="utf-8") as file:
            pairs = [line.strip().partition("=") for line in file if "=" in line]
    except OSError:
        return {}
    return {name: value.strip("\"'") for name, _, value in pairs}


def unusual(top: str) -> tuple[list[str], list[str]]:
    """Files that give another's rights to who starts them, and what everybody can write."""
    powerful, writable = [], []
    for folder, folders, names in os.walk(top):
        folders[:] = [one for one in folders if str(Path(folder, one)) not in BESIDE]
        for name in [*folders, *names]:
            path = f"{folder.rstrip('/')}/{name}"
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                powerful.append(path)
            sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
            if mode & stat.S_IWOTH and not stat.S_ISLNK(mode) and not sticky:
                writable.append(path)
    return sorted(powerful), sorted(writable)


def unowned(kind: str, paths: list[str]) -> list[str]:
    """Those of no package of the distribution."""
    return [path for path in paths if not owned(kind, path)]


def owned(kind: str, path: str) -> bool:
    """Whether a package of the distribution has the file, perhaps by the name before /usr took it in."""
    names = [path, path.removeprefix("/usr")] if path.startswith("/usr/") else [path]
    for name in names if kind in OWNER else []:
        done = subprocess.run([*OWNER[kind], name], capture_output=True, check=False, timeout=TIMEOUT_S)
        if done.returncode == 0:
            return True
    return False


def main() -> None:
    """Print all of it."""
    kind, name, packages = distribution()
    powerful, writable = unusual("/")
    told: dict[str, Any] = {
        "python": python_packages(),
        "kind": kind,
        "distribution": name,
        "packages": packages,
        "powerful": unowned(kind, powerful),
        "writable": writable,
    }
    print(json.dumps(told, indent=0))  # noqa: T201  # read by ci.image.verify.inventory


if __name__ == "__main__":
    main()
