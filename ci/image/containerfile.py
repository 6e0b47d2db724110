"""Rendering a resolved stack as a Containerfile, with Jinja2; pure.

Every RUN is in the form of a JSON array, so that whatever a step says is one argument of one shell, and no
builder looks for variables in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.image import roles, steps
from ci.image.model import PYTORCH, Component
from ci.image.resolved import ResolvedComponent, ResolvedPytorch, ResolvedStack, by_digest
from ci.image.stack import PREFIX, environment_of, params_of
from ci.image.steps import SETTINGS, VENV, install_python

LABEL = "io.github.torch-spyre.component."
# Where the repository is that PyTorch was built from, where it was.
URL_LABEL = "io.github.torch-spyre.pytorch.url"
WHEEL_DIGITS = 20
SOURCE = "/src/pytorch"
_INSTALL = "pip install --no-cache-dir --no-compile"
CHECK_WHEEL = (
    'shopt -s nullglob; found=("$WHEELS"/torch-*.whl); if [ "${#found[@]}" -ne 1 ]; then ls -la "$WHEELS"; '
    'echo "the steps put ${#found[@]} wheels of torch into \\$WHEELS, and not one"; exit 1; fi'
)


def render(resolved: ResolvedStack) -> str:
    """The Containerfile of a stack; the same stack gives the same text.

    Args:
        resolved: the stack, named exactly.
    """
    stack = resolved.stack
    parts = resolved.components
    built = [_built(one, resolved) for one in parts if one.component.has_steps]
    return (
        _environment()
        .get_template("Containerfile.j2")
        .render(
            variant=resolved.variant,
            **_base(resolved),
            wheel=wheel_name(resolved) if resolved.pytorch.git else "",
            install_pytorch=install_pytorch(resolved.pytorch),
            install_requirements=_requirements(resolved),
            prepare=steps.PREPARE,
            install_wheels=steps.INSTALL_WHEELS,
            prebuilt=[_prebuilt(one, resolved) for one in parts if one.component.copied],
            packaged=[
                {"install": steps.install_files(stack.base.manager, one.files)} for one in parts if one.files
            ],
            built=built,
            tested=[_tested(one.component) for one in parts if one.component.on_runtime],
            make_entry=roles.make_entry(stack),
            entry=roles.ENTRY,
            ports=[roles.PORTS[name] for name in sorted(stack.roles) if name in roles.PORTS],
            make_user=steps.make_user(stack.user),
            user=stack.user,
            environment=environment_of(stack),
            labels=labels_of(resolved),
        )
    )


def _base(resolved: ResolvedStack) -> Mapping[str, str]:
    """What the image and the wheel that is built for it both stand on."""
    base = resolved.stack.base
    return {
        "platform": resolved.platform,
        "base": resolved.base,
        "venv": VENV,
        "install_packages": steps.install_packages(base.manager, base.packages),
        "install_build_packages": steps.install_packages(base.manager, base.build_packages),
        "make_venv": steps.make_venv(base.python, base.python_version),
    }


def _requirements(resolved: ResolvedStack) -> str:
    """What installs the Python packages of components and roles; empty where there are none."""
    wanted = {one for part in resolved.components for one in part.component.requirements}
    wanted |= roles.packages_of(resolved.stack)
    # With PyTorch's own, so that none of them brings another PyTorch.
    pytorch = resolved.pytorch.requirement
    return steps.install_python([*([pytorch] if pytorch else []), *sorted(wanted)]) if wanted else ""


def labels_of(resolved: ResolvedStack) -> Mapping[str, str]:
    """The image's labels: OCI's own, what each component is of, and those of the stack file, by name."""
    ours = {
        "org.opencontainers.image.title": resolved.stack.name,
        "org.opencontainers.image.base.name": resolved.stack.base.image,
        "org.opencontainers.image.base.digest": resolved.base_digest,
        "io.github.torch-spyre.variant": resolved.variant,
        "io.github.torch-spyre.pytorch": resolved.pytorch.commit or resolved.pytorch.requirement,
    }
    if resolved.pytorch.git is not None:
        ours[URL_LABEL] = resolved.pytorch.git.url
    told = {f"{LABEL}{name}": revision for name, revision in resolved.revisions.items()}
    return dict(sorted({**resolved.stack.labels, **ours, **told, **roles.labels_of(resolved.stack)}.items()))


def quoted(value: str) -> str:
    """A value for ENV and LABEL: no variable, quote or line end in it means anything."""
    escaped = re.sub(r'([\\"$])', r"\\\1", value)
    if re.search(r"[\x00-\x1f\x7f]", escaped):
        raise ValueError(f"{value!r} holds control characters")
    return f'"{escaped}"'


def run(script: str) -> str:
    """A RUN line of a script for a shell that ends at the first step that fails."""
    return "RUN " + json.dumps([*steps.SHELL, script])


def _prebuilt(one: ResolvedComponent, resolved: ResolvedStack) -> Mapping[str, Any]:
    component = one.component
    image = by_digest(component.image.name, one.digest) if component.image else own_image(one, resolved)
    return {"name": component.name, "image": image, "paths": _paths(component)}


def _paths(component: Component) -> list[Mapping[str, str]]:
    return [{"source": path.source, "target": path.target or path.source} for path in component.copied]


def own_image(one: ResolvedComponent, resolved: ResolvedStack) -> str:
    """The name that the image of a component's own Containerfile has in the engine; no registry has it.

    Args:
        one: a component with `containerfile`.
        resolved: its stack.
    """
    git = one.component.git
    assert git is not None  # noqa: S101  # the caller chose
    said = [one.revision, resolved.platform, git.subfolder, git.containerfile, git.target]
    text = json.dumps([*said, params_of(resolved.stack, one.component)])
    return f"{resolved.stack.name}-{one.component.name}:{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def _built(one: ResolvedComponent, resolved: ResolvedStack) -> Mapping[str, Any]:
    component = one.component
    assert component.git is not None  # noqa: S101  # the caller chose
    return {
        "name": component.name,
        "builder": "pytorch-builder" if PYTORCH in component.needs else "builder",
        "params": params_of(resolved.stack, component),
        "installs": [
            steps.install_files(resolved.stack.base.manager, other.files)
            for other in resolved.components
            if other.files and other.component.name in component.needs
        ],
        "copies": [copy for need in component.needs for copy in _copies(need, resolved)],
        "subfolder": _below(component),
        "steps": [steps.with_settings(step) for step in component.git.steps],
    }


def _copies(need: str, resolved: ResolvedStack) -> list[Mapping[str, str]]:
    """What a build finds of a component it needs."""
    one = resolved.stack.component(need)
    if one is None or one.files:
        return []
    if one.has_steps:
        return [{"stage": f"build-{need}", "source": "/out/root/", "target": "/"}]
    return [{"stage": f"image-{need}", **path} for path in _paths(one)]


def _tested(component: Component) -> Mapping[str, Any]:
    install = steps.install_python(component.development) if component.development else ":"
    return {"name": component.name, "subfolder": _below(component), "install": install}


def _below(component: Component) -> str:
    return f"/{component.git.subfolder}" if component.git and component.git.subfolder else ""


def render_wheel(resolved: ResolvedStack, *, cache_of: str = "") -> str:
    """The Containerfile of PyTorch's wheel, built from its repository on the stack's base.

    Args:
        resolved: the stack, with a PyTorch that is built.
        cache_of: an image with a compiler's cache that an earlier build left; empty: none.
    """
    stack, pytorch = resolved.stack, resolved.pytorch
    assert pytorch.git is not None  # noqa: S101  # the caller chose
    return (
        _environment()
        .get_template("Wheel.j2")
        .render(
            commit=pytorch.commit,
            **_base(resolved),
            params={f"{PREFIX}{name}": stack.args[name] for name in sorted(stack.args)},
            cache_of=cache_of,
            subfolder=f"/{pytorch.git.subfolder}" if pytorch.git.subfolder else "",
            prepare=prepare_source(pytorch.commit),
            steps=[steps.with_settings(step) for step in pytorch.git.steps],
            check=CHECK_WHEEL,
        )
    )


def wheel_name(resolved: ResolvedStack) -> str:
    """The name, with its tag, under which the engine has the image with PyTorch's wheel.

    The tag is a hash of all that goes into the wheel. The cache of an earlier build is not among it: it makes
    a build faster, and no other.
    """
    text = f"{resolved.platform}\n{render_wheel(resolved)}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:WHEEL_DIGITS]
    return f"{resolved.stack.name}-pytorch:wheel-{digest}"


@cache
def _environment() -> Environment:
    # Not for a page: what is put in is quoted for a builder, by `run` and `quoted`.
    made = Environment(
        loader=PackageLoader("ci.image"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701
    )
    made.globals.update(run=run, quoted=quoted)
    return made


def install_pytorch(pytorch: ResolvedPytorch) -> str:
    """Install PyTorch: the wheel that was built, that of an index, or that of the build's own index.

    What it needs comes from the build's own index, and where that lacks it, from the wheel's.
    """
    if pytorch.git is not None:
        return f"{SETTINGS}; {_INSTALL} /wheels/*.whl"
    if not pytorch.index:
        return install_python([pytorch.requirement])
    hashed = (
        f"{pytorch.requirement} --hash=sha256:{pytorch.sha256}" if pytorch.sha256 else pytorch.requirement
    )
    index, name = shlex.quote(pytorch.index), shlex.quote(pytorch.requirement)
    # A hash can be given in a file of requirements alone.
    wheel = f"{_INSTALL} --no-deps --index-url {index} -r /dev/stdin <<< {shlex.quote(hashed)}"
    return f"{SETTINGS}; {wheel}; {_INSTALL} --extra-index-url {index} {name}"


def prepare_source(commit: str) -> str:
    """Folders for what is built, and of Git's what tells PyTorch's build its commit.

    Args:
        commit: 40 hex digits; goes into torch.version.git_version, and with it the version.
    """
    git = f"{SOURCE}/.git"
    return f'mkdir -p "$WHEELS" "$CCACHE_DIR" {git}/objects {git}/refs; echo {commit} > {git}/HEAD'
