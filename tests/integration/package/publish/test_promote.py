"""Promotion: the very files of a stage go to production, between two real indexes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.package.artifacts import artifact, sha256_of
from test_selection.files import write_json

from .conftest import settings_for
from .releases import TOKEN, Checkout, Result, wheel
from .servers import Front, pypiserver

WHEEL, SDIST = "spyre_demo-1.0-py3-none-any.whl", "spyre_demo-1.0.tar.gz"
pytestmark = pytest.mark.nightly


@pytest.fixture
def production(tmp_path: Path, index: str) -> Iterator[str]:  # noqa: ARG001  # is there first
    with pypiserver(tmp_path / "production") as address:
        yield address


@pytest.fixture
def both(tmp_path: Path, before: tuple[Front, str], production: str, served: Path) -> Checkout:
    """A checkout whose files are on the stage."""
    made, settings = Checkout(folder=tmp_path / "demo"), settings_for(before[1])
    settings["indexes"]["prod"] = settings_for(production)["indexes"]["stage"]
    made.make(settings)
    made.build()
    shutil.copytree(made.dist, served, dirs_exist_ok=True)
    files = [artifact(served / name).as_json() for name in (WHEEL, SDIST)]
    about = {"project": "spyre-demo", "version": "1.0", "commit": made.git("rev-parse", "HEAD")}
    note = {**about, "complete": True, "proved": True, "files": files}
    write_json(made.records / "published-stage.json", "package-published", note)
    return made


def promote(checkout: Checkout, *words: str, version: str = "1.0", token: str = TOKEN) -> Result:
    return checkout.spyre_ci(
        "package", "promote", version, "--from", "stage", "--to", "prod", *words,
        environ={"SPYRE_CI_INDEX_TOKEN": token},
    )  # fmt: skip


def there(tmp_path: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in (tmp_path / "production" / "packages").iterdir()}


def test_the_same_files_go_to_production_even_when_the_checkouts_changed(
    both: Checkout, tmp_path: Path
) -> None:
    hashes = {name: sha256_of(both.dist / name) for name in (WHEEL, SDIST)}
    both.build(code="answer = 'built again'\n")
    done = promote(both, "--json")
    assert done.exit_code == 0, done.output
    assert "stage has the 2 files of 1.0, byte for byte" in done.output
    assert there(tmp_path) == hashes
    assert done.json["promoted_from"] == "stage"
    assert done.json["installed"] == [WHEEL]
    assert both.note("prod")["commit"] == both.note("stage")["commit"]


def test_promoting_again_is_nothing_to_do(both: Checkout) -> None:
    assert promote(both).exit_code == 0
    again = promote(both)
    assert again.exit_code == 0
    assert "nothing to upload" in again.output


def test_a_dry_run_promotes_nothing(both: Checkout, tmp_path: Path) -> None:
    done = promote(both, "--dry-run")
    assert done.exit_code == 0
    assert f"would upload {WHEEL}" in done.output
    assert there(tmp_path) == {}


def test_what_was_half_promoted_is_continued(both: Checkout, tmp_path: Path) -> None:
    data = (both.dist / WHEEL).read_bytes()
    (tmp_path / "production" / "packages" / WHEEL).write_bytes(data)
    done = promote(both)
    assert done.exit_code == 0
    assert "continues: 1 of 2 files is there already" in done.output


def test_bytes_that_changed_on_the_stage_are_not_promoted(
    both: Checkout, served: Path, tmp_path: Path
) -> None:
    before = sha256_of(served / WHEEL)
    (served / WHEEL).unlink()
    wheel(served, code="answer = 'changed'\n")
    done = promote(both)
    assert done.exit_code == 1
    now = sha256_of(served / WHEEL)
    assert f"{WHEEL} has other bytes on stage: sha256 {now}, not {before}" in done.output
    assert there(tmp_path) == {}


def test_bytes_that_are_not_those_the_stages_page_names_are_not_promoted(
    both: Checkout, front: Front, served: Path, tmp_path: Path
) -> None:
    page = f"#sha256={sha256_of(served / WHEEL)}".encode()
    (served / WHEEL).unlink()
    now = sha256_of(wheel(served, code="answer = 'changed'\n"))
    front.edit = lambda text: text.replace(f"#sha256={now}".encode(), page)
    done = promote(both)
    assert done.exit_code == 1
    assert f"{WHEEL} came from stage with other bytes" in done.output
    assert there(tmp_path) == {}


def test_a_file_that_is_gone_from_the_stage_is_named(both: Checkout, served: Path) -> None:
    (served / SDIST).unlink()
    done = promote(both)
    assert done.exit_code == 1
    assert f"1 of 2 files of 1.0 is not there: {SDIST}" in done.output


def test_what_is_half_published_on_the_stage_is_not_promoted(both: Checkout) -> None:
    path = both.records / "published-stage.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "complete": False}))
    done = promote(both)
    assert done.exit_code == 2
    assert "not everything of 1.0 was published on stage" in done.output


def test_another_version_than_the_one_that_is_known_is_refused(both: Checkout) -> None:
    done = promote(both, version="1.1")
    assert done.exit_code == 2
    assert "spyre-demo 1.0 is known, and spyre-demo 1.1 was asked for" in done.output


def test_another_project_than_the_one_that_is_known_is_refused(both: Checkout) -> None:
    done = promote(both, "--project", "spyre-other")
    assert done.exit_code == 2
    assert "spyre-demo 1.0 is known, and spyre-other 1.0 was asked for" in done.output


def test_a_word_that_is_no_version_is_refused(both: Checkout) -> None:
    done = promote(both, version="latest")
    assert done.exit_code == 2
    assert "'latest' is no version" in done.output


def test_nothing_is_promoted_to_where_it_is(both: Checkout) -> None:
    done = both.spyre_ci("package", "promote", "1.0", "--from", "stage", "--to", "stage")
    assert done.exit_code == 2
    assert "stage is both" in done.output


def test_a_release_json_says_what_is_promoted_beside_the_stages_record(
    both: Checkout, tmp_path: Path
) -> None:
    note = both.note()
    path = tmp_path / "release.json"
    shutil.copy(both.records / "published-stage.json", tmp_path)
    keys = ("project", "version", "commit", "files")
    path.write_text(json.dumps({"schema": "spyre-ci/release/1", **{key: note[key] for key in keys}}))
    done = promote(both, "--release", str(path), "--records", str(tmp_path / "elsewhere"))
    assert done.exit_code == 0, done.output
    assert set(there(tmp_path)) == {WHEEL, SDIST}
    assert (tmp_path / "elsewhere" / "published-prod.json").is_file()


def test_a_release_json_is_no_way_round_a_stage_that_nobody_looked_at(both: Checkout, tmp_path: Path) -> None:
    note = both.note()
    path = tmp_path / "release.json"
    keys = ("project", "version", "commit", "files")
    path.write_text(json.dumps({"schema": "spyre-ci/release/1", **{key: note[key] for key in keys}}))
    (both.records / "published-stage.json").unlink()
    done = promote(both, "--release", str(path))
    assert done.exit_code == 1
    assert "nothing says that stage gives 1.0 as it was published" in done.output
    assert there(tmp_path) == {}


def gated() -> dict[str, str]:
    return {"SPYRE_CI_INDEX_TOKEN": TOKEN, "SPYRE_CI__PACKAGE__INDEXES__PROD__GATE": "merge"}


WORDS = ("package", "promote", "1.0", "--from", "stage", "--to", "prod")


def test_the_gate_of_production_is_asked(both: Checkout, tmp_path: Path) -> None:
    shut = both.spyre_ci(*WORDS, environ=gated())
    assert shut.exit_code == 1
    assert "prod: the merge gate is shut" in shut.output
    assert there(tmp_path) == {}
    both.pass_gate()
    done = both.spyre_ci(*WORDS, "--dry-run", environ=gated())
    assert done.exit_code == 0, done.output
    assert "the gate of prod is open: merge" in done.output


def test_a_gate_is_asked_of_the_commit_that_was_published(both: Checkout) -> None:
    both.pass_gate()
    (both.folder / "new.txt").write_text("new\n")
    both.commit()
    assert both.spyre_ci(*WORDS, "--dry-run", environ=gated()).exit_code == 0
    both.pass_gate()
    done = both.spyre_ci(*WORDS, "--dry-run", environ=gated())
    assert done.exit_code == 1
    assert f"lint: is of {both.git('rev-parse', 'HEAD')[:12]}" in done.output


def test_what_was_built_of_a_changed_checkout_is_not_promoted(both: Checkout, tmp_path: Path) -> None:
    both.verify(dirty=("pyproject.toml",))
    done = promote(both)
    assert done.exit_code == 1
    assert "1.0 was built of a checkout that differed from its commit: pyproject.toml" in done.output
    assert there(tmp_path) == {}


def test_a_release_json_of_the_project_is_one_that_promotion_reads(both: Checkout, tmp_path: Path) -> None:
    both.pass_gate()
    made = both.spyre_ci("package", "release", "--index", "stage")
    assert made.exit_code == 0, made.output
    done = promote(both, "--release", str(both.records / "release.json"))
    assert done.exit_code == 0, done.output
    assert set(there(tmp_path)) == {WHEEL, SDIST}


def test_where_nothing_says_what_is_on_the_stage_it_is_told(both: Checkout) -> None:
    (both.records / "published-stage.json").unlink()
    done = promote(both)
    assert done.exit_code == 2
    assert "there is no package-published file" in done.output


def test_production_wants_a_token_of_its_own(both: Checkout, tmp_path: Path) -> None:
    assert promote(both, token="").exit_code == 2
    assert promote(both, token="pypi-wr0ng").exit_code == 2
    assert there(tmp_path) == {}


def test_no_token_follows_the_settings_of_a_checkout_to_wherever_it_is_called(
    both: Checkout, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    elsewhere = Checkout(folder=empty)
    words = ("--config", str(both.folder / "spyre-ci.yaml"), *WORDS, "--records", str(both.records))
    done = elsewhere.spyre_ci(*words, environ={"SPYRE_CI_INDEX_TOKEN": TOKEN, "CI": "true"})
    assert done.exit_code == 2, done.output
    assert "which a pull request can change" in done.output
    assert there(tmp_path) == {}


def test_a_stage_that_is_away_is_told(both: Checkout, front: Front) -> None:
    front.down = True
    done = promote(both)
    assert done.exit_code == 3
    assert "it cannot be reached" in done.output
