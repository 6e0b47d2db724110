"""Which cluster is meant, and how one shows who asks: a kubeconfig, or a pod's own service account."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ci.core.addresses import is_loopback, safe_line, shown, without_secrets
from ci.core.extras import wanted
from ci.jobs.errors import CredentialsError

KUBECONFIG = "KUBECONFIG"
IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# What kubectl takes where a context names none.
DEFAULT_NAMESPACE = "default"


def configuration_of(
    environ: Mapping[str, str], *, context: str | None = None, home: Path | None = None, in_pod: Path = IN_POD
) -> tuple[Any, str]:
    """The official client's configuration, and the namespace that goes with it.

    As kubectl does it: a kubeconfig where there is one (KUBECONFIG, ~/.kube/config), else the service account
    of the pod one is in.

    Args:
        environ: the environment.
        context: of the kubeconfig; None: its current one.
        home: folder of the user; None: this user's.
        in_pod: where a pod finds its service account.

    Raises:
        CredentialsError: there is neither, or what there is cannot be used.
        CommandError: the extra is not installed.
    """
    files = environ.get(KUBECONFIG, "") or _usual_file(home or Path.home())
    if not files and context is not None:
        raise CredentialsError(
            f"there is no kubeconfig with a context {context!r}",
            remedy="sign in (oc login), or name the file in KUBECONFIG",
        )
    if not files and not environ.get("KUBERNETES_SERVICE_HOST"):
        raise CredentialsError(
            "nothing says which cluster is meant",
            where="KUBECONFIG and ~/.kube/config",
            remedy="sign in (oc login), name a kubeconfig in KUBECONFIG, or run in a pod",
        )
    configuration, namespace = _of_files(files, context) if files else _of_pod(environ, in_pod)
    _refuse_listeners(configuration)
    return configuration, namespace or DEFAULT_NAMESPACE


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """What the official client says of a credential program: it logs it, raw, and goes on without.

    Yields:
        The lines, which then go to no log.
    """
    said: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        said.append(safe_line(record.getMessage()))
        return False

    root, nowhere = logging.getLogger(), logging.NullHandler()
    root.addFilter(keep)
    # Where nobody takes logs, logging's own functions would have them go to standard error from then on.
    root.addHandler(nowhere)
    try:
        yield said
    finally:
        root.removeFilter(keep)
        root.removeHandler(nowhere)


def _usual_file(home: Path) -> str:
    usual = home / ".kube" / "config"
    return str(usual) if usual.is_file() else ""


def _of_files(files: str, context: str | None) -> tuple[Any, str]:
    config = _library("kubernetes.config")
    configuration = _library("kubernetes.client").Configuration()
    try:
        contexts, current = config.list_kube_config_contexts(files)
        with heard() as said:
            config.load_kube_config(files, context=context, client_configuration=configuration)
    # The official client raises whatever a broken file leads to: its own, YAML's, and plain ones of types.
    except Exception as error:  # noqa: BLE001  # told as the file's fault, whatever it was
        raise CredentialsError(
            f"cannot be used: {_told(error)}",
            where=files,
            remedy="sign in again (oc login), or mend the file",
        ) from None
    if said and not configuration.api_key and not configuration.cert_file:
        raise CredentialsError(
            f"the program that says who asks did not: {said[-1]}",
            where=files,
            remedy="run it by itself (`exec` of the kubeconfig's user), or sign in again (oc login)",
        )
    taken = next((one for one in contexts if one["name"] == context), current)
    return configuration, str(taken["context"].get("namespace") or "")


def _of_pod(environ: Mapping[str, str], in_pod: Path) -> tuple[Any, str]:
    config = _library("kubernetes.config")
    configuration = _library("kubernetes.client").Configuration()
    try:
        config.incluster_config.InClusterConfigLoader(
            token_filename=str(in_pod / "token"), cert_filename=str(in_pod / "ca.crt"), environ=environ
        ).load_and_set(configuration)
        return configuration, (in_pod / "namespace").read_text().strip()
    except (config.ConfigException, OSError) as error:
        raise CredentialsError(
            f"the pod's service account cannot be used: {_told(error)}",
            where=in_pod,
            remedy="let the pod mount its service account's token, or name a kubeconfig in KUBECONFIG",
        ) from None


def _library(name: str) -> Any:
    with wanted("`spyre-ci job` wants", extra="jobs"):
        return importlib.import_module(name)


def _refuse_listeners(configuration: Any) -> None:
    """A token goes to nobody in the clear, but for this machine itself."""
    parts = urlsplit(configuration.host)
    if parts.scheme != "https" and configuration.api_key and not is_loopback(parts.hostname or ""):
        raise CredentialsError(
            f"whoever listens on the way to {shown(configuration.host)} could read the token",
            remedy="give the cluster's https:// address",
        )


def _told(error: Exception) -> str:
    """An error's own words where those are the client's; others may quote the file, which holds secrets."""
    ours = type(error).__module__.startswith("kubernetes.") or isinstance(error, OSError)
    return without_secrets(str(error))[:300] if ours else f"{type(error).__name__} while reading it"
