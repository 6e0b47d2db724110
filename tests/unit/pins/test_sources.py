"""What is read of an image's answers and of metadata, and which file of an index speaks for a release."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ci.core.errors import BadFileError
from ci.package.index_client import IndexFile
from ci.pins.image_source import created, told
from ci.pins.index_source import _chosen, _release, parse_metadata
from ci.pins.recording import UntoldError


def said(found: object, source: str = "") -> str:
    return base64.b64encode(json.dumps({"found": found, "source": source}).encode()).decode()


def test_packages_and_where_they_are_from_are_told_without_credentials() -> None:
    found = {
        "Demo_X": ["1.0", ""],
        "own": ["2", json.dumps({"url": "file:///src", "dir_info": {"editable": True}})],
        "git": ["3", json.dumps({"url": "https://user:s3cret@h/git", "vcs_info": {"vcs": "git"}})],
    }
    packages, origins, source = told(said(found, base64.b64encode(b"PK\5\6" + bytes(18)).decode()), "image")
    assert packages == {"demo-x": "1.0", "own": "2", "git": "3"}
    assert origins == {"own": "editable file:///src", "git": "https://h/git"}
    assert source.namelist() == []


@given(
    st.text(max_size=100)
    | st.builds(said, st.sampled_from([3, [3], {"a": 3}, {"a": ["1", "{"]}, {"a": ["1", "[]"]}]))
)
def test_whatever_an_image_prints_is_packages_or_an_error_of_ours(text: str) -> None:
    with pytest.raises(UntoldError, match="its Python prints no usable list of packages"):
        told(text, "image")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-03-01T10:00:00.123456789Z", datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)),
        ("2026-03-01T12:00:00+02:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("1970-01-01T00:00:00Z", None),
        (None, None),
    ],
)
def test_when_an_image_was_made_is_what_can_be(text: str | None, at: datetime | None) -> None:
    assert created({"Created": text}) == at


def listed(name: str, *, yanked: str | None = None) -> IndexFile:
    return IndexFile(filename=name, url=f"https://index/{name}", sha256=name[-12:], yanked=yanked)


def test_a_wheel_for_every_platform_speaks_for_a_release_then_one_for_linux_then_the_sdist() -> None:
    order = [
        listed("demo-1.0-py3-none-any.whl"),
        listed("demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"),
        listed("demo-1.0-cp311-cp311-macosx_11_0_arm64.whl"),
        listed("demo-1.0.tar.gz"),
        listed("demo-1.0-1-py3-none-any.whl", yanked="broken"),
    ]
    for place, wanted in enumerate(order):
        assert _chosen([*order[:place:-1], wanted]) == wanted
    release = _release(Version("1.0"), order)
    assert (release.sha, release.also) == (order[0].sha256, frozenset(one.sha256 for one in order))
    assert release.yanked is None
    assert _release(Version("1.0"), order[-1:]).yanked == "broken"


def metadata(*lines: str, name: str = "Demo_X", version: str = "1.0") -> bytes:
    head = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines]
    return ("\n".join(head) + "\n\nText: Requires-Dist: not-this\n").encode()


def test_metadata_tells_what_is_required_as_written_there() -> None:
    data = metadata(
        "Requires-Dist: torch<3,>=2.11",
        "Requires-Dist: NumPy (>=1.26) ; python_version < '3.13'",
        "Requires-Dist: numpy>=2.1; python_version >= '3.13'",
        "Requires-Dist: accelerate[opt]; extra == 'all'",
        "Requires-Dist: requests",
        "Requires-Dist: demo-x[all]; extra == 'everything'",
        "Requires-Dist: own @ https://user:s3cret@example.com/own.whl",
        "Requires-Dist: not a requirement",
    )
    lines: list[str] = []
    packages, origins = parse_metadata(data, "demo-x", Version("1.0"), where="index", echo=lines.append)
    assert packages == {
        "demo-x": "1.0",
        "torch": "<3,>=2.11",
        "numpy": '>=1.26; python_version < "3.13" | >=2.1; python_version >= "3.13"',
        "accelerate": '[opt]; extra == "all"',
        "requests": "*",
        "own": "@ https://example.com/own.whl",
    }
    assert origins == {"own": "https://example.com/own.whl"}
    assert lines == ["index: not a requirement: not a requirement"]


@pytest.mark.parametrize(
    "data", [metadata(name="other"), metadata(version="1.1"), metadata(version="x"), b"", b"\xff\x00"]
)
def test_metadata_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(BadFileError, match=r"its metadata is for .*, not for demo-x 1.0") as caught:
        parse_metadata(data, "demo-x", Version("1.0"), where="demo-1.0.whl", echo=print)
    assert caught.value.where == "demo-1.0.whl"
