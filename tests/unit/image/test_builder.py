"""What an engine's command is asked to build, and what is made of what it says."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from ci.core.errors import CommandError, DiskFullError, MissingInputError
from ci.image.build_inputs import index_arguments, index_key, write_secrets
from ci.image.builder import BUILDERS, BuildStepError, ImageBuilder, Order, build_error, harmless
from ci.image.pipeline import own_order

from .stacks import COMMIT, TOP, resolved

SECRET = "hunter2"
BUILDKIT = """\
#5 [build-flex 4/8] RUN ["/bin/bash", "-c", "make all"]
#5 0.512 on the way
#5 ERROR: executor failed running [/bin/bash -c make all]: exit code: 7
------
 > [build-flex 4/8] RUN ["/bin/bash", "-c", "make all"]:
#5 0.512 no rule
------
ERROR: failed to solve: executor failed running [/bin/bash -c make all]: exit code: 7"""


def image_builder(name: str = "docker", **more: str) -> ImageBuilder:
    environ = {"https_proxy": f"http://me:{SECRET}@proxy"}
    return ImageBuilder(name=name, environ=environ, echo=lambda _: None, **more)


def order(folder: Path) -> Order:
    (folder / "Containerfile").write_text("FROM x\n")
    args, secrets = {"PARAM_A": SECRET}, {"pip": folder / "pip"}
    return Order(context=folder, target="runtime", args=args, labels={"a": "b"}, secrets=secrets)


@pytest.mark.parametrize("name", BUILDERS)
def test_no_builder_is_told_a_secret_or_a_network_that_nobody_asked_for(name: str, tmp_path: Path) -> None:
    words = image_builder(name).words(order(tmp_path), tmp_path / "id")
    assert words[0] == name
    assert words[-1] == str(tmp_path)
    assert {"--target=runtime", "--label=a=b", "--build-arg=https_proxy", "--build-arg=PARAM_A"} <= set(words)
    assert f"--secret=id=pip,src={tmp_path / 'pip'}" in words
    unasked = ("--network", "--platform", "--cache")
    assert not [one for one in words if SECRET in one or one.startswith(unasked)]


def test_network_platform_and_cache_are_those_of_the_settings(tmp_path: Path) -> None:
    made = image_builder(network="host", platform="linux/s390x", cache="r/x:latest")
    words = made.words(order(tmp_path), tmp_path / "id")
    asked = {"--network=host", "--platform=linux/s390x", "--cache-from=r/x:latest", "--cache-to=type=inline"}
    assert asked <= set(words)


@pytest.mark.parametrize("failed", [BUILDKIT, 'Error: building at STEP "RUN make": exit status 7'])
def test_a_step_that_fails_is_told_with_its_code_and_its_last_lines(failed: str) -> None:
    error = build_error(failed.splitlines())
    assert isinstance(error, BuildStepError)
    first, *lines = error.what.split("\n  | ")
    assert (first, error.exit_code) == ("a step ended with code 7", 1)
    assert "on the way" not in error.what
    if failed == BUILDKIT:
        assert lines[:2] == ['> [build-flex 4/8] RUN ["/bin/bash", "-c", "make all"]:', "#5 0.512 no rule"]


@pytest.mark.parametrize(
    ("said", "kind", "what"),
    [
        ("docker: 'buildx' is not a docker command.", CommandError, "the image cannot be built"),
        ("cp: error writing 'x': No space left on device", DiskFullError, "disk is full"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", DiskFullError, "disk is full"),
        ("Error: At least 12MB more space needed on the / filesystem.", DiskFullError, "disk is full"),
    ],
)
def test_what_a_builder_refuses_is_said(said: str, kind: type[Exception], what: str) -> None:
    error = build_error([said, "exit code: 1"] if kind is DiskFullError else [said])
    assert isinstance(error, kind)
    assert not isinstance(error, BuildStepError)
    assert what in str(error)


OWN = """components:
  - name: x
    git: {url: https://x/y, subfolder: sub, containerfile: c/File, target: made, paths: [{source: /opt/x}]}
args: {JOBS: "2"}
"""


def test_a_components_own_folder_is_the_context_and_no_secret_is_given(tmp_path: Path) -> None:
    stack = resolved(tmp_path, TOP + OWN)
    order = own_order(stack.components[0], stack, tmp_path)
    assert (order.context, order.root) == (tmp_path / "sources/x/sub", tmp_path / "sources/x")
    assert (order.containerfile, order.target, order.args) == ("c/File", "made", {"PARAM_JOBS": "2"})
    assert order.secrets == {}


@pytest.mark.parametrize("name", ["sub", "sub/c", "sub/c/File", None])
def test_a_containerfile_that_is_not_there_or_leads_out_is_refused(tmp_path: Path, name: str | None) -> None:
    outside, source = tmp_path / "outside", tmp_path / "sources/x"
    for folder in (outside / "c", source):
        folder.mkdir(parents=True)
    for path in (outside / "File", outside / "c/File"):
        path.write_text("FROM a")
    if name is not None:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).symlink_to(outside / "File" if name.endswith("File") else outside)
    stack = resolved(tmp_path, TOP + OWN)
    with pytest.raises(MissingInputError, match="there is no c/File") as caught:
        image_builder().build(own_order(stack.components[0], stack, tmp_path))
    assert caught.value.where == f"x, https://x/y at {COMMIT}"


ENVIRON = {
    "PIP_INDEX_URL": "https://me:wo%rd@a/simple",
    "PIP_EXTRA_INDEX_URL": "https://me:word@b/simple https://c/simple",
    "HOME": "/root",
}


def test_components_are_told_the_index_and_pip_its_credentials_in_a_file_of_its_own(tmp_path: Path) -> None:
    told = {"PIP_INDEX_URL": "https://a/simple", "PIP_EXTRA_INDEX_URL": "https://b/simple https://c/simple"}
    assert index_arguments(ENVIRON) == {"PACKAGE_INDEX": index_key(ENVIRON), **told}
    assert index_arguments({}) == {"PACKAGE_INDEX": index_key({})}
    secrets = write_secrets(tmp_path, ENVIRON, tmp_path / "ca.pem")
    assert secrets == {"pip": tmp_path / "pip", "certificates": tmp_path / "ca.pem"}
    assert secrets["pip"].stat().st_mode & 0o777 == 0o600
    read = configparser.RawConfigParser()
    read.read(secrets["pip"])
    assert read["global"]["index-url"] == ENVIRON["PIP_INDEX_URL"]
    assert read["global"]["extra-index-url"].split() == ENVIRON["PIP_EXTRA_INDEX_URL"].split()


def test_an_index_is_told_from_another_and_its_credentials_make_no_difference() -> None:
    assert index_key(ENVIRON) == index_key({**ENVIRON, "PIP_INDEX_URL": "https://a/simple"})
    assert len({index_key(one) for one in (ENVIRON, {}, {"PIP_INDEX_URL": "https://b/simple"})}) == 3


def test_what_a_step_says_is_shown_as_it_is_and_does_nothing() -> None:
    assert harmless("\x1b[31mred\x1b[0m") == "red"
    assert harmless("https_proxy=http://robot:word@proxy:1") == "https_proxy=http://proxy:1"
    assert harmless("  ::add-mask::x") == "|   ::add-mask::x"
    assert "##[" not in harmless("##[error]x")
    assert harmless("std::vector<int>") == "std::vector<int>"
