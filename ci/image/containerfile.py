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

from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.core.registry import by_digest
from ci.image import roles
from ci.image.model import Base
from ci.image.resolve import ResolvedComponent, ResolvedPytorch, ResolvedStack

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
# 80 bits: no two of a registry's images meet by chance.
DIGITS = 20
TAG_PREFIX = "stack-"
_BUNDLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
TRUST = (
    f"if [ -s /run/secrets/{CERTIFICATES} ]; then export "
    f"{' '.join(f'{name}=/run/secrets/{CERTIFICATES}' for name in _BUNDLES)}; fi"
)
_PIP = (f"type=secret,id={PIP}", "type=cache,id=spyre-pip,target=/var/cache/pip")
_INSTALL = f"PIP_CONFIG_FILE=/run/secrets/{PIP} PIP_CACHE_DIR=/var/cache/pip pip install --no-compile"
_TRUSTED = "${SSL_CERT_FILE:+-o Acquire::https::CAInfo=$SSL_CERT_FILE}"
_APT = (
    f"export DEBIAN_FRONTEND=noninteractive; apt-get {_TRUSTED} update; "
    f"apt-get {_TRUSTED} install -y --no-install-recommends"
)
# What installs packages of a distribution, and what is kept of it between builds.
_MANAGERS = {
    "apt": (
        _APT,
        "type=cache,id=spyre-apt,target=/var/cache/apt,sharing=locked",
        "type=cache,id=spyre-apt-lists,target=/var/lib/apt/lists,sharing=locked",
    ),
    "dnf": (
        "dnf install -y --setopt=install_weak_deps=False",
        "type=cache,id=spyre-dnf,target=/var/cache/dnf,sharing=locked",
    ),
}


