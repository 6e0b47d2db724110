"""What is noted of each step, and what a release is proven with."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from ci.config import load_settings
from ci.config.package_model import Gate
from ci.core.errors import BadFileError, MissingInputError, SettingsError, UsageError
from ci.package import gates, release
from ci.package.artifacts import artifact, artifacts_in
from ci.package.evidence import read_run, records_in
from ci.package.project import Project, Source
from ci.package.records import Record, read_record, write_record
from ci.package.release import bill_of, pinned_of
from ci.package.statement import (
    StatementError,
    check_envelope,
    check_subjects,
    envelope_of,
    statement_of,
)
from ci.package.wiring import Bench
from tests.packages import make_sdist, make_wheel

COMMIT = "ab" * 20
IMAGE = "registry.example/spyre@sha256:" + "1" * 64
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
Key = tuple[bytes, bytes]


def record(step: str, **details: object) -> Record:
    return Record(step=step, project="demo", commit=COMMIT, passed=True, details=details)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A project that is built, linted, tested and verified."""
    make_wheel(tmp_path / "dist")
    make_sdist(tmp_path / "dist")
    settings = load_settings(path=None, environ={}, flags={}, cwd=tmp_path)
    source = Source(commit=COMMIT, url="https://example.org/demo")
    project = Project(folder=tmp_path, name="demo", pyproject={"project": {"name": "demo"}}, source=source)
    made = Bench(project=project, settings=settings, dist=tmp_path / "dist", records=tmp_path / "records")
    files = [one.as_json() for one in artifacts_in(made.dist)]
    for step in gates.MERGE_STEPS:
        write_record(made.records, record(step, files=files))
    return made


def summary(folder: Path, **identity: object) -> Path:
    content = {
        "schema": "spyre-ci/summary/1", "exit_code": 0, "planned": 3, "verdicts": {"passed": 3},
        "ran_in": [{"back_end": "demo 1.0", "torch": "2.13.0", "image": IMAGE}],
        "identity": {
            "run": "r1", "run_id": 5, "url": "", "stage": 1, "percent": 5, "pytorch_sha": "cd" * 20,
            "commit": COMMIT,
            **identity,
        },
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(content))
    return folder


def key_pair(private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> Key:
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return (
        private.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain),
        private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo),
    )


def passed(bench: Bench, gate: Gate) -> gates.Judgement:
    return release.pass_gate(release.ground_of(bench), "an index", gate, artifacts_in(bench.dist))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = replace(record("lint", findings=3), dirty=("a.py",), passed=False)
    write_record(tmp_path, one)
    read = read_record(tmp_path, "lint")
    assert replace(read, details={}) == replace(one, details={})
    assert read.details["findings"] == 3


def test_a_step_without_a_record_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no record of `unit`") as caught:
        read_record(tmp_path, "unit")
    assert "spyre-ci package unit" in str(caught.value)
    assert records_in(tmp_path) == dict.fromkeys(gates.MERGE_STEPS)


def test_a_damaged_record_is_said(tmp_path: Path) -> None:
    (tmp_path / "lint.json").write_text('{"schema": "spyre-ci/package-lint/1", "project": 3}')
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        read_record(tmp_path, "lint")


