"""The ledger of a package from a real index: whatever a release is made of, and whatever is wrong with it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci.pins.diary import read_events
from tests.engine import served
from tests.integration.package.publish.servers import Front, fronted, pypiserver
from tests.integration.pins.calling import Ledger
from tests.packages import make_sdist, make_wheel, metadata_of

NEEDS = {"Requires-Dist": "torch>=2.11,<3", "Requires-Dist#2": "numpy; extra == 'all'"}
RUN = "def run(model, steps=3): ...\n"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[Front, str]]:
    """A pypiserver, and what stands before it."""
    for name in ("pypiserver", "passlib", "pypi_simple", "griffe"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not there")
    with pypiserver(tmp_path / "index") as address, fronted(address) as pair:
        yield pair


@pytest.fixture
def packages(tmp_path: Path, index: tuple[Front, str]) -> Path:  # noqa: ARG001  # makes it
    return tmp_path / "index" / "packages"


@pytest.fixture
def ledger(tmp_path: Path, index: tuple[Front, str]) -> Ledger:
    return tracking(tmp_path, f"{index[1]}/simple/")


def tracking(tmp_path: Path, address: str, **more: object) -> Ledger:
    folder = tmp_path / "checkout"
    folder.mkdir(exist_ok=True)
    return Ledger(folder=folder, track={"package": "demo", "index": address, "direct": ["torch"], **more})


def test_every_release_of_an_index_is_recorded_and_the_second_time_nothing(
    packages: Path, ledger: Ledger
) -> None:
    make_wheel(packages, version="1.9", fields={"Requires-Dist": "torch==2.11.0"})
    make_wheel(packages, version="1.10", fields=NEEDS)
    make_wheel(packages, version="1.10", fields=NEEDS, tag="cp311-cp311-linux_x86_64")
    make_wheel(packages, version="2.0rc1", fields=NEEDS)
    make_sdist(packages, version="1.11", fields=NEEDS)
    said = ledger("record")
    assert said.code == 0, said.err
    assert [(one.version, one.read_by) for one in ledger.records] == [
        ("1.9", "METADATA"), ("1.10", "METADATA"), ("1.11", "PKG-INFO"), ("2.0rc1", "METADATA")
    ]  # fmt: skip
    first, second, third, last = ledger.records
    assert first.packages == {"demo": "1.9", "torch": "==2.11.0"}
    assert (first.previous, first.changes) == ("", ())
    assert second.packages == {"demo": "1.10", "torch": "<3,>=2.11", "numpy": '; extra == "all"'}
    assert second.previous == f"1.9-{first.sha[:12]}.json"
    assert [(one.name, one.before, one.after) for one in second.changes] == [
        ("torch", "==2.11.0", "<3,>=2.11")
    ]
    assert (third.changes, last.changes) == ((), ())
    wheel = packages / "demo-1.10-py3-none-any.whl"
    assert second.sha == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert "demo: 4 recorded, 0 known, 0 not to be recorded" in said.out
    before = {path: path.read_bytes() for path in (ledger.folder / "pins" / "demo").iterdir()}
    again = ledger("record")
    assert (again.code, again.out) == (0, "demo: 0 recorded, 4 known, 0 not to be recorded\n")
    assert {path: path.read_bytes() for path in (ledger.folder / "pins" / "demo").iterdir()} == before


def test_one_release_is_recorded_by_name_with_what_is_said_of_it(packages: Path, ledger: Ledger) -> None:
    make_wheel(packages, version="1.0")
    make_wheel(packages, version="2.0")
    assert ledger("record", "demo", "--release", "2.0", "--flag", "major").code == 0
    assert [(one.version, one.flags) for one in ledger.records] == [("2.0", ("major",))]
    later = ledger("record", "demo", "--release", "2.0", "--flag", "performance")
    assert (later.code, "demo 2.0 is flagged performance from now on" in later.out) == (0, True)
    assert [(one.version, one.flags) for one in ledger.records] == [("2.0", ("major",))]
    assert [one.kind for one in read_events(ledger.folder / "pins" / "demo")] == ["flagged"]


def test_another_wheel_of_a_release_is_no_other_release(packages: Path, ledger: Ledger) -> None:
    make_wheel(packages, version="1.0", tag="cp311-cp311-linux_x86_64")
    assert ledger("record").code == 0
    make_wheel(packages, version="1.0")
    assert "0 recorded, 1 known" in ledger("record").out


def test_other_bytes_under_the_same_version_are_another_release_and_it_is_said(
    packages: Path, ledger: Ledger
) -> None:
    make_wheel(packages, version="1.0")
    ledger("record")
    make_wheel(packages, version="1.0", files={"demo/__init__.py": "ANSWER = 43\n"})
    said = ledger("record")
    assert re.search(r"1\.0 is another one now: [0-9a-f]{12} is recorded, [0-9a-f]{12} is there", said.out)
    assert [one.version for one in ledger.records] == ["1.0", "1.0"]


def test_a_wheel_whose_hash_is_another_is_not_recorded_and_holds_up_no_other(
    packages: Path, ledger: Ledger, index: tuple[Front, str]
) -> None:
    make_wheel(packages, version="1.0")
    wheel = make_wheel(packages, version="1.1")
    right, wrong = hashlib.sha256(wheel.read_bytes()).hexdigest().encode(), b"0" * 64
    index[0].edit = lambda page: page.replace(right, wrong)
    said = ledger("record")
    assert said.code == 1
    assert [one.version for one in ledger.records] == ["1.0"]
    assert (
        f"demo 1.1 is not recorded: {index[1]}/simple/: demo-1.1-py3-none-any.whl came with other" in said.err
    )


@pytest.mark.parametrize("damage", ["damaged", "another project's", "of another version"])
def test_what_is_no_such_wheel_is_not_recorded(packages: Path, ledger: Ledger, damage: str) -> None:
    good = make_wheel(packages, version="1.0")
    if damage == "damaged":
        good.write_bytes(good.read_bytes()[:200])
    else:
        name, version = ("other", "1.0") if damage == "another project's" else ("demo", "2.0")
        made = make_wheel(packages.parent / "made", name, version)
        good.write_bytes(made.read_bytes())
    said = ledger("record")
    assert said.code == 2
    assert "demo 1.0 is not recorded" in said.err
    assert ledger.records == []


def test_an_index_without_hashes_is_taken_at_its_versions(
    packages: Path, ledger: Ledger, index: tuple[Front, str]
) -> None:
    wheel = make_wheel(packages, version="1.0")
    index[0].edit = lambda page: re.sub(rb"#sha256=[0-9a-f]+", b"", page)
    assert ledger("record").code == 0
    assert [one.sha for one in ledger.records] == [hashlib.sha256(wheel.read_bytes()).hexdigest()]
    assert "0 recorded, 1 known" in ledger("record").out


def test_an_index_that_is_away_is_said(ledger: Ledger, index: tuple[Front, str]) -> None:
    index[0].down = True
    said = ledger("record")
    assert (said.code, ledger.records) == (3, [])
    assert "it cannot be reached" in said.err


def test_a_package_that_the_index_does_not_have_is_said(ledger: Ledger, packages: Path) -> None:
    said = ledger("record")
    assert said.code == 2
    assert "the index has no release of demo\n" in said.err
    make_wheel(packages)
    assert "the index has no release of demo 9\n" in ledger("record", "demo", "--release", "9").err


def test_an_index_that_wants_a_login_is_said(ledger: Ledger, index: tuple[Front, str]) -> None:
    index[0].page_status = 401
    said = ledger("record")
    assert said.code == 2
    assert "its simple API shows nothing without a login" in said.err
    assert "~/.netrc" in said.err


def test_an_address_with_a_password_is_refused_without_showing_it(tmp_path: Path) -> None:
    said = tracking(tmp_path, "https://user:s3cret@example.com/simple/")("record")
    assert said.code == 2
    assert "pins.tracks.demo.index: https://example.com/simple/ holds a query, a fragment or cred" in said.err
    assert "s3cret" not in said.err


def test_signatures_are_compared_from_release_to_release(
    packages: Path, tmp_path: Path, ledger: Ledger
) -> None:
    suite = {"name": "speed", "calls": ["demo:run", "demo.core:main"]}
    tracked = tracking(
        tmp_path, str(ledger.track["index"]), entry_points=["demo:run", "demo.gone:run"], suites=[suite]
    )
    inside = {"demo/__init__.py": "from .core import *\n", "demo/core.py": RUN}
    make_wheel(packages, version="1.0", files=inside)
    make_wheel(packages, version="2.0", files={**inside, "demo/core.py": "def run(model, *, steps): ...\n"})
    assert tracked("record").code == 0
    first, second = tracked.records
    parameters = first.signatures["demo:run"]
    assert parameters is not None
    assert [(one.name, one.kind, one.default) for one in parameters] == [
        ("model", "positional or keyword", None), ("steps", "positional or keyword", "3")
    ]  # fmt: skip
    assert second.signatures["demo.gone:run"] is None
    # What a suite calls is looked at as well.
    assert second.signatures["demo.core:main"] is None
    said = tracked("diff", "demo")
    assert (
        "  demo:run(model, steps=3) -> (model, *, steps)\n    steps is keyword-only now (breaks callers)\n"
        in said.out
    )


def test_a_track_that_cannot_be_asked_holds_up_no_other(packages: Path, ledger: Ledger) -> None:
    make_wheel(packages, version="1.0")
    gone = {"package": "nowhere", "index": str(ledger.track["index"]), "direct": ["torch"]}
    both = replace(ledger, others={"another": gone})
    said = both("record")
    assert said.code == 2
    assert "another is not recorded: " in said.err
    assert "the index has no release of nowhere" in said.err
    assert "demo: 1 recorded, 0 known, 0 not to be recorded" in said.out


def test_machines_are_told_what_was_recorded_and_what_was_not(packages: Path, ledger: Ledger) -> None:
    make_wheel(packages, version="1.0")
    make_wheel(packages, version="1.1").write_bytes(b"nothing")
    both = replace(ledger, others={"other": {**ledger.track, "package": "nowhere"}})
    found = json.loads(both("record", "--json").out)
    assert [one["version"] for one in found["demo"]["recorded"]] == ["1.0"]
    assert [one["version"] for one in found["demo"]["failed"]] == ["1.1"]
    assert found["other"] == {"error": "the index has no release of nowhere"}


def page(folder: Path, *links: str) -> None:
    (folder / "simple" / "demo").mkdir(parents=True, exist_ok=True)
    (folder / "simple" / "demo" / "index.html").write_text(f"<!DOCTYPE html><body>{''.join(links)}</body>")


def link(path: Path, *, metadata: str | None = None, yanked: str | None = None) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    more = f' data-core-metadata="sha256={metadata}"' if metadata is not None else ""
    more += f' data-yanked="{yanked}"' if yanked is not None else ""
    return f'<a href="../../{path.name}#sha256={digest}"{more}>{path.name}</a>\n'


def beside(path: Path, version: str) -> str:
    """Put metadata beside a wheel, and leave of the wheel nothing that could be read; the metadata's hash."""
    data = metadata_of("demo", version, {"Requires-Dist": "torch==2.12.0"}).encode()
    (path.parent / f"{path.name}.metadata").write_bytes(data)
    path.write_bytes(b"never read")
    return hashlib.sha256(data).hexdigest()


