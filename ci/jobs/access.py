"""Find the cluster and its credentials as kubectl does: a kubeconfig, or a pod's service account."""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ci.core.addresses import is_loopback, safe_line, shown, without_secrets
from ci.core.extras import wanted
from ci.jobs.errors import CredentialsError

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def configuration_of(
    environ: Mapping[str, str], *, context: str | None = None, home: Path | None = None, in_pod: Path = IN_POD
) -> tuple[Any, str]:
    """The official client's configuration, and the namespace of the context or pod.

    Args:
        environ: the environment; KUBECONFIG names the file, else it is ~/.kube/config.
        context: of the kubeconfig; None: its current one.
        home: folder of the user; None: this user's.
        in_pod: where a pod finds its service account.

    Raises:
        CredentialsError: there is none, or it cannot be used.
        CommandError: the extra is not installed.
    """
    usual = (home or Path.home()) / ".kube" / "config"
    files = environ.get("KUBECONFIG", "") or (str(usual) if usual.is_file() else "")
    if files:
        configuration, namespace = _of_files(files, context)
    elif context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        configuration, namespace = _of_pod(environ, in_pod)
    else:
        what = "no kubeconfig" if context is None else f"no kubeconfig with a context {context!r}"
        raise CredentialsError(
            f"{what} found to select the cluster",
            where="KUBECONFIG and ~/.kube/config",
            remedy="sign in (oc login), name a kubeconfig in KUBECONFIG, or run in a pod",
        )
    parts = urlsplit(configuration.host)
    if parts.scheme != "https" and configuration.api_key and not is_loopback(parts.hostname or ""):
        raise CredentialsError(
            f"the token would be sent to {shown(configuration.host)} unencrypted",
            remedy="give the cluster's https:// address",
        )
    return configuration, namespace or "default"


def authorization_of(configuration: Any) -> str:
    """The Authorization header, from a credential that is renewed where it expired; empty: none.

    Raises:
        CredentialsError: the credential cannot be renewed.
    """
    try:
        with _client_log() as said:
            found = configuration.auth_settings().get("BearerToken", {}).get("value") or ""
    except (_library("kubernetes.config").ConfigException, OSError) as error:
        said, found = [_told(error)], ""
    if said:
        raise CredentialsError(
            f"the credentials cannot be renewed: {said[-1]}",
            remedy="sign in again (oc login), or correct the kubeconfig's user",
        )
    # kubectl takes a token file that ends with a newline.
    return str(found).strip()


@contextlib.contextmanager
def _client_log() -> Iterator[list[str]]:
    """Catch what the official client logs of a credential program: it goes on without a credential.

    Yields:
        The lines of this thread; they go to no log, since they may hold what a stranger said.
    """
    said: list[str] = []
    caller = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.thread != caller:
            return True
        said.append(safe_line(record.getMessage()))
        return False

    root, nowhere = logging.getLogger(), logging.NullHandler()
    root.addFilter(keep)
    # Without any handler, logging's own functions would set one up for the whole process.
    root.addHandler(nowhere)
    try:
        yield said
    finally:
        root.removeFilter(keep)
        root.removeHandler(nowhere)


def _of_files(files: str, context: str | None) -> tuple[Any, str]:
    config = _library("kubernetes.config")
    configuration = _library("kubernetes.client").Configuration()
    try:
        contexts, current = config.list_kube_config_contexts(files)
        with _client_log() as said:
            config.load_kube_config(files, context=context, client_configuration=configuration)
    # The client raises whatever a broken file leads to: its own errors, YAML's, and plain type errors.
    except Exception as error:  # noqa: BLE001  # told as the file's fault, whatever it was
        raise CredentialsError(
            f"cannot be used: {_told(error)}",
            where=files,
            remedy="sign in again (oc login), or correct the file",
        ) from None
    if said and not configuration.api_key and not configuration.cert_file:
        raise CredentialsError(
            f"the credential program failed: {said[-1]}",
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
    with wanted("`spyre-ci job` needs", extra="jobs"):
        return importlib.import_module(name)


def _told(error: Exception) -> str:
    """The words of the client's own errors; others may quote the file, which holds secrets."""
    ours = type(error).__module__.startswith("kubernetes.") or isinstance(error, OSError)
    return without_secrets(str(error))[:300] if ours else f"{type(error).__name__} while reading it"
