"""The ledger of a package from a real index: whatever a release is made of, and whatever is wrong with it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.core.errors import SettingsError
from ci.pins.compatibility import broken
from tests.engine import served
from tests.integration.package.publish.servers import Front, fronted, pypiserver
from tests.packages import make_sdist, make_wheel, metadata_of
from tests.pins_desk import Desk

NEEDS = {"Requires-Dist": "torch>=2.11,<3", "Requires-Dist#2": "numpy; extra == 'all'"}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[Front, str]]:
    """A pypiserver, and what stands before it."""
    for name in ("pypiserver", "passlib", "pypi_simple", "griffe"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not found")
    with pypiserver(tmp_path / "index") as address, fronted(address) as pair:
        yield pair


@pytest.fixture
def packages(tmp_path: Path, index: tuple[Front, str]) -> Path:  # noqa: ARG001  # makes it
    return tmp_path / "index" / "packages"


@pytest.fixture
def desk(tmp_path: Path, index: tuple[Front, str]) -> Desk:
    return tracking(tmp_path, f"{index[1]}/simple/")


def tracking(tmp_path: Path, address: str, **more: object) -> Desk:
    folder = tmp_path / "checkout"
    folder.mkdir(exist_ok=True)
    track = {"package": "demo", "index": address, "direct": ["torch"], **more}
    tracks = {"demo": track, "other": {**track, "package": "nowhere"}}
    (folder / "spyre-ci.yaml").write_text(json.dumps({"pins": {"tracks": tracks}}))
    return Desk(folder=folder)


def test_every_release_of_an_index_is_recorded_once(packages: Path, desk: Desk) -> None:
    make_wheel(packages, version="1.9", fields={"Requires-Dist": "torch==2.11.0"})
    wheel = make_wheel(packages, version="1.10", fields=NEEDS)
    make_wheel(packages, version="1.10", fields=NEEDS, tag="cp311-cp311-linux_x86_64")
    make_wheel(packages, version="2.0rc1", fields=NEEDS)
    make_sdist(packages, version="1.11", fields=NEEDS)
    assert "demo: 4 recorded, 0 known, 0 failed" in desk.pins("record", "demo")
    first, second, third, last = desk.records("demo")
    assert [(one.version, one.read_by) for one in (first, second, third, last)] == [
        ("1.9", "METADATA"), ("1.10", "METADATA"), ("1.11", "PKG-INFO"), ("2.0rc1", "METADATA")
    ]  # fmt: skip
    assert first.packages == {"demo": "1.9", "torch": "==2.11.0"}
    assert second.packages == {"demo": "1.10", "torch": "<3,>=2.11", "numpy": '; extra == "all"'}
    assert (first.previous, second.previous) == ("", f"1.9-{first.sha[:12]}.json")
    assert [list(map(str, one.changes)) for one in (second, third)] == [["torch ==2.11.0 -> <3,>=2.11"], []]
    assert second.sha == hashlib.sha256(wheel.read_bytes()).hexdigest()
    before = desk.records("demo")
    assert desk.pins("record", "demo") == "demo: 0 recorded, 4 known, 0 failed\n"
    assert desk.records("demo") == before


def test_one_release_is_recorded_by_name_with_what_is_said_of_it(packages: Path, desk: Desk) -> None:
    make_wheel(packages, version="1.0")
    make_wheel(packages, version="2.0", tag="cp311-cp311-linux_x86_64")
    one = ("record", "demo", "--release", "2.0", "--flag")
    desk.pins(*one, "major")
    assert "demo: 2.0 is now flagged performance" in desk.pins(*one, "performance")
    assert [(one.version, one.flags) for one in desk.records("demo")] == [("2.0", ("major",))]
    assert [one.kind for one in desk.events("demo")] == ["flagged"]
    # Another wheel of a release is no other release; other bytes of it are.
    make_wheel(packages, version="2.0")
    assert "1 recorded, 1 known" in desk.pins("record", "demo")
    make_wheel(packages, version="1.0", files={"demo/__init__.py": "ANSWER = 43\n"})
    said = desk.pins("record", "demo")
    assert re.search(r"1\.0 has changed: [0-9a-f]{12} is recorded, and the source has [0-9a-f]{12}", said)


def test_what_is_no_such_wheel_is_not_recorded_and_holds_up_no_other(
    packages: Path, desk: Desk, index: tuple[Front, str]
) -> None:
    make_wheel(packages, version="1.0")
    wheel = make_wheel(packages, version="1.1")
    right, wrong = hashlib.sha256(wheel.read_bytes()).hexdigest().encode(), b"0" * 64
    index[0].edit = lambda page: page.replace(right, wrong)
    desk.pins("record", "demo", code=1)
    assert [one.version for one in desk.records("demo")] == ["1.0"]
    assert (
        f"demo 1.1 was not recorded: {index[1]}/simple/: demo-1.1-py3-none-any.whl does not match its"
        in desk.err
    )
    index[0].edit = lambda page: page
    cut = make_wheel(packages, version="1.2")
    cut.write_bytes(cut.read_bytes()[:200])
    for version, made in (("1.3", ("other", "1.3")), ("1.4", ("demo", "2.0"))):
        bytes_of = make_wheel(packages.parent / "made", *made).read_bytes()
        make_wheel(packages, version=version).write_bytes(bytes_of)
    desk.pins("record", "demo", code=2)
    assert all(f"demo {version} was not recorded: " in desk.err for version in ("1.2", "1.3", "1.4"))
    assert [one.version for one in desk.records("demo")] == ["1.0", "1.1"]


def test_an_index_without_hashes_is_taken_at_its_versions(
    packages: Path, desk: Desk, index: tuple[Front, str]
) -> None:
    wheel = make_wheel(packages, version="1.0")
    index[0].edit = lambda page: re.sub(rb"#sha256=[0-9a-f]+", b"", page)
    desk.pins("record", "demo")
    assert [one.sha for one in desk.records("demo")] == [hashlib.sha256(wheel.read_bytes()).hexdigest()]
    assert "0 recorded, 1 known" in desk.pins("record", "demo")


def test_an_index_that_does_not_tell_is_said(
    tmp_path: Path, packages: Path, desk: Desk, index: tuple[Front, str]
) -> None:
    desk.pins("record", "demo", code=2)
    assert "the index has no release of demo " in f"{desk.err} "
    make_wheel(packages)
    desk.pins("record", "demo", "--release", "9", code=2)
    assert "the index has no release of demo 9" in desk.err
    index[0].page_status = 401
    desk.pins("record", "demo", code=2)
    assert "its simple API requires a login" in desk.err
    assert "~/.netrc" in desk.err
    index[0].down = True
    desk.pins("record", "demo", code=3)
    assert "it cannot be reached" in desk.err
    with pytest.raises(SettingsError, match="contains a query, a fragment or cred") as caught:
        tracking(tmp_path, "https://user:s3cret@example.com/simple/").pins("record", "demo")
    assert "s3cret" not in str(caught.value)


def test_signatures_are_read_of_entry_points_and_of_what_suites_call(
    packages: Path, tmp_path: Path, desk: Desk
) -> None:
    address = json.loads((desk.folder / "spyre-ci.yaml").read_text())["pins"]["tracks"]["demo"]["index"]
    suite = {"name": "speed", "calls": ["demo:run", "demo.core:main"]}
    tracked = tracking(tmp_path, address, entry_points=["demo:run", "demo.gone:run"], suites=[suite])
    inside = {"demo/__init__.py": "from .core import *\n", "demo/core.py": "def run(model, steps=3): ...\n"}
    make_wheel(packages, version="1.0", files=inside)
    make_wheel(packages, version="2.0", files={**inside, "demo/core.py": "def run(model, *, steps): ...\n"})
    tracked.pins("record", "demo")
    first, second = tracked.records("demo")
    assert [(one.name, one.kind, one.default) for one in first.signatures["demo:run"] or ()] == [
        ("model", "positional or keyword", None), ("steps", "positional or keyword", "3")
    ]  # fmt: skip
    assert second.signatures["demo.gone:run"] is second.signatures["demo.core:main"] is None
    assert broken(first.signatures["demo:run"] or (), second.signatures["demo:run"] or ()) == [
        "steps no longer has a default", "steps is now keyword-only",
    ]  # fmt: skip


def test_a_track_that_cannot_be_asked_holds_up_no_other_and_machines_are_told(
    packages: Path, desk: Desk
) -> None:
    make_wheel(packages, version="1.0")
    make_wheel(packages, version="1.1").write_bytes(b"nothing")
    found = json.loads(desk.pins("record", "--json", code=2))
    assert [one["version"] for one in found["tracks"]["demo"]["written"]] == ["1.0"]
    assert sorted(found["failed"]) == ["demo 1.1", "other"]
    assert "the index has no release of nowhere" in found["failed"]["other"]
    assert "other was not recorded: " in desk.err


def page(folder: Path, *links: str) -> None:
    (folder / "simple" / "demo").mkdir(parents=True, exist_ok=True)
    (folder / "simple" / "demo" / "index.html").write_text(f"<!DOCTYPE html><body>{''.join(links)}</body>")


def link(path: Path, *, metadata: str | None = None, yanked: str | None = None) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    more = f' data-core-metadata="sha256={metadata}"' if metadata is not None else ""
    more += f' data-yanked="{yanked}"' if yanked is not None else ""
    return f'<a href="../../{path.name}#sha256={digest}"{more}>{path.name}</a>\n'


@pytest.mark.parametrize("beside", ["there", "gone", "other bytes"])
def test_metadata_beside_a_wheel_spares_the_wheel_where_it_is_what_was_promised(
    tmp_path: Path, beside: str
) -> None:
    folder = tmp_path / "index"
    one = make_wheel(folder, version="1.0", fields=NEEDS)
    data = metadata_of("demo", "1.0", {"Requires-Dist": "torch==2.12.0"}).encode()
    if beside != "gone":
        (folder / f"{one.name}.metadata").write_bytes(data)
        one.write_bytes(b"never read")
    digest = hashlib.sha256(data).hexdigest() if beside == "there" else "a" * 64
    page(folder, link(one, metadata=digest))
    with served(folder) as address:
        desk = tracking(tmp_path, f"{address}/simple/")
        desk.pins("record", "demo", code=1 if beside == "other bytes" else 0)
    found = [(each.read_by, each.direct["torch"], each.sha) for each in desk.records("demo")]
    sha = hashlib.sha256(one.read_bytes()).hexdigest()
    assert (
        found
        == {
            "there": [("METADATA beside the wheel", "==2.12.0", sha)],
            "gone": [("METADATA", "<3,>=2.11", sha)],
            "other bytes": [],
        }[beside]
    )
    assert ("whl.metadata does not match its hash" in desk.err) is (beside == "other bytes")


def test_a_release_that_was_taken_back_is_recorded_as_such_or_said_later(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    first, second = make_wheel(folder, version="1.0"), make_wheel(folder, version="1.1")
    evil = '<a href="../../x.whl">demo-1.0-py3-none-any/../../../../evil.whl</a>'
    page(folder, link(first, yanked="broken"), link(second), evil, '<a href="x.egg">demo-1.0.egg</a>')
    with served(folder) as address:
        desk = tracking(tmp_path, f"{address}/simple/")
        desk.pins("record", "demo")
        assert [(one.version, one.yanked) for one in desk.records("demo")] == [
            ("1.0", "broken"),
            ("1.1", None),
        ]
        assert "demo: 2 files that are neither wheel nor sdist are ignored" in desk.err
        page(folder, link(first, yanked="broken"), link(second, yanked=""))
        said = desk.pins("record", "demo")
    assert "demo: 1.1 was withdrawn after it was recorded" in said
    assert "0 recorded, 2 known" in said
