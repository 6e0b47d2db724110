"""Rendering a resolved stack as a Containerfile for BuildKit or buildah, with Jinja2; pure.

Every RUN is in the form of a JSON array, so that whatever a step says is one argument of one shell, and no
builder looks for variables in it. What is secret is mounted into the steps that are ours, and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.core.registry import by_digest
from ci.image import roles
from ci.image.resolved import ResolvedComponent, ResolvedPytorch, ResolvedStack
from ci.image.stack import environment_of, params_of

LABEL = "io.github.torch-spyre.component."
PYTORCH_LABEL = "io.github.torch-spyre.pytorch"
# What torch.version.git_version says in the image.
COMMIT_LABEL = "io.github.torch-spyre.pytorch.commit"
# Where the repository is that PyTorch was built from, where it was.
URL_LABEL = "io.github.torch-spyre.pytorch.url"
VENV = "/opt/spyre/venv"
SHELL = ("/bin/bash", "-euo", "pipefail", "-c")
# Ids of a build's secrets: pip's settings, which may hold the credentials of an index, and a company's
# certificates, which every step may see.
PIP, CERTIFICATES = "pip", "certificates"
# A hash of the index, and its address without credentials: the first keeps apart what the cache has of two
# indexes, the others are for components' own steps.
INDEX_KEY = "PACKAGE_INDEX"
INDEX_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
_BUNDLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
TRUST = (
    f"if [ -s /run/secrets/{CERTIFICATES} ]; then export "
    f"{' '.join(f'{name}=/run/secrets/{CERTIFICATES}' for name in _BUNDLES)}; fi"
)
_TRUSTED = f"type=secret,id={CERTIFICATES}"
_PIP = (_TRUSTED, f"type=secret,id={PIP}", "type=cache,id=spyre-pip,target=/var/cache/pip")
_INSTALL = f"PIP_CONFIG_FILE=/run/secrets/{PIP} PIP_CACHE_DIR=/var/cache/pip pip install --no-compile"
_CACHES = {
    "apt": (
        _TRUSTED,
        "type=cache,id=spyre-apt,target=/var/cache/apt,sharing=locked",
        "type=cache,id=spyre-apt-lists,target=/var/lib/apt/lists,sharing=locked",
    ),
    "dnf": (_TRUSTED, "type=cache,id=spyre-dnf,target=/var/cache/dnf,sharing=locked"),
}


def render(resolved: ResolvedStack) -> str:
    """The Containerfile of a stack; the same stack gives the same text.

    Args:
        resolved: the stack, named exactly.
    """
    stack, base = resolved.stack, resolved.stack.base
    wanted = {one for part in resolved.components for one in part.component.requirements}
    wanted |= roles.packages_of(stack)
    # With PyTorch's own, so that none of them brings another PyTorch.
    pytorch = [resolved.pytorch.requirement] if resolved.pytorch.requirement else []
    return (
        _environment()
        .get_template("Containerfile.j2")
        .render(
            resolved=resolved,
            stack=stack,
            parts={one.component.name: one for one in resolved.components},
            venv=VENV,
            index_key=INDEX_KEY,
            index_variables=INDEX_VARIABLES,
            install_packages=install_packages(base.manager, base.packages),
            install_build_packages=install_packages(base.manager, base.build_packages),
            make_venv=make_venv(base.python, base.python_version),
            install_pytorch=install_pytorch(resolved.pytorch),
            install_requirements=install_python([*pytorch, *sorted(wanted)]) if wanted else "",
            make_entry=roles.make_entry(stack),
            entry=roles.ENTRY,
            ports=[roles.PORTS[name] for name in sorted(stack.roles) if name in roles.PORTS],
            make_user=make_user(stack.user),
            environment=environment_of(stack),
            labels=labels_of(resolved),
        )
    )


def run(script: str, mounts: Sequence[str] = ()) -> str:
    """A RUN line of a script for a shell that ends at the first command that fails.

    Args:
        script: for bash.
        mounts: of the step, as `--mount` takes them.
    """
    return " ".join(["RUN", *(f"--mount={one}" for one in mounts), json.dumps([*SHELL, script])])


def _trusting(script: str, mounts: Sequence[str]) -> str:
    """A RUN line whose programs trust a company's certificates, where the build has them."""
    return run(f"{TRUST}\n{script}", mounts)


def quoted(value: str) -> str:
    """A value for ENV and LABEL: no variable, quote or line end in it means anything."""
    escaped = re.sub(r'([\\"$])', r"\\\1", value)
    if re.search(r"[\x00-\x1f\x7f]", escaped):
        raise ValueError(f"{value!r} holds control characters")
    return f'"{escaped}"'


def install_packages(manager: str, packages: Sequence[str]) -> str:
    """Install packages of the distribution; empty where there are none.

    Args:
        manager: apt or dnf.
        packages: names.
    """
    if not packages:
        return ""
    names = " ".join(shlex.quote(name) for name in sorted(set(packages)))
    return _trusting(_manager(manager, names), _CACHES[manager])


