"""How an image starts: its user, codes and signals, PyTorch, and each role as an unknown user."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from docker.errors import APIError

from ci.core.findings import Finding, judged
from ci.core.text import last_line
from ci.image.container import Conditions, container
from ci.image.engine import engine_error
from ci.image.roles import MODEL, PORTS
from ci.image.verify.expected import COMMIT_LABEL, Expected, is_version
from ci.image.verify.subject import PLAIN, STRICT, Subject, how, told

NO_ROLE = 2
GRACE_S = 10
POLL_S = 0.5
# Runs in the container, whose network may be its own: asks the port, and where it is listened on.
_ASK = """
import json, signal, sys, urllib.error, urllib.request
signal.alarm(10)
port = int(sys.argv[1])
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    status = opener.open('http://127.0.0.1:%d/' % port, timeout=5).status
except urllib.error.HTTPError as error:
    status = error.code
except Exception:
    status = 0
rows = []
for name in ('/proc/net/tcp', '/proc/net/tcp6'):
    try:
        rows += [line.split()[1:4] for line in open(name)][1:]
    except OSError:
        pass
listens = [row[0] for row in rows if row[2] == '0A' and row[0].endswith(':%04X' % port)]
print(json.dumps({'status': status, 'listens': listens}))
"""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a role may take.

    Attributes:
        timeout_s: seconds until its port answers, or until `test` ends.
        clock: seconds.
        sleep: waits seconds.
    """

    timeout_s: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]


def check_role(
    subject: Subject, name: str, expected: Expected, patience: Patience, model: Path | None
) -> Finding:
    """A role starts and holds to its contract; one the image does not have says so.

    Args:
        subject: the image.
        name: test, notebook or serve.
        expected: says which it has.
        patience: how long it may take.
        model: a folder that `serve` finds at /model.
    """
    if name not in expected.roles:
        return _absent(subject, name)
    words = [name, *expected.roles[name]]
    if name not in PORTS:
        ended = subject.run(words, STRICT, timeout_s=patience.timeout_s)
        remedy = f"run it: docker run --read-only --tmpfs /tmp IMAGE {' '.join(words)}"
        return judged(f"role {name}", how(ended), holds=ended.exit_code == 0, remedy=remedy)
    mounts = {MODEL: model} if model is not None and name == "serve" else {}
    return _listening(subject, words, PORTS[name], replace(STRICT, mounts=mounts), patience)


def _absent(subject: Subject, name: str) -> Finding:
    ended = subject.run([name], STRICT)
    said = any("no role" in line for line in ended.last)
    return judged(
        f"role {name}",
        "not in this image, and says so" if said else how(ended),
        holds=said and ended.exit_code == NO_ROLE,
        remedy=f"let `{name}` end with code {NO_ROLE} and say that the image has no such role",
    )


def _listening(
    subject: Subject, words: Sequence[str], port: int, conditions: Conditions, patience: Patience
) -> Finding:
    name = f"role {words[0]}"
    try:
        with container(subject.client, subject.image, words, conditions) as made:
            answer = _wait(made, port, patience)
            if isinstance(answer, str):
                return Finding(check=name, seen=answer, remedy=_by_hand(words, port))
            lost = judge_addresses(answer["listens"], port)
            if lost:
                return Finding(check=name, seen=lost, remedy="let it listen on 0.0.0.0")
            began = patience.clock()
            made.kill("SIGTERM")
            late = not _ends(made, patience)
            seen = f"port {port} answers {answer['status']} on all addresses, and SIGTERM " + (
                f"does not end it in {GRACE_S} s" if late else f"ends it in {patience.clock() - began:.0f} s"
            )
            return judged(name, seen, holds=not late, remedy="let it end at SIGTERM, as pods are told to")
    except APIError as error:
        return Finding(check=name, seen=engine_error(error).what, remedy=_by_hand(words, port))


def _wait(made: Any, port: int, patience: Patience) -> dict[str, Any] | str:
    """What the port answered, or why it did not."""
    until = patience.clock() + patience.timeout_s
    status = 0
    while patience.clock() < until:
        made.reload()
        state = made.attrs["State"]
        if not state["Running"]:
            return f"ended with code {state['ExitCode']} before port {port} answered{_last(made)}"
        answer = _ask(made, port)
        if answer is not None:
            status = answer["status"]
            # What still loads says 503.
            if 0 < status < 500:  # noqa: PLR2004  # HTTP
                return answer
        patience.sleep(POLL_S)
    told = f"answers {status}" if status else "does not answer"
    return f"port {port} {told} after {patience.timeout_s:g} s{_last(made)}"


def _ask(made: Any, port: int) -> dict[str, Any] | None:
    try:
        done = made.exec_run(["python", "-c", _ASK, str(port)])
    except APIError:
        return None
    try:
        answer: dict[str, Any] = json.loads(done.output.decode("utf-8", "replace").strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return answer


def _ends(made: Any, patience: Patience) -> bool:
    until = patience.clock() + GRACE_S
    while patience.clock() < until:
        made.reload()
        if not made.attrs["State"]["Running"]:
            return True
        patience.sleep(POLL_S / 5)
    return False


def judge_addresses(listens: Sequence[str], port: int) -> str:
    """Why others do not reach a port; empty where they do.

    Args:
        listens: addresses in hex with ports, as /proc/net/tcp has them.
        port: that is asked for.
    """
    if any(not set(one.partition(":")[0]) - {"0"} for one in listens):
        return ""
    return f"port {port} is listened on for this container alone"


def _last(made: Any) -> str:
    last = last_line(made.logs(tail=5).decode("utf-8", "replace"))
    return f", last said: {last[:200]}" if last else ""


def _by_hand(words: Sequence[str], port: int) -> str:
    return f"run it: docker run --read-only --tmpfs /tmp --publish {port}:{port} IMAGE {' '.join(words)}"


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
