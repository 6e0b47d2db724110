"""What is made of what an image shows: findings, labels, sizes, its SBOM; nothing is started."""

from __future__ import annotations

import builtins
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import CommandError
from ci.core.findings import Finding, VerificationError, judged, refuse_failed
from ci.image.container import Ended
from ci.image.model import Stack
from ci.image.resolved import ResolvedComponent, ResolvedFile, ResolvedPytorch, ResolvedStack
from ci.image.verify import inside
from ci.image.verify.expected import (
    COMMIT_LABEL,
    NEEDED,
    Expected,
    check_labels,
    is_version,
    of_labels,
    of_stack,
)
from ci.image.verify.gate import MIB, Layer, grown, is_tag, judge_size, split_name, step_of
from ci.image.verify.inventory import Inventory, check_build_packages, check_powerful, check_writable
from ci.image.verify.roles import judge_addresses
from ci.image.verify.sbom import NEVER, Described, check_library, created_at, sbom_of
from ci.image.verify.subject import how, told

DIGEST = "sha256:" + "d" * 64
COMMIT = "a" * 40


def resolved(**more: Any) -> ResolvedStack:
    stack = Stack.model_validate(
        {
            "version": 1,
            "name": "runtime",
            "base": {
                "image": "registry.example:5000/debian:bookworm",
                "packages": ["git"],
                "build_packages": ["gcc", "git"],
            },
            "variants": {"pinned": {"version": "2.13.0"}},
            "roles": {"test": {"command": "pytest", "check": ["--version"]}},
            "components": [
                {"name": "flex", "git": {"url": "https://example.com/flex.git", "steps": ["make"]}},
                {"name": "senlib", "image": {"name": "r.example/senlib:1", "paths": [{"source": "/opt/s"}]}},
                {"name": "drivers", "files": ["a.deb"]},
            ],
        }
    )
    exact: list[dict[str, Any]] = [
        {"commit": COMMIT},
        {"digest": DIGEST},
        {"files": (ResolvedFile(path="packages/a.deb", sha256="c" * 64),)},
    ]
    parts = zip(stack.components, exact, strict=True)
    made: dict[str, Any] = {
        "stack": stack,
        "variant": "pinned",
        "platform": "linux/amd64",
        "base_digest": DIGEST,
        "pytorch": ResolvedPytorch(requirement="torch==2.13.0"),
        "components": tuple(ResolvedComponent(component=one, **values) for one, values in parts),
    }
    return ResolvedStack(**{**made, **more})


def test_every_check_that_failed_is_named_with_its_remedy() -> None:
    findings = [
        judged("user", "runs as 0", holds=False, remedy="set USER"),
        judged("torch", "2.13.0", holds=True, remedy="pin it"),
        judged("size", "grew", holds=False, remedy="shrink it"),
    ]
    assert [one.line for one in findings] == ["FAIL user: runs as 0", "ok   torch: 2.13.0", "FAIL size: grew"]
    with pytest.raises(VerificationError) as caught:
        refuse_failed("image", findings)
    assert caught.value.exit_code == 1
    for part in ("2 of 3 checks failed", "user: runs as 0", "set USER", "size: grew", "shrink it"):
        assert part in caught.value.what
    assert "torch" not in caught.value.what
    refuse_failed("image", findings[1:2])


def test_a_stack_says_what_its_image_is_held_to() -> None:
    expected = of_stack(resolved())
    assert (expected.version, expected.commit, expected.user) == ("2.13.0", "", 10001)
    assert expected.roles == {"test": ("--version",)}
    assert expected.absent == ["gcc"]
    assert expected.labels["io.github.torch-spyre.component.flex"] == COMMIT


def test_an_image_says_it_by_its_labels() -> None:
    name = "io.github.torch-spyre.pytorch"
    assert of_labels({name: "torch==2.13.0"}).version == "2.13.0"
    assert of_labels({name: COMMIT}).commit == COMMIT
    assert of_labels({name: "torch==2.13.0", COMMIT_LABEL: COMMIT}).commit == COMMIT
    assert of_labels({}) == Expected()
    assert of_labels({"io.github.torch-spyre.role.serve": "-v 'a b'"}).roles == {"serve": ["-v", "a b"]}