@pytest.mark.parametrize(
    ("step", "details"),
    [
        ("verify", {"files": None}),
        ("verify", {"files": 5}),
        ("verify", {"installed_with": 5}),
        ("verify", {"checks": [5]}),
        ("build", {"files": None}),
        ("build", {"files": 5}),
        ("build", {"files": ["x"]}),
        ("build", {"files": [{}]}),
        ("build", {"environment": 5}),
        ("build", {"environment": [5]}),
        ("lint", {"by_linter": []}),
    ],
)
def test_a_record_of_other_kinds_is_said_wherever_it_is_read(
    bench: Bench, step: str, details: dict[str, object]
) -> None:
    write_record(bench.records, record(step, **details))
    for ask in (
        lambda: passed(bench, "merge"),
        lambda: release.write_release(bench, release.Proof(), "merge", at=NOW),
    ):
        with pytest.raises(BadFileError, match=rf"of the wrong kind: {next(iter(details))}") as caught:
            ask()
        assert f"run the step again: spyre-ci package {step}" in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "torch"),
    [
        ([], "torch==2.13.0"),
        (["torch-spyre==1.0", "torchvision==2.0", "Torch==2.12"], "Torch==2.12"),
        (["no requirement!", "torch @ file:///x"], "torch @ file:///x"),
    ],
)
def test_torch_is_named_by_its_name(bench: Bench, environment: list[str], torch: str) -> None:
    write_record(bench.records, record("build", environment=environment))
    release.write_release(bench, release.Proof(), "merge", at=NOW)
    assert json.loads((bench.records / "release.json").read_text())["torch"] == torch


def test_a_constraint_of_something_else_is_no_torch(bench: Bench) -> None:
    flags = {"package.constraints": ["packaging<99"]}
    settings = load_settings(path=None, environ={}, flags=flags, cwd=bench.project.folder)
    release.write_release(replace(bench, settings=settings), release.Proof(), "merge", at=NOW)
    assert json.loads((bench.records / "release.json").read_text())["torch"] == ""


