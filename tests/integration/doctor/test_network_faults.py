"""Every fault of what is asked over HTTP, planted for real: indexes, endpoints and their clocks."""

from __future__ import annotations

import socket

import pytest

from ci.doctor import hud, index
from ci.doctor.finding import Level
from ci.doctor.pytorch import pin_of, torch_requirements

from .conftest import MakeWorld, Site, faults, serving

PIN = pin_of(torch_requirements())


def wheel(version: str = PIN, tag: str = "py3-none-any") -> str:
    return f"<a href='x'>torch-{version}-{tag}.whl</a>"


# --- indexes


@pytest.mark.parametrize(
    ("page", "login", "given", "words"),
    [
        ((200, "text/html", wheel("1.0")), "", "", f"has torch, and not torch {PIN}"),
        (
            (200, "text/html", wheel(tag="cp27-cp27m-win32")),
            "",
            "",
            "no wheel of it for this Python and machine",
        ),
        ((404, "text/plain", ""), "", "", "has no torch"),
        ((503, "text/plain", ""), "", "", "it answered 503"),
        ((200, "text/html", "<form>Sign in</form>"), "", "", "is no package index"),
        ((200, "application/json", "{"), "", "", "is no package index"),
        (
            (200, "text/html", wheel()),
            "Basic bWU6cmlnaHQ=",
            "me:hunter2@",
            "refuses the login in its address",
        ),
        ((200, "text/html", wheel()), "Basic bWU6cmlnaHQ=", "", "shows nothing without a login"),
    ],
)
def test_what_is_wrong_with_an_index_is_told_apart(  # noqa: PLR0917  # a row of the table
    world: MakeWorld, site: Site, page: tuple[int, str, str], login: str, given: str, words: str
) -> None:
    site.pages["/simple/torch/"], site.login = page, login
    address = site.url.replace("://", f"://{given}") + "/simple"
    (found,) = index.look_index(world({"PIP_INDEX_URL": address}))
    assert found.level is Level.FAULT
    assert words in found.said
    assert f"{site.url}/simple" in found.said
    assert "hunter2" not in f"{found.said}{found.remedy}"


def test_a_login_that_is_right_opens_an_index(world: MakeWorld, site: Site) -> None:
    site.login = "Basic bWU6cmlnaHQ="
    site.pages["/simple/torch/"] = (200, "text/html", wheel())
    (found,) = index.look_index(
        world({"PIP_INDEX_URL": site.url.replace("://", "://me:right@") + "/simple/"})
    )
    assert (found.level, "right" in found.said) == (Level.OK, False)


def test_an_index_that_is_away_or_hangs_is_told_and_another_is_enough(
    world: MakeWorld, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "PAGE_S", 1.0)
    with socket.socket() as taken, serving() as slow:
        taken.bind(("127.0.0.1", 0))
        away, slow.hangs = f"http://127.0.0.1:{taken.getsockname()[1]}/simple", True
        site.pages["/simple/torch/"] = (200, "text/html", wheel())
        environ = {"PIP_INDEX_URL": f"{slow.url}/simple", "PIP_EXTRA_INDEX_URL": f"{away} {site.url}/simple"}
        first, hangs, gone = index.look_index(world(environ))
        assert first.said == f"torch {PIN} is to be had of {site.url}/simple (3 places asked)"
        assert (hangs.level, "it did not answer within 1 s" in hangs.said) == (Level.WARNING, True)
        assert (gone.level, "cannot be reached" in gone.said) == (Level.WARNING, True)
        found = index.look_index(world({"PIP_INDEX_URL": away}))
        assert "cannot be reached" in faults(found)[0]


def test_an_index_that_is_published_to_has_to_answer(world: MakeWorld, site: Site) -> None:
    site.pages["/simple/torch/"] = (200, "text/html", wheel())
    site.pages["/login/torch/"] = (403, "text/plain", "no")
    flags = {
        "package__indexes__stage__upload": f"{site.url}/up",
        "package__indexes__stage__simple": f"{site.url}/login",
        "package__indexes__prod__upload": f"{site.url}/up",
        "package__indexes__prod__simple": f"{site.url}/empty",
    }
    _, prod, stage = index.look_index(world({"PIP_INDEX_URL": f"{site.url}/simple"}, **flags))
    assert (prod.level, stage.level) == (Level.OK, Level.FAULT)
    assert "(package.indexes.stage) shows nothing without a login" in stage.said


# --- endpoint and clock


@pytest.mark.parametrize(
    ("skew", "level", "words"),
    [
        (0, Level.OK, "as the endpoint's"),
        (90, Level.WARNING, "behind the endpoint's"),
        (-90, Level.WARNING, "ahead of the endpoint's"),
        (3600, Level.FAULT, "behind the endpoint's"),
    ],
)
def test_clocks_are_compared(world: MakeWorld, site: Site, skew: float, level: Level, words: str) -> None:
    site.skew_s, site.pages["/github/callback"] = skew, (405, "text/plain", "")
    environ = {"SPYRE_CI_HUD_TOKEN": "s3cret-t0ken", "SPYRE_CI__REPORT__ENDPOINT": site.url}
    endpoint, clock = hud.look_hud(world(environ))
    assert (endpoint.level, clock.look, clock.level) == (Level.OK, "clock", level)
    assert words in clock.said
    (asked,) = site.asked
    assert "authorization" not in asked[1]


@pytest.mark.parametrize(
    ("status", "words"), [(302, "a redirect"), (503, "out of order"), (404, "no such path")]
)
def test_an_endpoint_that_takes_no_report_is_told(
    world: MakeWorld, site: Site, status: int, words: str
) -> None:
    site.pages["/github/callback"] = (status, "text/plain", "")
    site.headers["location"] = f"{site.url}/elsewhere"
    assert words in faults(hud.look_hud(world(report__endpoint=site.url)))[0]
    assert len(site.asked) == 1


def test_an_endpoint_that_is_away_or_hangs_is_told(
    world: MakeWorld, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hud, "LIMIT_S", 0.5)
    site.hangs = True
    assert "it did not answer within 0.5 s" in faults(hud.look_hud(world(report__endpoint=site.url)))[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert "cannot be reached" in faults(hud.look_hud(world(report__endpoint=away)))[0]