@pytest.mark.parametrize(
    ("expected", "version", "same"),
    [
        ("2.13.0", "2.13.0", True),
        ("2.13.0", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0", False),
        ("2.13.0", "2.13.0.dev1", False),
        ("", "1.0", True),
    ],
)
def test_a_version_is_compared(expected: str, version: str, *, same: bool) -> None:
    assert is_version(expected, version) == same


def test_labels_that_are_missing_or_other_are_named() -> None:
    whole = dict.fromkeys(NEEDED, "x")
    assert check_labels(whole, Expected()).passed
    assert check_labels({**whole, "more": "y"}, Expected(labels=whole)).passed
    found = check_labels({**whole, NEEDED[0]: ""}, Expected(labels={**whole, "new": "1"}))
    assert found.seen == f"new is missing; {NEEDED[0]} is empty, not x"
    assert check_labels({}, Expected(labels={str(one): "" for one in range(9)})).seen.endswith("and 9 more")


def test_what_should_not_be_in_an_image_is_named() -> None:
    found = Inventory(python=(), packages=(("gcc", "1", "amd64"), ("git", "1", "amd64")))
    assert check_build_packages(found, Expected(absent=["gcc", "cmake"])).seen == "gcc"
    assert check_build_packages(found, Expected(absent=["cmake"])).passed
    paths = tuple(f"/{one}" for one in range(7))
    assert check_powerful(Inventory(python=(), powerful=paths)).seen == "/0, /1, /2, /3, /4 and 2 more"
    assert check_powerful(found).passed
    assert not check_writable(Inventory(python=(), writable=("/opt/a",))).passed
    assert check_writable(found).passed


@pytest.mark.parametrize(
    ("listens", "reached"),
    [
        (["00000000:22B8"], True),
        (["0" * 32 + ":22B8"], True),
        (["0100007F:22B8", "00000000:22B8"], True),
        (["0100007F:22B8"], False),
        ([], False),
    ],
)
def test_a_port_is_reached_where_all_addresses_listen(listens: list[str], *, reached: bool) -> None:
    assert (judge_addresses(listens, 8888) == "") == reached


def test_how_a_container_ended_is_a_line() -> None:
    assert how(Ended(exit_code=3, last=("a", "b", " "))) == "ended with code 3, last said: b"
    assert how(Ended(exit_code=137, out_of_memory=True)) == "ended with code 137, out of memory"
    assert how(Ended(exit_code=137, timed_out=True)) == "took too long and was ended"
    assert told(Ended(exit_code=0, last=('{"a": 1}', "noise", "{no"))) == {"a": 1}
    assert told(Ended(exit_code=0, last=("[1]", "x"))) is None


@pytest.mark.parametrize(
    ("created_by", "step"),
    [
        ("/bin/sh -c #(nop) COPY dir:" + "a" * 64 + " in / ", "COPY dir in /"),
        ("/bin/bash -euo pipefail -c make  all", "RUN make all"),
        ("", "base"),
    ],
)
def test_a_layer_is_named_by_its_step(created_by: str, step: str) -> None:
    assert step_of(created_by) == step


def layers(*sizes: tuple[str, int]) -> list[Layer]:
    return [Layer(step=step, size=size * MIB) for step, size in sizes]


def test_the_layers_that_grew_are_named_the_most_first() -> None:
    before = layers(("base", 100), ("COPY dir in /", 10), ("COPY dir in /", 10), ("old", 5))
    after = layers(("base", 100), ("COPY dir in /", 10), ("COPY dir in /", 40), ("new", 50))
    assert grown(before, after) == [("new", 50 * MIB), ("COPY dir in /", 30 * MIB)]
    found = judge_size(before, after, against="r:latest", most_percent=10)
    assert found.seen == (
        "200.0 MiB in 4 layers, +60.0 % against r:latest, more than 10 %: "
        "+50.0 MiB new; +30.0 MiB COPY dir in /"
    )
    assert judge_size(before, after, against="r:latest", most_percent=60).passed
    first = judge_size(None, after, against="there is no r:latest yet", most_percent=0)
    assert first.passed
    assert first.seen.endswith("nothing to compare with: there is no r:latest yet")


SIZES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 100)))


