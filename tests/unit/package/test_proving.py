from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from ci.config.package_model import Index
from ci.package.account import UnfinishedError
from ci.package.artifacts import Artifact
from ci.package.asking import Asker, IndexAwayError
from ci.package.listing import Listed, TakenError
from ci.package.proving import Prover, index_alone, top_level

NAME = "spyre_demo-1.0.tar.gz"
SDIST = Artifact(
    path=Path(NAME), kind="sdist", name="spyre-demo", version=Version("1.0"), sha256="a" * 64, size=1
)


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


def prover(monkeypatch: pytest.MonkeyPatch, time: Time, *pages: list[Listed] | Exception) -> Prover:
    """One whose index shows one page after another, the last for ever."""
    left = list(pages)

    def listed(_self: Asker, _project: str, *, attempts: int) -> list[Listed]:
        assert attempts == 1
        page = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(page, Exception):
            raise page
        return page

    monkeypatch.setattr(Asker, "listed", listed)
    index = Index(upload="https://index/", simple="https://index/simple/")
    asker = Asker(name="stage", index=index, sleep=time.sleep, clock=time.clock)
    return Prover(asker=asker, environ={}, constraints=(), timeout_s=60, say=lambda _: None)


def page(sha256: str = "a" * 64) -> list[Listed]:
    return [Listed(filename=NAME, url="https://index/x", sha256=sha256)]


def test_a_page_that_comes_late_is_waited_for_ever_more_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    one = prover(monkeypatch, time, [], IndexAwayError("it answered 503"), [], page())
    assert one.shown([SDIST])[NAME].url == "https://index/x"
    assert time.slept == [1, 2, 4]


def test_a_page_that_never_comes_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    with pytest.raises(UnfinishedError) as caught:
        prover(monkeypatch, time, []).shown([SDIST])
    assert f"after 60 s the index does not show all: not shown: {NAME}" in str(caught.value)
    assert time.now <= 60


def test_why_it_could_not_be_asked_is_said_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnfinishedError, match="does not show all: it answered 503"):
        prover(monkeypatch, Time(), IndexAwayError("it answered 503")).shown([SDIST])


def test_a_page_that_shows_other_bytes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    with pytest.raises(TakenError):
        prover(monkeypatch, time, page("b" * 64)).shown([SDIST])
    assert time.slept == []


def test_what_can_be_imported_is_what_the_wheel_installs_at_the_top() -> None:
    members = [
        "spyre/__init__.py", "spyre/ops/add.py", "_native.cpython-311-x86_64-linux-gnu.so", "tool.py",
        "namespace/only/data.txt", "space/_ext.so", "spyre-1.0.dist-info/METADATA",
        "spyre-1.0.data/scripts/run.py", "py.typed",
    ]  # fmt: skip
    assert top_level(members) == ["_native", "space", "spyre", "tool"]


def test_pip_takes_files_of_one_index_alone() -> None:
    environ = {
        "PIP_EXTRA_INDEX_URL": "x", "PIP_FIND_LINKS": "y", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "z",
        "REQUESTS_CA_BUNDLE": "ca.pem", "HOME": "/",
    }  # fmt: skip
    made = index_alone(environ, "http://127.0.0.1:1/simple/")
    assert made == {
        "PIP_CONFIG_FILE": "/dev/null", "REQUESTS_CA_BUNDLE": "ca.pem", "PIP_CERT": "ca.pem", "HOME": "/",
        "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    assert index_alone({"PIP_CERT": "own.pem", **environ}, "https://index/")["PIP_CERT"] == "own.pem"
