"""`spyre-ci webhooks` against a stand-in of GitHub's API, over real HTTP."""

from __future__ import annotations

from tests.integration.webhooks.desk import SECRET, URL, Desk


def test_a_hook_that_is_missing_is_created_once(desk: Desk) -> None:
    said = desk.call("apply")
    assert said.code == 0, said
    assert "here:o/r: 1 to create" in said.out
    assert f"+ create {URL}: pull_request, push" in said.out
    assert f"here:o/r: created {URL}" in said.out
    (hook,) = desk.hooks.values()
    assert hook["config"] == {"url": URL, "content_type": "json", "insecure_ssl": "0", "secret": SECRET}
    assert hook["events"] == ["pull_request", "push"]
    assert hook["active"] is True
    again = desk.call("apply")
    assert (again.code, again.out.splitlines()[0]) == (0, "here:o/r: 1 as it is to be")
    assert [method for method, _ in desk.writes] == ["POST"]
