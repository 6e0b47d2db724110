"""Every shape of a line that pip prints, and of what metadata requires."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ci.core.errors import BadFileError
from ci.pins.packages import UNKNOWN, changes, is_final, parse_freeze, parse_metadata
from ci.pins.record import Change

KNOWN = {"demo": "1.4", "numpy": "2.1.0"}


@pytest.mark.parametrize(
    ("text", "versions", "origins"),
    [
        ("torch==2.13.0+cu121", {"torch": "2.13.0+cu121"}, {}),
        ("Flash_Attn==2.7.0\r\n", {"flash-attn": "2.7.0"}, {}),
        ("pytz===2004d", {"pytz": "2004d"}, {}),
        ("demo @ file:///croot/demo_17/work", {"demo": "1.4"}, {"demo": "file:///croot/demo_17/work"}),
        ("demo@file:///a.whl#sha256=00", {"demo": "1.4"}, {"demo": "file:///a.whl#sha256=00"}),
        ("demo[cli] @ https://a/b.whl", {"demo": "1.4"}, {"demo": "https://a/b.whl"}),
        ("nobody @ https://a/b.whl", {"nobody": UNKNOWN}, {"nobody": "https://a/b.whl"}),
        (
            "-e git+https://example.com/a/demo@0123#egg=Demo&subdirectory=x",
            {"demo": "1.4"},
            {"demo": "editable git+https://example.com/a/demo@0123#egg=Demo&subdirectory=x"},
        ),
        (
            "# Editable install with no version control (demo==0.9)\n-e /src/demo",
            {"demo": "0.9"},
            {"demo": "editable /src/demo"},
        ),
        (
            "# Editable Git install with no remote (demo==0.9)\n# 'nowhere'\n--editable /src/demo",
            {"demo": "0.9"},
            {"demo": "editable /src/demo"},
        ),
        ("## FIXME: could not find svn URL\n# a comment\n\n   \n", {}, {}),
        ("--index-url https://user:word@example.com/simple\n-r more.txt\n", {}, {}),
    ],
)
def test_a_line_of_pip_is_a_package(text: str, versions: dict[str, str], origins: dict[str, str]) -> None:
    found = parse_freeze(text, KNOWN)
    assert (found.versions, found.origins, found.unread) == (versions, origins, ())


@pytest.mark.parametrize(
    "line",
    [
        "demo @ https://user:s3cret@example.com/demo.whl",
        "demo @ git+https://s3cret@example.com/demo@main",
        "demo @ https://example.com/demo.whl?token=s3cret",
        "-e git+https://user:s3cret@example.com/demo#egg=demo",
        "-e git+https://user:s3cret@example.com/demo",
        "WARNING: cannot ask https://user:s3cret@example.com/",
    ],
)
def test_credentials_of_an_address_are_taken_out(line: str) -> None:
    found = parse_freeze(line, KNOWN)
    assert "s3cret" not in repr(found)
    assert "example.com" in repr(found)


def test_what_is_no_package_is_told() -> None:
    found = parse_freeze("WARNING: Could not parse -ip\ntorch==2.13.0\n-e /src/who", {})
    assert found.versions == {"torch": "2.13.0"}
    assert found.unread == ("WARNING: Could not parse -ip", "-e /src/who")


def test_a_remark_is_of_the_next_editable_line_alone() -> None:
    found = parse_freeze("# Editable install (demo==0.9)\n-e /src/demo\n-e /src/other", {})
    assert (found.versions, found.unread) == ({"demo": "0.9"}, ("-e /src/other",))


@given(st.text(max_size=200))
def test_nothing_an_image_prints_breaks_the_reading(text: str) -> None:
    parse_freeze(text, {})


def metadata(*lines: str, name: str = "Demo_X", version: str = "1.0", kind: str = "2.4") -> bytes:
    head = [f"Metadata-Version: {kind}", f"Name: {name}", f"Version: {version}", *lines]
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
    found = parse_metadata(data, name="demo-x", version=Version("1.0"), where="index")
    assert found.versions == {
        "demo-x": "1.0",
        "torch": "<3,>=2.11",
        "numpy": '>=1.26; python_version < "3.13" | >=2.1; python_version >= "3.13"',
        "accelerate": '[opt]; extra == "all"',
        "requests": "*",
        "own": "@ https://example.com/own.whl",
    }
    assert found.origins == {"own": "https://example.com/own.whl"}
    assert found.unread == ("not a requirement",)


@pytest.mark.parametrize(
    "data", [metadata(name="other"), metadata(version="1.1"), metadata(version="x"), b"", b"\xff\x00"]
)
def test_metadata_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(BadFileError, match=r"its metadata is of .*, not of demo-x 1.0") as caught:
        parse_metadata(data, name="demo-x", version=Version("1.0"), where="demo-1.0.whl")
    assert caught.value.where == "demo-1.0.whl"


@pytest.mark.parametrize(
    ("data", "final"),
    [
        (metadata(), True),
        (metadata("Dynamic: Version"), True),
        (metadata("Dynamic: Requires-Dist"), False),
        (metadata(kind="2.1"), False),
        (metadata(kind="x"), False),
    ],
)
def test_an_sdist_says_whether_its_wheel_will_require_the_same(data: bytes, final: bool) -> None:
    assert is_final(data) is final


def test_only_what_changed_is_told() -> None:
    before = {"torch": "2.12.0", "numpy": "2.1.0", "gone": "1"}
    after = {"torch": "2.13.0", "numpy": "2.1.0", "new": "1"}
    assert changes(["torch", "numpy", "gone", "new", "never"], before, after) == (
        Change(name="gone", before="1", after=None),
        Change(name="new", before=None, after="1"),
        Change(name="torch", before="2.12.0", after="2.13.0"),
    )
