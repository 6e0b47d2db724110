"""Check what a run or a job may ask: container engine, registry, cluster, and the endpoint of reports."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import requests

from ci.config.recipient import check_address
from ci.core import engine_address
from ci.core.addresses import shown, without_secrets
from ci.core.errors import SpyreCiError
from ci.core.http import as_nobody, cause, is_private, session
from ci.core.text import size, span
from ci.doctor.finding import Finding, Level, fault, ok, warning
from ci.doctor.machine import Machine
from ci.hud.client import callback_url
from ci.hud.endpoint import EMBEDDED, NONE
from ci.hud.token import has_token

ENGINE_S, CLUSTER_S, HUD_S = 20.0, 25.0, 10.0
# The runtime image, its builder and one more of each beside it.
STORAGE_BYTES = 20 << 30
# Date has whole seconds; tokens are good for minutes.
CLOCK_WARNING_S, CLOCK_FAULT_S = 30.0, 300.0
_UNIX = "unix://"


def check_engine(machine: Machine) -> Iterator[Finding]:
    """The container engine and its storage."""
    image, named = machine.settings.model.image, bool(machine.environ.get("DOCKER_HOST"))
    address = engine_address.address(machine.environ, system=machine.system)
    needed = named or bool(image.repository)
    if not needed and not Path(address.removeprefix(_UNIX)).is_socket():
        yield ok("not used: none is running here; images and `job submit --local` need one")
        return
    found, why = machine.probe("engine", limit_s=ENGINE_S)
    if why or "error" in found:
        # A run needs none; who named one, or a repository to push to, asks for it.
        message = str(found.get("error") or f"{without_secrets(address)}: {why}")
        hangs = why or found.get("hangs") or not found.get("remedy")
        remedy = "restart it, or set DOCKER_HOST to another" if hangs else str(found["remedy"])
        if found.get("denied"):
            remedy = 'sudo usermod -aG docker "$USER" and log in again, or set DOCKER_HOST to your own'
        yield Finding(Level.FAULT if needed else Level.WARNING, message, remedy)
        return
    root = Path(found["root"])
    yield ok(f"{found['name']} at {without_secrets(address)}, {found['platform']}, storage {found['driver']}")
    # An engine on macOS, or of another host, has its storage elsewhere.
    if machine.system == "linux" and address.startswith(_UNIX) and root.is_dir():
        free = shutil.disk_usage(root).free
        if free < STORAGE_BYTES:
            message = f"its storage {root} has {size(free)} left; images need {size(STORAGE_BYTES)}"
            yield warning(message, "docker system prune")


def check_registry(machine: Machine) -> list[Finding]:
    """The registry that images are pushed to."""
    repository = machine.settings.model.image.repository
    if not repository:
        return [ok("not used: image.repository is not set")]
    registry = repository.partition("/")[0]
    found, why = machine.probe("registry", repository, limit_s=ENGINE_S)
    if why := why or found.get("error", ""):
        usual = f"check the name {registry} (image.repository) and the network"
        return [fault(f"{registry}: {why}", found.get("remedy") or usual)]
    return [ok(f"{registry} answers for {repository}")]


def check_cluster(machine: Machine) -> list[Finding]:
    """The cluster of the kubeconfig, or of this pod: whether it answers, knows us, and lets us make jobs."""
    environ = machine.environ
    # As `ci.jobs.access` looks for it.
    there = {
        "KUBECONFIG": environ.get("KUBECONFIG"),
        "~/.kube/config": (Path(environ.get("HOME") or Path.home()) / ".kube" / "config").is_file(),
        "this pod": environ.get("KUBERNETES_SERVICE_HOST"),
    }
    source = next((name for name, found in there.items() if found), "")
    if not source:
        return [ok("not used: there is no KUBECONFIG and no ~/.kube/config")]
    found, why = machine.probe("cluster", limit_s=CLUSTER_S)
    # The library is an extra, and a file of the home folder may be there for anything.
    asked_for = source == "KUBECONFIG" and not found.get("lacks")
    level = Level.FAULT if asked_for else Level.WARNING
    if why or "error" in found:
        message = found.get("error") or why
        remedy = found.get("remedy") or "check the network, or sign in again: oc login"
        return [Finding(level, f"{source}: {message}", str(remedy))]
    if missing := found["missing"]:
        message = f"{source}: {found['name']}; this user may not {', '.join(missing)}"
        return [Finding(level, message, "ask the namespace's owner for the Role of docs/jobs-cluster.md")]
    return [ok(f"{source}: {found['name']}; jobs can be created")]


def _ask(machine: Machine, url: str) -> tuple[requests.Response, float, float]:
    """An endpoint's answer, and when it was asked and answered; no token and no ~/.netrc is shown."""
    sent = machine.clock()
    with session(url) as asking:
        headers = {"Cache-Control": "no-cache"}
        answer = asking.get(
            url, headers=headers, timeout=HUD_S, stream=True, allow_redirects=False, auth=as_nobody
        )
    return answer, sent, machine.clock()