@pytest.mark.parametrize(
    ("torch", "uri"),
    [
        ("torch==2.13.0+cpu", "pkg:pypi/torch@2.13.0%2Bcpu"),
        ("torch>=2", "pkg:pypi/torch"),
        ("torch==2.*", "pkg:pypi/torch"),
        ("Torch @ file:///x", "pkg:pypi/torch"),
    ],
)
def test_torch_is_a_material_by_its_name_and_pinned_version(bench: Bench, torch: str, uri: str) -> None:
    path = release.write_release(bench, release.Proof(), "merge", at=NOW)
    content = {**json.loads(path.read_text()), "torch": torch}
    materials = statement_of(content, "tests")["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert materials[-1] == {"uri": uri}


def test_a_release_says_all_there_is_to_say(bench: Bench, tmp_path: Path) -> None:
    proof = release.Proof(runs=[read_run(summary(tmp_path / "run"))], image=IMAGE)
    path = release.write_release(bench, proof, "full", at=NOW)
    content = json.loads(path.read_text())
    assert content["schema"] == "spyre-ci/release/1"
    assert content["source"] == {"commit": COMMIT, "url": "https://example.org/demo", "dirty": []}
    assert content["files"] == [one.as_json() for one in artifacts_in(bench.dist)]
    assert content["image"] == IMAGE
    assert content["torch"] == "torch==2.13.0"
    assert content["runs"][0]["verdicts"] == {"passed": 3}
    assert content["gates"]["open"]
    assert content["at"] == "2026-11-22T12:00:00+00:00"
    sums = (bench.records / "SHA256SUMS").read_text()
    assert sums == "".join(f"{one.sha256}  {one.filename}\n" for one in artifacts_in(bench.dist))
    assert json.loads((bench.records / "demo-1.0.cdx.json").read_text())["specVersion"] == "1.6"


def test_the_gate_of_an_index_reads_what_the_release_says(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"there is no release\.json") as caught:
        passed(bench, "full")
    assert "spyre-ci package release --image" in str(caught.value)
    assert passed(bench, "merge").shut_by == []
    proof = release.Proof(runs=[read_run(summary(tmp_path / "run"))], image=IMAGE)
    release.write_release(bench, proof, "full", at=NOW)
    assert passed(bench, "full").shut_by == []


def test_a_release_of_other_files_opens_no_gate(bench: Bench, tmp_path: Path) -> None:
    proof = release.Proof(runs=[read_run(summary(tmp_path / "run"))], image=IMAGE)
    release.write_release(bench, proof, "full", at=NOW)
    make_wheel(bench.dist, files={"demo/__init__.py": "other"})
    with pytest.raises(gates.GateError, match="of other files or of another commit"):
        passed(bench, "full")


def test_a_release_cannot_be_edited_open(bench: Bench, tmp_path: Path) -> None:
    proof = release.Proof(runs=[read_run(summary(tmp_path / "run", stage=0))], image=IMAGE)
    path = release.write_release(bench, proof, "full", at=NOW)
    path.write_text(path.read_text().replace('"open": false', '"open": true'))
    with pytest.raises(gates.GateError, match="stage"):
        passed(bench, "full")


def test_a_word_for_one_gate_is_none_for_another(bench: Bench) -> None:
    words = tuple(
        gates.Override(check=check, gate="full", by="Ada", reason="no card is free", at="now")
        for check in ("run", "stage", "image", "device")
    )
    release.write_release(bench, release.Proof(overrides=words), "full", at=NOW)
    said = [replace(one, seen="no run of PyTorch's tests was given") for one in words]
    assert list(passed(bench, "full").overrides) == said
    assert passed(bench, "merge").overrides == ()


def test_a_word_for_what_was_not_run_does_not_open_the_gate_once_it_failed(bench: Bench) -> None:
    (bench.records / "unit.json").unlink()
    word = gates.Override(check="unit", gate="merge", by="Ada", reason="preview only", at="now")
    release.write_release(bench, release.Proof(overrides=[word]), "merge", at=NOW)
    assert passed(bench, "merge").shut_by == []
    failed = {"counts": {"failing": ["test_a"]}}
    write_record(bench.records, replace(record("unit", **failed), passed=False))
    with pytest.raises(gates.GateError, match="test_a\n    Ada answered for: was not run"):
        passed(bench, "merge")


def test_a_word_that_does_not_say_what_it_is_of_is_damaged(bench: Bench) -> None:
    (bench.records / "unit.json").unlink()
    word = gates.Override(check="unit", gate="merge", by="Ada", reason="preview only", at="now")
    path = release.write_release(bench, release.Proof(overrides=[word]), "merge", at=NOW)
    path.write_text(path.read_text().replace('"seen": "was not run"', '"seen": ""'))
    with pytest.raises(BadFileError, match="an override does not say what it is of"):
        passed(bench, "merge")


def test_a_word_for_a_lenient_gate_does_not_open_a_strict_one(bench: Bench, tmp_path: Path) -> None:
    (bench.records / "unit.json").unlink()
    word = gates.Override(check="unit", gate="merge", by="Ada", reason="preview only", at="now")
    proof = release.Proof(runs=[read_run(summary(tmp_path / "run"))], image=IMAGE, overrides=[word])
    release.write_release(bench, proof, "merge", at=NOW)
    assert passed(bench, "merge").overrides == (replace(word, seen="was not run"),)
    with pytest.raises(gates.GateError, match="unit: was not run"):
        passed(bench, "full")


def test_files_nobody_verified_are_no_release(bench: Bench) -> None:
    make_wheel(bench.dist, files={"demo/__init__.py": "other"})
    path = release.write_release(bench, release.Proof(), "merge", at=NOW)
    assert not json.loads(path.read_text())["gates"]["open"]
    with pytest.raises(gates.GateError, match=r"files: not as they were verified: demo-1\.0-py3"):
        passed(bench, "merge")


def test_an_image_is_named_by_digest(bench: Bench) -> None:
    with pytest.raises(UsageError, match="names no image by its digest"):
        release.write_release(bench, release.Proof(image="registry.example/spyre:latest"), "full", at=NOW)


def test_a_damaged_release_is_said(bench: Bench) -> None:
    (bench.records / "release.json").write_text('{"schema": "spyre-ci/release/1", "files": 3}')
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        passed(bench, "merge")


@pytest.mark.parametrize(
    "make",
    [
        ed25519.Ed25519PrivateKey.generate,
        lambda: ec.generate_private_key(ec.SECP256R1()),
        lambda: rsa.generate_private_key(65537, 2048),
    ],
    ids=["ed25519", "ecdsa", "rsa"],
)
def test_a_signed_statement_holds_for_its_files_and_key_alone(
    bench: Bench, make: Callable[[], ed25519.Ed25519PrivateKey], tmp_path: Path
) -> None:
    private, public = key_pair(make())
    _, other = key_pair(make())
    content = json.loads(release.write_release(bench, release.Proof(), "merge", at=NOW).read_text())
    path = tmp_path / "demo.intoto.json"
    path.write_text(envelope_of(statement_of(content, "tests"), private))
    said = check_envelope(path, public)
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    check_subjects(said, artifacts_in(bench.dist), path)
    with pytest.raises(StatementError, match="not signed with this key"):
        check_envelope(path, other)
    with pytest.raises(StatementError, match="the statement says"):
        check_subjects(said, [artifact(make_wheel(tmp_path, files={"demo/__init__.py": "x"}))], path)
    with pytest.raises(StatementError, match="is none of its files"):
        check_subjects(said, [artifact(make_wheel(tmp_path, version="2.0"))], path)


def test_a_statement_changed_or_unsigned_does_not_hold(bench: Bench, tmp_path: Path) -> None:
    private, public = key_pair(ed25519.Ed25519PrivateKey.generate())
    content = json.loads(release.write_release(bench, release.Proof(), "merge", at=NOW).read_text())
    path = tmp_path / "demo.intoto.json"
    signed = json.loads(envelope_of(statement_of(content, "tests"), private))
    other = json.loads(envelope_of(statement_of({**content, "version": "2.0"}, "tests"), None))
    path.write_text(json.dumps({**signed, "payload": other["payload"]}))
    with pytest.raises(StatementError, match="not signed with this key"):
        check_envelope(path, public)
    path.write_text(json.dumps(other))
    with pytest.raises(StatementError, match="not signed with this key"):
        check_envelope(path, public)


@pytest.mark.parametrize("text", ["", "{}", '{"payload": "e30=", "payloadType": "x", "signatures": []}'])
def test_what_is_no_statement_is_said(tmp_path: Path, text: str) -> None:
    _, public = key_pair(ed25519.Ed25519PrivateKey.generate())
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(BadFileError, match=r"no envelope of a statement|no in-toto statement|wrong kind"):
        check_envelope(tmp_path / "s.json", public)


def signed(statement: object, private: bytes, **changed: object) -> str:
    """An envelope of anything, signed."""
    envelope = json.loads(envelope_of(cast("dict[str, Any]", statement), private))
    return json.dumps({**envelope, **changed})


def stated(bench: Bench) -> dict[str, Any]:
    """The statement of a release."""
    path = release.write_release(bench, release.Proof(), "merge", at=NOW)
    return statement_of(json.loads(path.read_text()), "tests")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"subject": 5}, "subject: Input should be a valid list"),
        ({"subject": None}, "subject: "),
        ({"subject": [{"name": "x"}]}, r"subject\.0\.digest: Field required"),
        ({"predicate": {}}, "buildDefinition: Field required"),
        ({"predicate": {"buildDefinition": {"externalParameters": {}}}}, "source: Field required"),
    ],
)
def test_a_signed_statement_of_something_else_is_said(
    bench: Bench, tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    private, public = key_pair(ed25519.Ed25519PrivateKey.generate())
    path = tmp_path / "s.json"
    path.write_text(signed({**stated(bench), **changed}, private))
    with pytest.raises(BadFileError, match=said) as caught:
        check_envelope(path, public)
    assert "spyre-ci package release" in str(caught.value)


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "[]",
        "5",
        json.dumps({"payload": "e30=", "payloadType": 5, "signatures": []}),
        json.dumps({"payload": "no base64!", "payloadType": "x", "signatures": []}),
        json.dumps({"payload": "e30=", "payloadType": "x", "signatures": [{"sig": 5}]}),
        json.dumps(
            {"payload": base64.b64encode(DEEP.encode()).decode(), "payloadType": "x", "signatures": []}
        ),
    ],
)
def test_an_envelope_of_no_sense_is_said(tmp_path: Path, text: str) -> None:
    _, public = key_pair(ed25519.Ed25519PrivateKey.generate())
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(BadFileError, match=r"no envelope of a statement|of the wrong kind"):
        check_envelope(tmp_path / "s.json", public)


