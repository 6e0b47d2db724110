from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from ci.package.artifacts import Artifact
from ci.package.listing import (
    Listed,
    TakenError,
    decide,
    key_of,
    of_version,
    refuse_taken,
    upload_order,
)

WHEEL, SDIST = "spyre_demo-1.0-py3-none-any.whl", "spyre_demo-1.0.tar.gz"


def artifact(name: str, sha256: str = "a" * 64) -> Artifact:
    kind, version = ("wheel", name.split("-")[1]) if name.endswith(".whl") else ("sdist", name[11:-7])
    return Artifact(
        path=Path("dist", name),
        kind="wheel" if kind == "wheel" else "sdist",
        name="spyre-demo",
        version=Version(version),
        sha256=sha256,
        size=1,
    )


def listed(name: str, sha256: str = "a" * 64, yanked: str | None = None) -> Listed:
    return Listed(filename=name, url=f"https://index/{name}", sha256=sha256, yanked=yanked)


BOTH = [artifact(SDIST), artifact(WHEEL)]


def test_wheels_go_before_the_sdist_so_that_nobody_builds_it_meanwhile() -> None:
    other = "spyre_demo-1.0-cp311-cp311-any.whl"
    order = upload_order([artifact(SDIST), artifact(WHEEL), artifact(other)])
    assert [one.filename for one in order] == [other, WHEEL, SDIST]


def test_other_bytes_take_the_version_and_are_named_with_both_hashes() -> None:
    decision = decide(BOTH, [listed(WHEEL, "b" * 64)])
    with pytest.raises(TakenError) as caught:
        refuse_taken(decision, "stage")
    assert caught.value.exit_code == 1
    assert f"{WHEEL}: here sha256:{'a' * 16}…, there sha256:{'b' * 16}…" in str(caught.value)
    assert "raise the version, or publish the files that were built then" in str(caught.value)


def test_nothing_is_refused_where_nothing_is_taken() -> None:
    refuse_taken(decide(BOTH, [listed(WHEEL)]), "stage")


@pytest.mark.parametrize("spelt", ["spyre-demo-1.0.tar.gz", "Spyre.Demo-1.0.0.tar.gz", "spyre_demo-1.0.zip"])
def test_another_spelling_of_the_sdist_is_the_sdist(spelt: str) -> None:
    decision = decide(BOTH, [listed(spelt, "b" * 64)])
    assert [one.filename for one, _ in decision.taken] == [SDIST]


def test_a_build_number_makes_another_wheel() -> None:
    assert key_of("spyre_demo-1.0-1-py3-none-any.whl") != key_of(WHEEL)


def test_what_is_neither_sdist_nor_wheel_is_passed_over() -> None:
    assert key_of("spyre_demo-1.0.exe") is None
    assert key_of("x.whl") is None
    assert of_version([listed("spyre_demo-1.0-py3.7.egg"), listed(WHEEL)], "spyre-demo", Version("1.0")) == [
        listed(WHEEL)
    ]


def test_what_is_yanked_is_told_with_the_reason() -> None:
    decision = decide(BOTH, [listed(WHEEL, yanked="broken"), listed(SDIST, yanked="")])
    assert decision.lines[1:] == [f"{WHEEL} is yanked: broken", f"{SDIST} is yanked"]
