"""What is noted of a release while it is published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from packaging.version import Version

from ci.config.package_model import Index
from ci.core.errors import CommandError
from ci.package import proving
from ci.package.account import UnfinishedError
from ci.package.artifacts import Artifact
from ci.package.asking import Asker
from ci.package.credentials import Credentials
from ci.package.listing import Listed
from ci.package.proving import Prover
from ci.package.publishing import Publisher, Release, note_path

NAME = "spyre_demo-1.0.tar.gz"
SDIST = Artifact(
    path=Path(NAME), kind="sdist", name="spyre-demo", version=Version("1.0"), sha256="a" * 64, size=1
)


def publisher(monkeypatch: pytest.MonkeyPatch, records: Path) -> Publisher:
    """One whose index has everything already."""
    page = [Listed(filename=NAME, url="https://index/x", sha256="a" * 64)]
    monkeypatch.setattr(Asker, "listed", lambda *_, **__: page)
    index = Index(upload="https://index/", simple="https://index/simple")
    return Publisher(
        asker=Asker(name="stage", index=index),
        gate=lambda *_: None,
        credentials=lambda: Credentials(user="x"),
        records=records,
        environ={},
        constraints=(),
        timeout_s=1,
        now=lambda: 0,
        say=lambda _: None,
    )


def proves(monkeypatch: pytest.MonkeyPatch, *, well: bool) -> list[int]:
    """What is proved from now on; a list that grows each time."""
    calls = []

    def prove(_self: Prover, _artifacts: Sequence[Artifact]) -> list[str]:
        calls.append(1)
        if not well:
            raise UnfinishedError("does not show all")
        return [NAME]

    monkeypatch.setattr(Prover, "prove", prove)
    return calls


def noted(records: Path) -> tuple[bool, bool]:
    told = json.loads(note_path(records, "stage").read_text())
    return told["complete"], told["proved"]


def test_only_what_was_proved_is_noted_as_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, release = publisher(monkeypatch, tmp_path), Release(artifacts=[SDIST], commit="c")
    proves(monkeypatch, well=False)
    with pytest.raises(UnfinishedError):
        made.publish(release)
    assert noted(tmp_path) == (False, False)
    calls = proves(monkeypatch, well=True)
    assert made.publish(release)["complete"] is True
    assert noted(tmp_path) == (True, True)
    assert made.publish(release)["proved"] is True
    assert len(calls) == 1


def test_a_proof_of_before_that_was_lost_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, release = publisher(monkeypatch, tmp_path), Release(artifacts=[SDIST], commit="c")
    proves(monkeypatch, well=True)
    made.publish(release)
    path = note_path(tmp_path, "stage")
    path.write_text(json.dumps({**json.loads(path.read_text()), "proved": False}))
    calls = proves(monkeypatch, well=True)
    made.publish(release)
    assert len(calls) == 1


@pytest.mark.parametrize("files", [5, None, ["x"]])
def test_a_damaged_note_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: object
) -> None:
    made, release = publisher(monkeypatch, tmp_path), Release(artifacts=[SDIST], commit="c")
    proves(monkeypatch, well=True)
    made.publish(release)
    path = note_path(tmp_path, "stage")
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": files}))
    calls = proves(monkeypatch, well=True)
    assert made.publish(release)["complete"] is True
    assert calls == [1]
    assert noted(tmp_path) == (True, True)


def test_a_dry_run_proves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = publisher(monkeypatch, tmp_path).publish(Release(artifacts=[SDIST], commit="c"), dry_run=True)
    assert (told["complete"], told["proved"]) == (False, False)
    assert not note_path(tmp_path, "stage").exists()


def test_pip_says_no_password_of_its_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = Artifact(
        path=tmp_path / "x.whl", kind="wheel", name="x", version=Version("1.0"),
        tags=frozenset(sys_tags()), sha256="a" * 64, size=1,
    )  # fmt: skip

    def fails(*_: object, **__: object) -> None:
        raise CommandError("host='me', port='hun'")

    monkeypatch.setattr(proving, "passing", fails)
    index = Index(upload="https://index/", simple="https://index/simple")
    environ = {"PIP_INDEX_URL": "https://me:hun/ter2@index/"}
    prover = Prover(
        asker=Asker(name="stage", index=index), environ=environ, constraints=(), timeout_s=1, say=print
    )
    with pytest.raises(UnfinishedError) as caught:
        prover._installed([wheel], tmp_path)
    assert "hun" not in str(caught.value)
