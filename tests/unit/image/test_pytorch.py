"""Which PyTorch an image gets: what pip is asked and answers, how it is rendered, and what labels tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, CommandError, FileSystemError, MissingInputError, SettingsError
from ci.image.containerfile import COMMIT_LABEL, URL_LABEL, install_pytorch, render
from ci.image.model import NIGHTLY_INDEX, Git
from ci.image.resolved import ResolvedPytorch, ResolvedStack, identity_of
from ci.image.stack import read_stack
from ci.image.torch_wheels import Wanted, arguments, environment, refusal, wheel_of
from ci.image.tree import PYTORCH_URL, Origin, put_tree, told_origin
from ci.runner.checkout import COMMIT_FILE

STACK = """version: 1
name: runtime
base:
  image: debian:bookworm
  packages: [python3-venv]
  build_packages: [ccache, git]
  python_version: "3.11"
variants:
  pinned: {version: 2.13.0}
  main: {nightly: true}
  source:
    git:
      url: https://github.com/pytorch/pytorch.git
      steps: ['pip install -r requirements.txt', 'python setup.py bdist_wheel --dist-dir "$WHEELS"']
args: {JOBS: "2"}
"""
WANTED = Wanted(index="https://example.com/whl", version="2.13.0", python="3.12", platform="linux/amd64")
COMMIT = "a" * 40


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedStack:
    path = tmp_path / "stack.yaml"
    path.write_text(STACK)
    stack = read_stack(path)
    return ResolvedStack(
        stack=stack,
        variant="source",
        platform="linux/amd64",
        base_digest="sha256:" + "d" * 64,
        pytorch=ResolvedPytorch(requirement="", commit=COMMIT, git=stack.variants["source"].git),
        components=(),
    )


def test_pip_is_asked_for_the_image_and_not_for_where_it_runs() -> None:
    words = arguments(replace(WANTED, platform="linux/s390x"))
    assert words[-1] == "torch==2.13.0"
    assert "--pre" not in words
    assert words[words.index("--python-version") + 1] == "3.12"
    assert words[words.index("--abi") + 1] == "cp312"
    tags = [word.removeprefix("--platform=") for word in words if word.startswith("--platform=")]
    assert tags[0] == "manylinux_2_34_s390x"
    assert tags[-2:] == ["manylinux2014_s390x", "linux_s390x"]
    nightly = arguments(replace(WANTED, version=None))
    assert nightly[-2:] == ["--pre", "torch"]


def test_no_other_place_gives_the_wheel_and_credentials_stay() -> None:
    given = {
        "PIP_EXTRA_INDEX_URL": "https://elsewhere",
        "PIP_FIND_LINKS": "/wheels",
        "PIP_CONSTRAINT": "x",
        "PIP_CERT": "/ca",
        "HTTPS_PROXY": "http://proxy",
    }
    made = environment(WANTED, given, empty="/empty")
    assert {made["PIP_INDEX_URL"], made["PIP_EXTRA_INDEX_URL"]} == {"https://example.com/whl"}
    assert made["PIP_FIND_LINKS"] == "/empty"
    assert (made["PIP_CERT"], made["HTTPS_PROXY"]) == ("/ca", "http://proxy")
    assert "PIP_CONSTRAINT" not in made


def report(**info: object) -> str:
    one = {
        "download_info": {"url": "https://x", **info},
        "metadata": {"name": "torch", "version": "2.13.0+cpu"},
    }
    return json.dumps({"version": "1", "install": [one]})


def test_a_report_tells_the_version_and_the_hash_where_it_is_known() -> None:
    known = report(archive_info={"hashes": {"sha256": "e" * 64}})
    assert wheel_of(known, "x") == ("2.13.0+cpu", "e" * 64)
    assert wheel_of(report(archive_info={}), "x") == ("2.13.0+cpu", "")


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"install": []}', '{"install": [{}]}', '{"install": [1]}'])
def test_what_is_no_report_is_said(said: str) -> None:
    with pytest.raises(CommandError, match="pip's report of https://x cannot be read"):
        wheel_of(said, "https://x")


@pytest.mark.parametrize(
    ("said", "kind", "what"),
    [
        (
            "python: No module named pip",
            CommandError,
            "pip cannot look up torch: python: No module named pip",
        ),
        ("took longer than 900 s: pip", CommandError, "pip cannot look up torch: took longer"),
        (
            "ended with code 1: pip\n  | WARNING: Retrying after connection broken by 'X'\n  | ERROR: none",
            CommandError,
            "pip cannot look up torch: WARNING: Retrying after connection broken by 'X'",
        ),
        (
            "ERROR: Could not find a version that satisfies torch==2.13.0 (from versions: 2.11.0, 2.12.0)",
            MissingInputError,
            "the index has no torch 2.13.0 for Python 3.12 on linux/amd64: it has 2.11.0, 2.12.0",
        ),
        ("ERROR: (from versions: none)", MissingInputError, "it has none for these"),
        ("something of https://me:word@example.com/x", CommandError, "something of https://"),
    ],
)
def test_what_pip_refuses_is_said(said: str, kind: type[Exception], what: str) -> None:
    error = refusal(WANTED, CommandError(said))
    assert isinstance(error, kind)
    assert what in str(error)
    assert "word" not in str(error)


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("{git: {url: https://x/y, steps: [a]}, index: https://x}", "has git and index"),
        ("{version: 2.13.0, index: 'https://me:word@x'}", "variants.pinned.index"),
        ("{version: 2.13.0, index: 'https://x?token=1'}", "variants.pinned.index"),
        ("{nightly: true}", "pinned takes a wheel of an index, and nothing says for which Python"),
        ("{version: 2.13.0, index: 'https://x/whl'}", "nothing says for which Python"),
    ],
)
def test_a_variant_that_cannot_be_taken_is_said(tmp_path: Path, variant: str, said: str) -> None:
    path = tmp_path / "stack.yaml"
    path.write_text(f"version: 1\nname: a\nbase: {{image: debian}}\nvariants: {{pinned: {variant}}}\n")
    with pytest.raises(SettingsError, match=said) as caught:
        read_stack(path)
    assert str(caught.value.where).endswith(":4")


def test_a_nightly_has_an_index(resolved: ResolvedStack) -> None:
    variants = resolved.stack.variants
    assert [variants[name].wheel_index for name in ("pinned", "main", "source")] == [
        None,
        NIGHTLY_INDEX,
        None,
    ]


def test_a_wheel_of_an_index_is_pinned_by_its_hash_and_a_release_is_left_to_the_build() -> None:
    known = ResolvedPytorch(requirement="torch==2.13.0+cpu", index="https://x/whl", sha256="e" * 64)
    text = install_pytorch(known)
    assert f"--index-url https://x/whl -r /dev/stdin <<< 'torch==2.13.0+cpu --hash=sha256:{'e' * 64}'" in text
    assert text.endswith('--extra-index-url https://x/whl torch==2.13.0+cpu"]')
    assert "--hash" not in install_pytorch(replace(known, sha256=""))
    assert "-index" not in install_pytorch(ResolvedPytorch(requirement="torch==2.13.0"))


def test_a_pytorch_from_source_is_rendered(
    resolved: ResolvedStack, golden: Callable[[str, str], None]
) -> None:
    golden("image/Containerfile-source", render(resolved))


def test_the_tag_is_of_all_that_goes_into_a_pytorch_that_is_built(resolved: ResolvedStack) -> None:
    git = resolved.pytorch.git
    assert isinstance(git, Git)
    others = [
        replace(resolved, platform="linux/s390x"),
        replace(resolved, pytorch=replace(resolved.pytorch, commit="b" * 40)),
        replace(resolved, pytorch=replace(resolved.pytorch, git=git.model_copy(update={"steps": ("make",)}))),
        replace(resolved, stack=resolved.stack.model_copy(update={"args": {"JOBS": "3"}})),
    ]
    assert len({identity_of(one, render(one)) for one in [resolved, *others]}) == 1 + len(others)


def test_labels_tell_where_an_image_is_from() -> None:
    labels = {COMMIT_LABEL: COMMIT}
    assert told_origin(labels, "x") == Origin(url=PYTORCH_URL, commit=COMMIT)
    fork = {**labels, URL_LABEL: "https://example.com/fork.git"}
    assert told_origin(fork, "x").url == "https://example.com/fork.git"
    assert told_origin(fork, "x", url="https://mirror/x.git").url == "https://mirror/x.git"


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({}, f"its label {COMMIT_LABEL} is ''"),
        ({COMMIT_LABEL: "--upload-pack=x"}, "is '--upload-pack=x'"),
        ({COMMIT_LABEL: COMMIT, URL_LABEL: "ext::sh -c id"}, f"its label {URL_LABEL} names no repository"),
    ],
)
def test_labels_that_tell_nothing_are_refused(labels: dict[str, str], said: str) -> None:
    with pytest.raises(BadFileError, match="x: ") as caught:
        told_origin(labels, "x")
    assert said in caught.value.what


def test_a_tree_that_is_there_is_left_and_anything_else_is_refused(tmp_path: Path) -> None:
    lines: list[str] = []
    origin = Origin(url="file:///nowhere", commit=COMMIT)
    folder = tmp_path / "tree"
    folder.mkdir()
    mark = folder / COMMIT_FILE
    mark.write_text(f"{COMMIT}\n")
    put_tree(origin, folder, environ={}, echo=lines.append)
    assert lines == [f"{folder} is PyTorch {COMMIT} already"]
    for text, said in (("b" * 40, "holds " + "b" * 40), ("what", "holds something else")):
        mark.write_text(text)
        with pytest.raises(FileSystemError, match=said):
            put_tree(origin, folder, environ={}, echo=lines.append)
    with pytest.raises(FileSystemError, match="holds something else"):
        put_tree(origin, mark, environ={}, echo=lines.append)
    assert [path.name for path in tmp_path.rglob("*")] == ["tree", COMMIT_FILE]
