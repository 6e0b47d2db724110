"""Stacks whose parts are named exactly without a network: every commit, digest and hash is made up."""

from __future__ import annotations

from pathlib import Path

from ci.image.model import Component
from ci.image.resolve import ResolvedComponent, ResolvedPytorch, ResolvedStack
from ci.image.stack import read_stack

COMMIT, DIGEST, SHA256 = "a" * 40, "sha256:" + "d" * 64, "c" * 64
TOP = """version: 1
name: runtime
base: {image: "registry.example:5000/debian:bookworm", python_version: "3.11"}
variants: {pinned: {version: 2.13.0}}
"""

# One of everything.
STACK = """version: 1
name: spyre-runtime
base:
  image: registry.example:5000/debian:bookworm
  packages: [python3-venv, ca-certificates]
  build_packages: [gcc, cmake]
  python_version: "3.11"
variants:
  pinned: {version: 2.13.0}
  source:
    git:
      url: https://github.com/pytorch/pytorch.git
      steps: ['pip install -r requirements.txt', 'python setup.py bdist_wheel --dist-dir "$WHEELS"']
args: {JOBS: "2"}
environment: {LANG: C.UTF-8, GREETING: 'say "hi" to $HOME'}
labels: {org.opencontainers.image.licenses: Apache-2.0}
roles:
  notebook: {command: 'jupyter lab --port="$PORT"', packages: [jupyterlab], check: [a b]}
components:
  - name: torch-spyre
    needs: [pytorch, flex, drivers]
    git:
      url: https://github.com/torch-spyre/torch-spyre.git
      subfolder: python
      steps: ['pip wheel --no-deps -w "$WHEELS" .']
    test: [python -m pytest --junit-xml="$JUNIT_DIR/unit.xml" tests]
    test_on: runtime
    requirements: [regex, "numpy>=2"]
    development: [pytest>=8, expecttest]
  - name: flex
    needs: [senlib]
    args: {BUILD_TYPE: Release}
    git:
      url: https://github.com/torch-spyre/flex.git
      steps: [cmake -B build, 'cmake --install build --prefix "$DESTDIR/usr"']
    environment: {FLEX_HOME: /usr/lib/flex}
  - name: senlib
    image: {name: "registry.example:5000/senlib:1", paths: [{source: /opt/senlib}, {source: /a, target: /b}]}
  - name: comms
    git: {url: "https://example.com/comms.git", containerfile: Dockerfile, paths: [{source: /opt/comms}]}
  - name: drivers
    files: [packages/drivers_1.2_amd64.deb, packages/b.whl]
"""


def named_exactly(component: Component) -> ResolvedComponent:
    files = dict.fromkeys(component.files, SHA256)
    revision = COMMIT if component.git else DIGEST if component.image else f"sha256:{SHA256}"
    return ResolvedComponent(component=component, revision=revision, files=files)


def resolved(folder: Path, text: str, variant: str = "pinned") -> ResolvedStack:
    """The stack of a text.

    Args:
        folder: takes its file.
        text: of the file.
        variant: of its PyTorch.
    """
    path = folder / "stack.yaml"
    path.write_text(text)
    stack = read_stack(path)
    said = stack.variants[variant]
    release = ResolvedPytorch(requirement=f"torch=={said.version}")
    built = ResolvedPytorch(requirement="", commit=COMMIT, git=said.git)
    return ResolvedStack(
        stack=stack,
        variant=variant,
        platform="linux/amd64",
        base_digest=DIGEST,
        pytorch=built if said.git else release,
        components=tuple(map(named_exactly, stack.components)),
    )