def test_a_signature_need_not_name_its_key_and_may_be_one_of_several(bench: Bench, tmp_path: Path) -> None:
    private, public = key_pair(ed25519.Ed25519PrivateKey.generate())
    path, content = tmp_path / "s.json", stated(bench)
    sig = json.loads(signed(content, private))["signatures"][0]["sig"]
    for ours in ({"sig": sig}, {"sig": sig.replace("+", "-").replace("/", "_"), "keyid": "another"}):
        path.write_text(signed(content, private, signatures=[{"sig": "AAAA"}, ours]))
        assert check_envelope(path, public)["subject"] == content["subject"]
    path.write_text(signed(content, private, signatures=[{"sig": "AAAA"}, {"sig": ""}]))
    with pytest.raises(StatementError, match="not signed with this key"):
        check_envelope(path, public)


@pytest.mark.parametrize(
    ("origin", "url"),
    [("git@github.com:foo/bar.git", "ssh://git@github.com/foo/bar.git"), ("../bar", ""), ("a b://c", "")],
)
def test_an_origin_of_any_kind_makes_a_release(bench: Bench, origin: str, url: str) -> None:
    source = replace(bench.project.source, url=origin)
    bench = replace(bench, project=replace(bench.project, source=source))
    material = stated(bench)["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    assert material.get("uri", "") == (f"git+{url}@{COMMIT}" if url else "")
    assert material["digest"] == {"gitCommit": COMMIT}
    told = json.loads((bench.records / "demo-1.0.cdx.json").read_text())
    references = told["metadata"]["component"].get("externalReferences", [])
    assert [one["url"] for one in references] == ([url] if url else [])


def test_nothing_is_written_where_a_part_of_a_release_cannot_be_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name for path in bench.records.iterdir()}
    monkeypatch.setenv(release.SIGNING_KEY, "no key")
    with pytest.raises(SettingsError):
        release.write_release(bench, release.Proof(), "merge", at=NOW)
    assert {path.name for path in bench.records.iterdir()} == before