def check_hud(machine: Machine) -> Iterator[Finding]:
    """Whether the endpoint of reports answers; no token is sent."""
    endpoint, report = machine.settings.model.report.endpoint, machine.settings.model.report
    if endpoint in {NONE, EMBEDDED}:
        where = f"embedded, stored in {machine.settings.store_path}"
        yield ok(where if endpoint == EMBEDDED else "not used: report.endpoint is none")
        return
    address = shown(endpoint)
    sends = has_token(machine.environ, report.token_file)
    remedy = "check report.endpoint and the network; unsent reports stay in each run: spyre-ci hud send"
    try:
        url = callback_url(endpoint)
        if sends:
            check_address(machine.settings, "report.endpoint", shown=address)
        answer, sent, came = _ask(machine, url)
    except SpyreCiError as error:
        # Our own words may quote the address as it is.
        yield fault(f"{error.what.replace(endpoint, address)} ({address})", error.remedy or remedy)
        return
    except requests.RequestException as error:
        late = isinstance(error, requests.Timeout)
        why = f"does not answer within {HUD_S:g} s" if late else f"cannot be reached: {cause(error)}"
        yield fault(f"{address} {why}", remedy)
        return
    wrong = {3: "a redirect, which reports do not follow", 5: "the server is out of order"}
    missing = answer.status_code == requests.codes.not_found
    if trouble := "there is no such path" if missing else wrong.get(answer.status_code // 100):
        yield fault(f"{address} answers {answer.status_code}: {trouble}", remedy)
    else:
        yield ok(f"{address} answers in {span(came - sent)}")
    if sends and not is_private(url):
        message = f"{address} is not encrypted: the token can be read on the way"
        yield warning(message, "give report.endpoint an https:// address")


def check_clock(machine: Machine) -> list[Finding]:
    """How far this machine's clock is from the endpoint's; tokens are good for minutes."""
    endpoint = machine.settings.model.report.endpoint
    try:
        asked = None if endpoint in {NONE, EMBEDDED} else _ask(machine, callback_url(endpoint))
    except (SpyreCiError, requests.RequestException):
        asked = None  # check_hud says why
    return [clock_finding(*asked) if asked else ok("not compared: no endpoint tells the time")]


def clock_finding(answer: requests.Response, sent: float, came: float) -> Finding:
    """How far this machine's clock is from a server's, at least.

    The server is taken to have read its clock half way; Date has whole seconds, so half a one is added
    (RFC 9110).

    Args:
        answer: of the server.
        sent: seconds since the epoch when it was asked.
        came: when the answer came.
    """
    try:
        date = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return ok("not compared: the endpoint does not tell the time")
    if answer.headers.get("age", "0") != "0":
        return ok("not compared: the answer came from a cache")
    skew, doubt = date + 0.5 - (sent + came) / 2, (came - sent) / 2 + 0.5
    if abs(skew) - doubt <= CLOCK_WARNING_S:
        return ok(f"within {span(abs(skew) + doubt)} of the endpoint's")
    which = "behind" if skew > 0 else "ahead of"
    level = Level.FAULT if abs(skew) - doubt > CLOCK_FAULT_S else Level.WARNING
    message = f"this machine's clock is {span(abs(skew))} {which} the endpoint's"
    return Finding(level, message, "set it: sudo timedatectl set-ntp true, or chronyc makestep")
