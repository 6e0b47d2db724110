"""The environment tests are collected and run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.steps.collecting import _huge_pages, without_job_secrets


@pytest.mark.parametrize(
    ("kernel", "environ", "added"),
    [
        ("always [madvise] never\n", {}, {"THP_MEM_ALLOC_ENABLE": "1"}),
        ("always [madvise] never\n", {"THP_MEM_ALLOC_ENABLE": "0"}, {}),
        ("[always] madvise never\n", {}, {}),
        ("always madvise [never]\n", {}, {}),
        (None, {}, {}),
    ],
)
def test_tensors_get_huge_pages_where_the_kernel_has_them_for_who_asks(
    kernel: str | None, environ: dict[str, str], added: dict[str, str], tmp_path: Path
) -> None:
    told = tmp_path / "enabled"
    if kernel is not None:
        told.write_text(kernel, encoding="ascii")
    assert _huge_pages(environ, told) == added


def test_tests_are_not_told_of_the_share() -> None:
    environ = {"SPYRE_CI_SHARE_PASSWORD": "x", "SPYRE_CI__RUN__SHARE": "redis://:x@h", "PATH": "/bin"}
    assert without_job_secrets(environ) == {"PATH": "/bin"}


def test_tests_are_given_no_token_of_the_job_and_nothing_that_steers_it() -> None:
    names = [
        "SPYRE_CI_HUD_TOKEN",
        "GITHUB_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
        "GITHUB_ENV",
        "GITHUB_PATH",
    ]
    environ = {**dict.fromkeys(names, "x"), "GITHUB_ACTIONS": "true", "PATH": "/bin"}
    assert without_job_secrets(environ) == {"GITHUB_ACTIONS": "true", "PATH": "/bin"}
