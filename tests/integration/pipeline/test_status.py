"""A commit's status, on GitHub and on GitHub Enterprise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.github_api import TOKEN, GitHubApi, Repository

Spyre = Callable[..., int]
SHA = "a" * 40
STRANGERS = ("FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN", "NONE", "")
GIVEN = ("--repository", "o/r", "--sha", SHA)


@pytest.mark.parametrize(
    ("pages", "left"),
    [
        # Each build says that it runs, and how it ended; the older one ends last.
        (["job/pr/5/", "job/pr/6/", "job/pr/6/", "job/pr/5/"], "job/pr/6/"),
        (["job/pr/9/", "job/pr/10/", "job/pr/9/"], "job/pr/10/"),
        (["job/pr/5/", "job/pr/6/"], "job/pr/6/"),
        # Of another job, or of none, no number says what is newer.
        (["job/pr/6/", "job/other/5/"], "job/other/5/"),
        (["runs/6", "job/pr/5/"], "job/pr/5/"),
        (["job/pr/6/", "runs/5"], "runs/5"),
        # No build has a number of so many digits.
        ([f"job/pr/{'9' * 5000}/", "job/pr/5/"], "job/pr/5/"),
        ([f"job/pr/{'9' * 18}/", "job/pr/5/"], f"job/pr/{'9' * 18}/"),
    ],
)
def test_of_two_builds_of_a_commit_the_newer_has_the_last_word(
    api: GitHubApi, spyre: Spyre, pages: list[str], left: str
) -> None:
    for page in pages:
        given = (*GIVEN, "--state", "pending", "--url", f"https://ci/{page}")
        assert spyre("status", *given) == 0
        # What else is said of the commit is nobody's build.
        assert spyre("status", *GIVEN, "--state", "success", "--context", "other") == 0
    told = [one for one in api.repositories["o/r"].statuses[SHA] if one["context"] == "spyre-ci"]
    assert told[0]["target_url"] == f"https://ci/{left}"


def test_github_enterprise_is_where_the_environment_says(
    spyre: Spyre, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GitHubApi(prefix="/api/v3") as enterprise:
        enterprise.repositories["o/r"] = Repository()
        monkeypatch.setenv("GITHUB_API_URL", enterprise.url)
        assert spyre("status", *GIVEN, "--state", "failure", "--description", "x" * 300) == 0
        assert len(enterprise.repositories["o/r"].statuses[SHA][0]["description"]) == 140


def test_a_status_is_sent_again_where_the_answer_was_lost(api: GitHubApi, spyre: Spyre) -> None:
    api.fail("cut", taken=True)
    assert spyre("status", *GIVEN, "--state", "success") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--repository", "o/r", "--sha", "main", "--state", "success"), "is not a commit"),
        (
            (*GIVEN, "--state", "success", "--url", "https://u:secret@ci/1"),
            "is not an http(s) URL without a password",
        ),
        ((*GIVEN, "--state", "success", "--url", "javascript:x"), "is not an http(s) URL without a password"),
        (("--repository", "o", "--sha", SHA, "--state", "success"), "is no repository"),
    ],
)
def test_what_github_would_not_take_is_refused_before_it_is_asked(
    api: GitHubApi, spyre: Spyre, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spyre("status", *words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "secret" not in told
    assert api.seen == []


def test_a_token_is_never_told(api: GitHubApi, spyre: Spyre, capsys: pytest.CaptureFixture[str]) -> None:
    api.tokens.clear()
    assert spyre("status", *GIVEN, "--state", "success") == 2
    told = capsys.readouterr()
    assert "401" in told.err
    assert TOKEN not in told.out + told.err


@pytest.mark.parametrize(
    ("author", "words"),
    [
        *((one, ()) for one in ("OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR")),
        *((one, ()) for one in STRANGERS),
        ("NONE", ("--of-anybody",)),
    ],
)
def test_the_head_of_a_pull_request_is_given_for_who_has_contributed_before(
    api: GitHubApi, spyre: Spyre, capsys: pytest.CaptureFixture[str], author: str, words: tuple[str, ...]
) -> None:
    api.repositories["o/r"].pulls[7]["author_association"] = author
    code = 1 if author in STRANGERS and not words else 0
    assert spyre("head", "--repository", "o/r", "--pull-request", "7", *words) == code
    told = capsys.readouterr()
    assert told.out == (f"{SHA}\n" if code == 0 else "")
    assert ("is not a contributor" in told.err) == (code == 1)


def test_a_pull_request_that_is_none_has_no_head(
    api: GitHubApi, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spyre("head", "--repository", "o/r", "--pull-request", "8") == 2
    api.repositories["o/r"].pulls[7]["head"]["sha"] = "main"
    assert spyre("head", "--repository", "o/r", "--pull-request", "7") == 3
    assert "GitHub returns no head commit of o/r#7" in capsys.readouterr().err
