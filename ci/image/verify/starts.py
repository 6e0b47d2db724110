"""How an image starts: its user, a root that cannot be written, codes and signals, PyTorch."""

from __future__ import annotations

from typing import Any

from docker.errors import APIError

from ci.core.findings import Finding, judged
from ci.image.container import Conditions
from ci.image.verify.expected import COMMIT_LABEL, Expected, is_version
from ci.image.verify.subject import PLAIN, STRICT, Subject, how, told

CODE = 42
_WHO = (
    "import getpass, json, os, tempfile; "
    "open(os.path.join(os.environ['HOME'], '.spyre-verify'), 'w').close(); tempfile.TemporaryFile().close(); "
    "print(json.dumps({'uid': os.getuid(), 'gid': os.getgid(), 'name': getpass.getuser(), "
    "'home': os.environ['HOME']}))"
)
_TORCH = (
    "import json, torch; "
    "print(json.dumps({'version': torch.__version__, "
    "'commit': str(getattr(torch.version, 'git_version', ''))}))"
)
_UNTIL_TERM = f"trap 'exit {CODE}' TERM; echo ready; while :; do sleep 0.1; done"


def check_user(subject: Subject, expected: Expected) -> Finding:
    """The image names its user by a number that is not 0, and runs as it."""
    named = str(subject.config.get("User") or "")
    number = named.partition(":")[0]
    ended = subject.run(["run", "python", "-c", "import os; print('{\"uid\": %d}' % os.getuid())"])
    really = (told(ended) or {}).get("uid")
    seen = f"the image says {named or 'nothing'}, " + (
        f"and runs as {really}" if really is not None else how(ended)
    )
    holds = number.isdecimal() and int(number) == really and really != 0
    return judged(
        "user",
        seen,
        holds=holds and expected.user in {None, really},
        remedy=f"set USER to a number, {expected.user or 'not 0'}: a name may be root's to Kubernetes",
    )


def check_read_only(subject: Subject) -> Finding:
    """It starts where nothing but /tmp can be written."""
    ended = subject.run(
        ["run", "python", "-c", _WHO],
        Conditions(read_only=True, scratch=("/tmp",)),  # noqa: S108  # in memory
    )
    who = told(ended)
    seen = f"starts, home {who['home']}" if who and ended.exit_code == 0 else how(ended)
    return judged(
        "read-only root",
        seen,
        holds=ended.exit_code == 0 and who is not None,
        remedy="let what it starts write below /tmp or $HOME and nowhere else",
    )


def check_arbitrary_user(subject: Subject) -> Finding:
    """It starts as a user number that it does not know, in group 0, as OpenShift starts it."""
    ended = subject.run(["run", "python", "-c", _WHO], STRICT)
    who = told(ended)
    holds = ended.exit_code == 0 and who is not None
    seen = f"user {who['uid']} is {who['name']}, home {who['home']}" if who and holds else how(ended)
    remedy = "let group 0 read all, and nothing want a name or a home of its user"
    return judged("arbitrary user", seen, holds=holds, remedy=remedy)


def check_torch(subject: Subject, expected: Expected) -> Finding:
    """Its torch can be imported and is the one it was to be."""
    ended = subject.run(["run", "python", "-c", _TORCH], STRICT)
    found = told(ended)
    if found is None or ended.exit_code != 0:
        return Finding(check="torch", seen=f"import torch {how(ended)}", remedy="see what the import wants")
    version, commit = str(found["version"]), str(found["commit"])
    # A build that asked torch itself for its commit wrote it into a label.
    wanted = {expected.commit, subject.labels.get(COMMIT_LABEL, "")} - {"", commit}
    if not is_version(expected.version, version):
        wanted.add(expected.version)
    other = f", not {' and '.join(sorted(wanted))}" if wanted else ""
    return judged(
        "torch",
        f"{version} at {commit or 'no commit'}{other}",
        holds=not wanted,
        remedy="see which step of the build installs another torch; pin its requirements",
    )


def check_exit_code(subject: Subject) -> Finding:
    """A command's exit code is the container's, with and without `run`."""
    codes = [subject.run([*run, "sh", "-c", f"exit {CODE}"]).exit_code for run in (["run"], [])]
    return judged(
        "exit code",
        f"{CODE} becomes {' and '.join(map(str, codes))}",
        holds=codes == [CODE, CODE],
        remedy="let the entry point end with its command's code, and take an unknown word for a command",
    )


def check_signals(subject: Subject) -> Finding:
    """A signal that the engine sends reaches the command."""

    def stop(made: Any, line: str) -> None:
        if line == "ready":
            try:
                made.kill("SIGTERM")
            except APIError:
                return

    ended = subject.run(["run", "bash", "-c", _UNTIL_TERM], PLAIN, timeout_s=20, on_line=stop)
    holds = ended.exit_code == CODE
    return judged(
        "signals",
        "SIGTERM reaches the command" if holds else f"at SIGTERM the command {how(ended)}",
        holds=holds,
        remedy="let the entry point `exec` its command, or send on what it hears",
    )


def check_shell(subject: Subject) -> Finding:
    """`shell` is a shell."""
    ended = subject.run(["shell", "-c", f"exit {CODE}"], STRICT)
    remedy = "let `shell` start bash with the words after it"
    return judged("role shell", how(ended), holds=ended.exit_code == CODE, remedy=remedy)
