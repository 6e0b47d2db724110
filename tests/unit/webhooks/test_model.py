from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import MissingInputError, SettingsError
from ci.webhooks.model import GITHUB_API, Hook, Host, chosen, read_webhooks

ROOT = Path(__file__).parent.parent.parent.parent
HOOK = (
    "hooks:\n  ci:\n    url: https://j.example.com/h/\n    events: [push]\n    secret: SPYRE_CI_WEBHOOK_S\n"
)
REPO = "repositories:\n  - repository: o/r\n"


def read(tmp_path: Path, text: str) -> str:
    """The error of a file, on one line."""
    path = tmp_path / "webhooks.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        read_webhooks(path)
    return " ".join(str(caught.value).replace(str(tmp_path), "").split())


def test_the_projects_own_file_can_be_read() -> None:
    found = read_webhooks(ROOT / "jenkins" / "webhooks.yaml")
    polled, hooked = found.repositories
    assert found.host_of(polled).api == GITHUB_API
    assert found.host_of(hooked).api.endswith("/api/v3")
    assert [hook.events for hook in found.hooks_of(hooked)] == [("pull_request",)]
    assert polled.poll is not None
    assert (polled.name, hooked.name) == ("torch-spyre/torch-spyre", "enterprise:spyre/runtime")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no such file"):
        read_webhooks(tmp_path / "none.yaml")


def test_an_empty_file_names_nothing(tmp_path: Path) -> None:
    path = tmp_path / "webhooks.yaml"
    path.write_text("", encoding="utf-8")
    assert read_webhooks(path).repositories == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HOOK + "    evnets: [push]\n",
         "/webhooks.yaml:6: unknown key 'hooks.ci.evnets', did you mean 'events'?"),
        (HOOK.replace("https", "http"), "/webhooks.yaml:3: hooks.ci.url: must be https"),
        (HOOK.replace("/h/", "/h?token=x"), "holds a query, a fragment or credentials"),
        (HOOK.replace("//j.", "//me:pw@j."), "holds a query, a fragment or credentials"),
        (HOOK.replace("SPYRE_CI_WEBHOOK_S", "AWS_SECRET_ACCESS_KEY"), "/webhooks.yaml:5: hooks.ci.secret:"),
        (HOOK.replace("    secret: SPYRE_CI_WEBHOOK_S\n", ""), "hooks.ci.secret: Field required"),
        (HOOK.replace("[push]", "[]"), "/webhooks.yaml:4: hooks.ci.events"),
        (HOOK.replace("[push]", "[push, '*']"), "* is all events, and others stand beside it"),
        (HOOK.replace("[push]", "[Push]"), "/webhooks.yaml:4: hooks.ci.events.0"),
        (HOOK + "    content_type: xml\n", "/webhooks.yaml:6: hooks.ci.content_type"),
        (HOOK + HOOK.replace("hooks:\n  ci", "  two").replace("j.example.com/h/", "J.example.com:443/h"),
         "/webhooks.yaml:7: hooks.two.url: two has the URL of ci"),
        (HOOK + "keep: [https://j.example.com/h]\n", "ci is also somebody else's"),
        (REPO + "    host: ghe\nhosts:\n  ghes: {api: https://g.example.com/api/v3}\n",
         "/webhooks.yaml:3: repositories.0.host: there is no host 'ghe', did you mean 'ghes'?"),
        (HOOK + REPO + "    hooks: [cii]\n",
         "repositories.0.hooks.0: there is no hook 'cii', did you mean 'ci'?"),
        (HOOK + REPO + "    hooks: [ci, ci]\n", "repositories.0.hooks.1: the hook 'ci' stands twice"),
        (REPO + "  - repository: O/R\n", "/webhooks.yaml:3: repositories.1.repository: 'O/R' stands twice"),
        ("repositories:\n  - repository: o\n", "/webhooks.yaml:2: repositories.0.repository"),
        (REPO + "    poll: {pull_requests: {job: a/b}}\n", "there is no Jenkins to start anything of it"),
        (REPO + "    poll: {}\n", "names neither pull_requests nor branches"),
        (REPO + "    poll: {branches: {job: a/b}}\n", "repositories.0.poll.branches.names: Field required"),
        (REPO + "    poll: {branches: {job: a/../b, names: [main]}}\n", "is no path of a job"),
        (REPO + "    poll: {branches: {job: /a, names: [main]}}\n", "is no path of a job"),
        (REPO + "    poll: {pull_requests: {job: a, trust: all}}\n", "0.poll.pull_requests.trust"),
        ("jenkins: {url: https://j.example.com, token: GITHUB_TOKEN}\n", "jenkins.token"),
        ("jenkins: {url: ftp://j.example.com}\n", "is no https URL"),
        ("hosts:\n  a: {api: https://g.example.com/api/v3, token: HOME}\n", "hosts.a.token"),
        ("hosts:\n  a: {api: 'https://g.example.com/a b'}\n", "holds blanks or quotes"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_file_line_and_key(tmp_path: Path, text: str, told: str) -> None:
    said = read(tmp_path, text)
    assert told in said
    assert "remedy: " in said


def test_a_password_in_an_address_is_not_repeated(tmp_path: Path) -> None:
    assert "hunter2" not in read(tmp_path, HOOK.replace("//j.", "//me:hunter2@j."))


def test_repositories_are_chosen_by_name_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "webhooks.yaml"
    path.write_text(
        "repositories: [{repository: o/a}, {repository: o/b}, {repository: o/c}]", encoding="utf-8"
    )
    found = read_webhooks(path)
    assert [one.repository for one in chosen(found, (), path)] == ["o/a", "o/b", "o/c"]
    assert [one.repository for one in chosen(found, ("o/c", "o/a"), path)] == ["o/a", "o/c"]
    with pytest.raises(SettingsError, match=r"no repository 'o/bb', did you mean 'o/b'\?"):
        chosen(found, ("o/bb",), path)


def test_what_is_left_out_has_its_default() -> None:
    hook = Hook.model_validate(
        {"url": "https://j.example.com/h", "events": ["push"], "secret": "SPYRE_CI_WEBHOOK_S"}
    )
    assert (hook.content_type, hook.ssl_verification, hook.active, hook.token) == ("json", True, True, None)
    assert Host(api="https://g.example.com/api/v3/").api == "https://g.example.com/api/v3"