def _manager(manager: str, names: str) -> str:
    if manager == "dnf":
        return f"dnf install -y --setopt=install_weak_deps=False {names}"
    trusted = "${SSL_CERT_FILE:+-o Acquire::https::CAInfo=$SSL_CERT_FILE}"
    return (
        f"export DEBIAN_FRONTEND=noninteractive; apt-get {trusted} update; "
        f"apt-get {trusted} install -y --no-install-recommends {names}"
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
    return _trusting(f"{_INSTALL} {' '.join(shlex.quote(name) for name in requirements)}", _PIP)


def install_pytorch(pytorch: ResolvedPytorch) -> str:
    """Install PyTorch: the wheel that was built, that of an index, or that of the build's own index.

    What it needs comes from the build's own index, and where that lacks it, from the wheel's.
    """
    if pytorch.git is not None:
        built = "type=bind,from=pytorch-wheel,source=/out/wheels,target=/wheels"
        return _trusting(f"{_INSTALL} /wheels/*.whl", (*_PIP, built))
    if not pytorch.index:
        return install_python([pytorch.requirement])
    hashed = (
        f"{pytorch.requirement} --hash=sha256:{pytorch.sha256}" if pytorch.sha256 else pytorch.requirement
    )
    index, name = shlex.quote(pytorch.index), shlex.quote(pytorch.requirement)
    # A hash can be given in a file of requirements alone.
    wheel = f"{_INSTALL} --no-deps --index-url {index} -r /dev/stdin <<< {shlex.quote(hashed)}"
    return _trusting(f"{wheel}; {_INSTALL} --extra-index-url {index} {name}", _PIP)


def install_files(manager: str, one: ResolvedComponent) -> str:
    """Install a component's package files, which the context has below `packages/`."""
    kinds = {file.path.rpartition(".")[2] for file in one.files}
    lines, mounts = (
        ["cd /mnt/packages"],
        [f"type=bind,source=packages/{one.component.name},target=/mnt/packages"],
    )
    if "whl" in kinds:
        lines, mounts = [*lines, f"{_INSTALL} ./*.whl"], [*mounts, *_PIP]
    if kinds - {"whl"}:
        packages = "./*.deb" if manager == "apt" else "./*.rpm"
        lines, mounts = [*lines, _manager(manager, packages)], [*mounts, *_CACHES[manager]]
    return _trusting("; ".join(lines), tuple(dict.fromkeys(mounts)))


def make_user(number: int) -> str:
    """Make the user an image runs as, in group 0, as OpenShift wants it, with a home the group can write."""
    return (
        f"printf 'spyre:x:{number}:0::/opt/spyre/home:/bin/bash\\n' >> /etc/passwd; "
        f"install -d -m 0775 -o {number} -g 0 /opt/spyre/home"
    )


def labels_of(resolved: ResolvedStack) -> Mapping[str, str]:
    """The image's labels: OCI's own, what each component is of, and those of the stack file, by name."""
    ours = {
        "org.opencontainers.image.title": resolved.stack.name,
        "org.opencontainers.image.base.name": resolved.stack.base.image,
        "org.opencontainers.image.base.digest": resolved.base_digest,
        "io.github.torch-spyre.variant": resolved.variant,
        PYTORCH_LABEL: resolved.pytorch.commit or resolved.pytorch.requirement,
    }
    if resolved.pytorch.git is not None:
        ours[URL_LABEL] = resolved.pytorch.git.url
    told = {f"{LABEL}{name}": revision for name, revision in resolved.revisions.items()}
    return dict(sorted({**resolved.stack.labels, **ours, **told, **roles.labels_of(resolved.stack)}.items()))


def image_of(one: ResolvedComponent, resolved: ResolvedStack) -> str:
    """The image that a component is taken out of, by its digest.

    Of a component's own Containerfile, the name that its image has in the engine; no registry has it.
    """
    if one.component.image is not None:
        return by_digest(one.component.image.name, one.digest)
    git = one.component.git
    assert git is not None  # noqa: S101  # the caller chose
    said = [one.revision, resolved.platform, git.subfolder, git.containerfile, git.target]
    text = json.dumps([*said, params_of(resolved.stack, one.component)])
    return f"{resolved.stack.name}-{one.component.name}:{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def step(script: str, *, cache: str = "") -> str:
    """A step of a component's own, or of PyTorch's.

    Args:
        script: for bash.
        cache: address of a repository, whose builds share the folder /ccache; empty: none.
    """
    kept = f"spyre-ccache-{hashlib.sha256(cache.encode()).hexdigest()[:12]}"
    return _trusting(script, (_TRUSTED, *([f"type=cache,id={kept},target=/ccache"] if cache else [])))


@cache
def _environment() -> Environment:
    # Not for a page: what is put in is quoted for a builder, by `run` and `quoted`.
    made = Environment(
        loader=PackageLoader("ci.image"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # noqa: S701
    )
    made.globals.update(
        run=run,
        step=step,
        quoted=quoted,
        params_of=params_of,
        image_of=image_of,
        install_files=install_files,
        install_python=install_python,
    )
    return made
