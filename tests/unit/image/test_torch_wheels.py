"""Which wheel of torch an index has: what pip is asked, and what is made of its answer."""

from __future__ import annotations

import json

import pytest

from ci.core.errors import CommandError, MissingInputError
from ci.image.torch_wheels import arguments, environment, refusal, wheel_of

INDEX = "https://example.com/whl"


def test_pip_is_asked_for_the_image_and_not_for_where_it_runs() -> None:
    words = arguments("2.13.0", python="3.12", platform="linux/s390x")
    assert words[-1] == "torch==2.13.0"
    assert "--pre" not in words
    assert words[words.index("--python-version") + 1] == "3.12"
    assert words[words.index("--abi") + 1] == "cp312"
    tags = [word.removeprefix("--platform=") for word in words if word.startswith("--platform=")]
    assert tags[0] == "manylinux_2_34_s390x"
    assert tags[-2:] == ["manylinux2014_s390x", "linux_s390x"]
    assert arguments(None, python="3.12", platform="linux/amd64")[-2:] == ["--pre", "torch"]


def test_no_other_place_gives_the_wheel_and_credentials_stay() -> None:
    kept = {"PIP_CERT": "/ca", "HTTPS_PROXY": "http://proxy"}
    others = {"PIP_EXTRA_INDEX_URL": "https://elsewhere", "PIP_FIND_LINKS": "/wheels", "PIP_CONSTRAINT": "x"}
    ours = {"PIP_INDEX_URL": INDEX, "PIP_EXTRA_INDEX_URL": INDEX, "PIP_FIND_LINKS": "/empty"}
    made = environment(INDEX, kept | others, empty="/empty")
    assert made == {**kept, **ours, "PIP_CONSTRAINT": "/dev/null", "PIP_NO_INDEX": "0", "LC_ALL": "C"}


def test_a_report_tells_the_version_and_the_hash_where_it_is_known() -> None:
    for hashes, sha256 in (({"hashes": {"sha256": "e" * 64}}, "e" * 64), ({}, "")):
        info = {"url": "https://x", "archive_info": hashes}
        one = {"download_info": info, "metadata": {"name": "torch", "version": "2.13.0+cpu"}}
        assert wheel_of(json.dumps({"version": "1", "install": [one]}), "x") == ("2.13.0+cpu", sha256)


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
            "the index has no torch 2.13.0 for Python 3.12: it has 2.11.0, 2.12.0",
        ),
        ("ERROR: (from versions: none)", MissingInputError, "it has none for this Python and platform"),
        ("something of https://me:word@example.com/x", CommandError, "something of https://"),
    ],
)
def test_what_pip_refuses_is_said(said: str, kind: type[Exception], what: str) -> None:
    error = refusal(said, INDEX, "torch 2.13.0 for Python 3.12")
    assert isinstance(error, kind)
    assert what in str(error)
    assert "word" not in str(error)
