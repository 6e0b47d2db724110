"""What an image may be released as, and which tags move to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ci.core.errors import UsageError
from ci.image.release import OtherImageError, Release, check_expected, check_release, release_tags

TESTED = f"sha256:{'1' * 64}"
VERSIONS = st.builds("{}.{}.{}{}".format, *[st.integers(0, 3)] * 3, st.sampled_from(["", "rc1", "b2"]))


@pytest.mark.parametrize(
    ("version", "there", "moved"),
    [
        pytest.param("1.0.0", ["stack-1", "pr-7"], ["1.0", "1", "latest"], id="first release"),
        pytest.param("1.2.5", ["1.2.4", "1.3.0", "1.3", "1"], ["1.2"], id="back-port"),
        pytest.param("1.9.0", ["2.0.0"], ["1.9", "1"], id="back-port of a line"),
        pytest.param("1.2.4", ["1.2.4", "1.2.5"], [], id="older than all"),
        pytest.param("1.2.4", ["1.2.4", "1.2.3"], ["1.2", "1", "latest"], id="same version twice"),
        pytest.param("1.3.0rc1", ["1.2.4"], [], id="release candidate"),
        pytest.param("1.3.0", ["1.3.0rc1", "2.0.0rc1"], ["1.3", "1", "latest"], id="after its candidate"),
        pytest.param("1.10.0", ["1.9.0"], ["1.10", "1", "latest"], id="numbers, not letters"),
    ],
)
def test_a_release_moves_the_tags_whose_highest_it_is(
    version: str, there: list[str], moved: list[str]
) -> None:
    assert release_tags(version, there) == moved


@given(st.lists(VERSIONS, min_size=1, max_size=8))
def test_whatever_the_order_latest_ends_at_the_highest_release(versions: list[str]) -> None:
    at: dict[str, str] = {}
    for number, version in enumerate(versions):
        at |= dict.fromkeys(release_tags(version, versions[: number + 1]), version)
    releases = [Version(one) for one in versions if not Version(one).is_prerelease]
    assert at.get("latest") == (str(max(releases)) if releases else None)
    for tag, version in at.items():
        assert tag == "latest" or Version(version).release[: len(tag.split("."))] == Version(tag).release


def pushed(*tags: str, version: str | None = None) -> Release:
    return Release(pushes=True, tags=tags, version=version)


@pytest.mark.parametrize(
    ("release", "replaced", "said"),
    [
        (Release(tags=["latest"]), [], "tags, versions and digests need --push"),
        (Release(version="1.2.3"), [], "tags, versions and digests need --push"),
        (Release(expected=TESTED), [], "tags, versions and digests need --push"),
        *(
            (pushed(version=version), [], f"'{version}' is not a version X.Y.Z")
            for version in ("1", "1.2", "01.2.3", "1.2.3-1", "v1.2.3", "1.2.3.4", "1.2.3.dev1", "")
        ),
        (pushed("latest", "1.2"), [], "'1.2' is a version"),
        (pushed("1.2.0rc1"), [], "is a version"),
        (pushed("a b"), [], "is not a tag"),
        (pushed(f"stack-{'0' * 20}"), [], "is reserved for spyre-ci: it starts with 'stack-'"),
        (pushed(version="1.2.3"), ["x"], "x is replaced: such an image cannot be released"),
        (pushed("nightly"), ["x"], "such an image cannot be released"),
    ],
)
def test_what_an_image_cannot_be_released_as_is_refused(
    release: Release, replaced: list[str], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_release(release, replaced=replaced)
    assert said in caught.value.what
    check_release(pushed("pr-1"), replaced=["x"])
    check_release(pushed("latest", version="1.2.3rc1"), replaced=[])


def test_the_very_image_that_is_expected_is_taken_and_no_other() -> None:
    for expected in (TESTED, f"quay.example/runtime:stack-1@{TESTED}"):
        check_expected("quay.example/runtime:stack-1", TESTED, expected)
    for there, said in ((f"sha256:{'2' * 64}", f"is sha256:{'2' * 64}"), (None, "is not in the registry")):
        with pytest.raises(OtherImageError) as caught:
            check_expected("r:stack-1", there, TESTED)
        assert caught.value.what == f"r:stack-1 {said}, but {TESTED} was expected"
        assert caught.value.exit_code == 1
    for expected in ("", "latest", "r:1", f"{TESTED}0", f"{TESTED}\n"):
        with pytest.raises(UsageError, match="has no digest"):
            check_expected("r:stack-1", TESTED, expected)