def test_metadata_beside_a_wheel_spares_the_wheel(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    one = make_wheel(folder, version="1.0")
    digest = beside(one, "1.0")
    page(folder, link(one, metadata=digest))
    with served(folder) as address:
        ledger = tracking(tmp_path, f"{address}/simple/")
        assert ledger("record").code == 0
    found = ledger.records[0]
    assert (found.read_by, found.direct) == ("METADATA beside the wheel", {"torch": "==2.12.0"})
    assert found.sha == hashlib.sha256(b"never read").hexdigest()


def test_metadata_that_is_promised_and_not_there_is_read_from_the_wheel(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    page(folder, link(make_wheel(folder, version="1.0", fields=NEEDS), metadata="a" * 64))
    with served(folder) as address:
        ledger = tracking(tmp_path, f"{address}/simple/")
        said = ledger("record")
    assert (said.code, ledger.records[0].read_by) == (0, "METADATA")
    assert (
        "demo-1.0-py3-none-any.whl.metadata cannot be downloaded: it answered 404: the wheel is" in said.err
    )


def test_metadata_that_is_not_what_was_promised_is_not_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    one = make_wheel(folder, version="1.0")
    beside(one, "1.0")
    page(folder, link(one, metadata="a" * 64))
    with served(folder) as address:
        ledger = tracking(tmp_path, f"{address}/simple/")
        said = ledger("record")
    assert (said.code, ledger.records) == (1, [])
    assert "whl.metadata came with other bytes" in said.err


def test_a_release_that_was_taken_back_is_recorded_as_such_and_said_where_it_was_recorded(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "index"
    first, second = make_wheel(folder, version="1.0"), make_wheel(folder, version="1.1")
    page(folder, link(first, yanked="broken"), link(second), '<a href="x.egg">demo-1.0.egg</a>')
    with served(folder) as address:
        ledger = tracking(tmp_path, f"{address}/simple/")
        said = ledger("record")
        assert [(one.version, one.yanked) for one in ledger.records] == [("1.0", "broken"), ("1.1", None)]
        assert "demo: 1 file that is neither wheel nor sdist is passed over" in said.err
        page(folder, link(first, yanked="broken"), link(second, yanked=""))
        again = ledger("record")
    assert "demo 1.1 was taken back since it was recorded" in again.out
    assert "0 recorded, 2 known" in again.out


def test_a_name_that_leads_elsewhere_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    evil = "demo-1.0-py3-none-any/../../../../evil.whl"
    page(folder, f'<a href="../../x.whl">{evil}</a>', link(make_wheel(folder, version="1.1")))
    with served(folder) as address:
        ledger = tracking(tmp_path, f"{address}/simple/")
        assert ledger("record").code == 0
    assert [one.version for one in ledger.records] == ["1.1"]