@given(SIZES, SIZES)
def test_what_grew_is_at_least_what_the_image_grew_by(
    old: list[tuple[str, int]], new: list[tuple[str, int]]
) -> None:
    before, after = layers(*old), layers(*new)
    total = sum(one.size for one in after) - sum(one.size for one in before)
    assert sum(size for _, size in grown(before, after)) >= total
    assert grown(after, after) == []


INVENTORY = Inventory(
    python=(("torch", "2.13.0"), ("PyYAML", "6.0")),
    kind="deb",
    distribution="debian",
    packages=(("dpkg", "1:1.21~x", "amd64"),),
)


def described(**more: Any) -> Described:
    made: dict[str, Any] = {"name": "r.example/runtime", "version": "stack-1", "image": DIGEST}
    return Described(**{**made, "created": NEVER, "stack": resolved(), **more})


def test_an_sbom_holds_packages_and_components_and_is_the_same_again() -> None:
    text = sbom_of(described(), INVENTORY)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text == sbom_of(described(), INVENTORY)
    parts = {one["name"]: one for one in json.loads(text)["components"]}
    assert parts["PyYAML"]["purl"] == "pkg:pypi/pyyaml@6.0"
    assert parts["dpkg"]["purl"] == "pkg:deb/debian/dpkg@1:1.21~x?arch=amd64"
    assert parts["flex"]["pedigree"]["commits"] == [{"uid": COMMIT, "url": "https://example.com/flex.git"}]
    assert parts["senlib"]["hashes"] == [{"alg": "SHA-256", "content": "d" * 64}]
    assert parts["drivers"]["components"][0]["hashes"][0]["content"] == "c" * 64
    assert parts["registry.example:5000/debian:bookworm"]["version"] == DIGEST


def test_an_sbom_of_another_image_has_another_number() -> None:
    numbers = {
        json.loads(sbom_of(described(image=image, stack=None), INVENTORY))["serialNumber"]
        for image in (DIGEST, "sha256:" + "e" * 64)
    }
    assert len(numbers) == 2


def test_the_library_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cyclonedx"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CommandError, match="an SBOM wants cyclonedx-python-lib") as caught:
        check_library()
    assert "spyre-ci[image]" in str(caught.value.remedy)


def test_when_an_image_was_made() -> None:
    assert created_at("2026-05-04T03:02:01.123456789Z", "") == datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
    assert created_at("2026-05-04T03:02:01Z", "86400") == datetime(1970, 1, 2, tzinfo=UTC)
    assert created_at("nonsense", "") == NEVER


def test_a_name_is_taken_apart() -> None:
    assert split_name("h:5000/a/b:tag") == ("h:5000/a/b", "tag")
    assert split_name(f"h:5000/a/b@{DIGEST}") == ("h:5000/a/b", DIGEST)
    assert [is_tag(one) for one in ("latest", "a/b", "debian:12", DIGEST)] == [True, False, False, False]


def test_unusual_files_are_found(tmp_path: Path) -> None:
    for name, mode in (("plain", 0o644), ("power", 0o4755), ("all", 0o666)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    (tmp_path / "link").symlink_to("nowhere")
    powerful, writable = inside.unusual(os.fspath(tmp_path))
    assert powerful == [str(tmp_path / "power")]
    assert writable == [str(tmp_path / "all")]


def test_a_finding_without_a_remedy_passed() -> None:
    assert Finding(check="a", seen="b").passed
    assert not Finding(check="a", seen="b", remedy="c").passed
