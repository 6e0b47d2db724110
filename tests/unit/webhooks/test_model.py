from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import MissingInputError, SettingsError
from ci.webhooks.model import Hook, Host, identity, read_webhooks

ROOT = Path(__file__).parent.parent.parent.parent
HOOK = (
    "hooks:\n  ci:\n    url: https://j.example.com/h/\n    events: [push]\n    secret: SPYRE_CI_WEBHOOK_S\n"
)
ROW = "repositories:\n  - repository: o/r\n"
REPO = ROW + "    hooks: []\n"


def test_the_projects_own_file_can_be_read() -> None:
    found = read_webhooks(ROOT / "jenkins" / "webhooks.yaml")
    (one,) = found.repositories
    assert (one.name, found.host_of(one).api) == (
        "enterprise:spyre/runtime", "https://github.example.com/api/v3",
    )  # fmt: skip
    # What the branch source of Jenkins listens to.
    (hook,) = found.hooks_of(one)
    assert (hook.url, set(hook.events)) == (
        "https://jenkins.example.com/github-webhook/", {"pull_request", "push"},
    )  # fmt: skip


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no such file"):
        read_webhooks(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "repositories: Field required"),
        (HOOK + "    evnets: [push]\n",
         "/webhooks.yaml:6: unknown key 'hooks.ci.evnets', did you mean 'events'?"),
        (HOOK.replace("https", "http"), "/webhooks.yaml:3: hooks.ci.url: must be https"),
        (HOOK.replace("/h/", "/h?token=x"), "contains a query, a fragment or credentials"),
        (HOOK.replace("//j.", "//me:hunter2@j."), "contains a query, a fragment or credentials"),
        (HOOK.replace("SPYRE_CI_WEBHOOK_S", "AWS_SECRET_ACCESS_KEY"), "/webhooks.yaml:5: hooks.ci.secret:"),
        (HOOK.replace("[push]", "[]"), "/webhooks.yaml:4: hooks.ci.events"),
        (HOOK.replace("[push]", "[push, '*']"), "* means all events, so leave out the others"),
        (HOOK.replace("[push]", "[Push]"), "/webhooks.yaml:4: hooks.ci.events.0"),
        (HOOK + "    content_type: xml\n", "/webhooks.yaml:6: hooks.ci.content_type"),
        (HOOK + HOOK.replace("hooks:\n  ci", "  two").replace("j.example.com/h/", "J.example.com:443/h")
         + REPO,
         "/webhooks.yaml:7: hooks.two.url: two has the URL of ci"),
        (REPO + "    host: ghe\nhosts:\n  ghes: {api: https://g.example.com/api/v3}\n",
         "/webhooks.yaml:4: repositories.0.host: there is no host 'ghe' remedy: did you mean 'ghes'?"),
        (HOOK + ROW + "    hooks: [cii]\n",
         "repositories.0.hooks.0: there is no hook 'cii' remedy: did you mean 'ci'?"),
        (HOOK + ROW + "    hooks: [ci, ci]\n", "repositories.0.hooks.1: the hook 'ci' is listed twice"),
        (REPO + "  - {repository: O/R, hooks: []}\n",
         "/webhooks.yaml:4: repositories.1.repository: 'O/R' is listed twice"),
        ("repositories:\n  - repository: o\n", "/webhooks.yaml:2: repositories.0.repository"),
        ("hosts:\n  a: {api: https://g.example.com/api/v3, token: HOME}\n", "hosts.a.token"),
        ("hosts:\n  a: {api: 'https://g.example.com/a b'}\n", "contains blanks or quotes"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_file_line_and_key(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "webhooks.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        read_webhooks(path)
    said = " ".join(str(caught.value).replace(str(tmp_path), "").split())
    assert told in said
    assert "remedy: " in said
    assert "hunter2" not in said


def test_what_is_left_out_has_its_default() -> None:
    given = {"url": "https://j.example.com/h", "events": ["push"], "secret": "SPYRE_CI_WEBHOOK_S"}
    hook = Hook.model_validate(given)
    assert (hook.content_type, hook.ssl_verification, hook.active) == ("json", True, True)
    assert (Host().api, Host().token) == ("https://api.github.com", "SPYRE_CI_GITHUB_TOKEN")


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("HTTPS://J.EXAMPLE.COM:443/h/", True),
        ("https://somebody:word@j.example.com/h", True),
        ("https://j.example.com/h/#top", True),
        ("http://j.example.com/h/", False),
        ("https://j.example.com:80/h/", False),
        ("https://j.example.com/H/", False),
        ("https://j.example.com/h/?job=a", False),
        ("https://[::1", False),
        ("mailto:x", False),
        ("", False),
    ],
)
def test_another_spelling_of_a_url_is_no_other_hook(url: str, same: bool) -> None:
    assert (identity(url) == identity("https://j.example.com/h/")) == same