def test_keys_that_are_none_are_said_without_showing_them(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the signing key cannot be used") as caught:
        envelope_of({}, b"-----BEGIN PRIVATE KEY-----\nsecretsecret\n-----END PRIVATE KEY-----")
    assert "secretsecret" not in str(caught.value)
    with pytest.raises(SettingsError, match="the key cannot be read"):
        check_envelope(tmp_path / "s.json", b"nothing")


def test_a_bill_is_the_same_for_the_same_release(bench: Bench) -> None:
    files = artifacts_in(bench.dist)
    frozen = ["torch==2.13.0", "pip==26.0", "demo @ file:///x", "-e git+x", "numpy==2.0"]
    first, second = (
        bill_of(files, frozen, commit=COMMIT, url="https://example.org/demo", at=NOW) for _ in range(2)
    )
    assert first == second
    told = json.loads(first)
    assert [one["purl"] for one in told["components"]] == ["pkg:pypi/numpy@2.0", "pkg:pypi/torch@2.13.0"]
    assert {one["name"] for one in told["metadata"]["component"]["components"]} == {
        one.filename for one in files
    }


def test_tools_of_every_environment_are_no_parts() -> None:
    assert pinned_of(["pip==1", "setuptools==2", "wheel==3", "demo==4", "x==5"], without="demo") == [
        ("x", "5")
    ]