def render(resolved: ResolvedStack) -> str:
    """The Containerfile of a stack; the same stack gives the same text.

    Args:
        resolved: the stack, named exactly.
    """
    stack = resolved.stack
    wanted = {one for part in resolved.components for one in part.component.requirements}
    wanted |= {one for role in stack.roles.values() for one in role.packages}
    # With PyTorch's own, so that none of them brings another PyTorch.
    pytorch = [resolved.pytorch.requirement] if resolved.pytorch.requirement else []
    # No page: what is put in is quoted for a builder, by `run` and `quoted`.
    environment = Environment(
        loader=PackageLoader("ci.image"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # noqa: S701
    )
    functions = (run, step, quoted, image_of, install_packages, install_files, install_python)
    environment.globals.update({function.__name__: function for function in functions})
    return environment.get_template("Containerfile.j2").render(
        resolved=resolved,
        stack=stack,
        base=stack.base,
        parts={one.component.name: one for one in resolved.components},
        venv=VENV,
        index_key=INDEX_KEY,
        index_variables=INDEX_VARIABLES,
        make_venv=make_venv(stack.base),
        install_pytorch=install_pytorch(resolved.pytorch),
        requirements=[*pytorch, *sorted(wanted)] if wanted else [],
        ports=[roles.PORTS[name] for name in sorted(stack.roles) if name in roles.PORTS],
        labels=labels_of(resolved),
    )


def run(script: str, *mounts: str) -> str:
    """A RUN line of a script for a shell that ends at the first command that fails.

    Args:
        script: for bash.
        mounts: of the step, as `--mount` takes them.
    """
    return " ".join(["RUN", *(f"--mount={one}" for one in mounts), json.dumps([*SHELL, script])])


def step(script: str, *mounts: str, cache: str = "") -> str:
    """A RUN line whose programs trust a company's certificates, where the build has them.

    Args:
        script: for bash; perhaps a component's own.
        mounts: of the step besides.
        cache: address of a repository, whose builds share the folder /ccache; empty: none.
    """
    kept = f"spyre-ccache-{hashlib.sha256(cache.encode()).hexdigest()[:12]}"
    shared = [f"type=cache,id={kept},target=/ccache"] if cache else []
    return run(f"{TRUST}\n{script}", f"type=secret,id={CERTIFICATES}", *mounts, *shared)


def quoted(value: str) -> str:
    """A value for ENV and LABEL: no variable, quote or line end in it means anything."""
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise ValueError(f"{value!r} contains control characters")
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'


def install_packages(base: Base, packages: Sequence[str]) -> str:
    """Install packages of the distribution."""
    command, *kept = _MANAGERS[base.manager]
    return step(f"{command} {shlex.join(sorted(set(packages)))}", *kept)


def install_files(base: Base, one: ResolvedComponent) -> str:
    """Install a component's package files, which the context has below `packages/`."""
    kinds = {path.rpartition(".")[2] for path in one.files}
    lines = ["cd /mnt/packages"]
    mounts = [f"type=bind,source=packages/{one.component.name},target=/mnt/packages"]
    if "whl" in kinds:
        lines, mounts = [*lines, f"{_INSTALL} ./*.whl"], [*mounts, *_PIP]
    if kinds - {"whl"}:
        command, *kept = _MANAGERS[base.manager]
        lines.append(f"{command} {'./*.deb' if base.manager == 'apt' else './*.rpm'}")
        mounts += kept
    return step("; ".join(lines), *mounts)


def make_venv(base: Base) -> str:
    """The script that makes the environment Python packages go into; its interpreter is of that version."""
    check = (
        f"import sys; said = '{base.python_version}'; there = '%d.%d' % sys.version_info[:2]; "
        "sys.exit(there != said and f'the base has Python {there}, and base.python_version is {said}')"
    )
    make = f"{base.python} -m venv {VENV}"
    return f"{base.python} -c {shlex.quote(check)}; {make}" if base.python_version else make


def install_python(requirements: Sequence[str]) -> str:
    """Install Python packages from the index of the build's settings."""
    return step(f"{_INSTALL} {shlex.join(requirements)}", *_PIP)


def install_pytorch(pytorch: ResolvedPytorch) -> str:
    """Install PyTorch: the wheel that was built, that of an index, or that of the build's own index.

    What it needs comes from the build's own index, and where that lacks it, from the wheel's.
    """
    if pytorch.git is not None:
        built = "type=bind,from=pytorch-wheel,source=/out/wheels,target=/wheels"
        return step(f"{_INSTALL} /wheels/*.whl", *_PIP, built)
    if not pytorch.index:
        return install_python([pytorch.requirement])
    index, name = shlex.quote(pytorch.index), shlex.quote(pytorch.requirement)
    hashed = f"{pytorch.requirement} --hash=sha256:{pytorch.sha256}" if pytorch.sha256 else name
    # A hash can be given in a file of requirements alone.
    wheel = f"{_INSTALL} --no-deps --index-url {index} -r /dev/stdin <<< {shlex.quote(hashed)}"
    return step(f"{wheel}; {_INSTALL} --extra-index-url {index} {name}", *_PIP)


def labels_of(resolved: ResolvedStack) -> Mapping[str, str]:
    """The image's labels: OCI's own, what each component is of, and those of the stack file, by name."""
    ours = {
        "org.opencontainers.image.title": resolved.stack.name,
        "org.opencontainers.image.base.name": resolved.stack.base.image,
        "org.opencontainers.image.base.digest": resolved.base_digest,
        "io.github.torch-spyre.variant": resolved.variant,
        PYTORCH_LABEL: resolved.pytorch.exact,
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
        return by_digest(one.component.image.name, one.revision)
    git = one.component.git
    assert git is not None  # noqa: S101  # the caller chose
    said = [one.revision, resolved.platform, git.subfolder, git.containerfile, git.target]
    text = json.dumps([*said, resolved.stack.params_of(one.component)])
    return f"{resolved.stack.name}-{one.component.name}:{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def identity_of(resolved: ResolvedStack, containerfile: str, *, index: str = "") -> str:
    """The tag `stack-<20 hex digits>` of what is built from a rendered file.

    The commit of the checkout that builds it goes into a label alone: it changes with every commit, and the
    image does not.

    Args:
        resolved: the stack, named exactly.
        containerfile: as rendered.
        index: tells the package index that steps find from another; see ci.image.build_inputs.index_key.
    """
    said = {
        "containerfile": containerfile,
        "index": index,
        "platform": resolved.platform,
        "start": roles.start_files(resolved.stack),
        "pytorch": [resolved.pytorch.requirement, resolved.pytorch.commit],
        "components": [
            [one.revision, resolved.stack.params_of(one.component)] for one in resolved.components
        ],
        # Who finds the tag in a registry runs no tests: they have to be the ones that it passed.
        "tests": [[one.component.test, one.component.device_test] for one in resolved.components],
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return TAG_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
