"""The change of a pin in real repositories, as people and CIs have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.config.pins_model import PinPlace
from ci.core.errors import CommandError, UsageError
from ci.pins import branch, change
from ci.pins.branch import Repository, repository_at
from ci.pins.change import BranchTakenError, Change, Made, make_change, pinned_version
from ci.pins.diary import FILE, parse
from tests.integration.pins.checkout import NOW, PIN, TEXT, Checkout, change_in, new_checkout

BRANCH = "pins/torch-2.10"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return new_checkout(tmp_path / "checkout")


def make(checkout: Checkout, change: Change | None = None) -> Made:
    change = change or change_in(checkout.folder)
    return make_change(repository_at(checkout.folder), change, now=NOW.timestamp())


def test_a_branch_has_the_pin_the_ledger_and_the_event(
    checkout: Checkout,
) -> None:
    checkout.write("pins/torch/2.10-bbbbbbbbbbbb.json", "{}\n")
    before = checkout.state
    made = make(checkout)
    assert (made.branch, made.new, made.commit) == (BRANCH, True, checkout.git("rev-parse", BRANCH))
    assert checkout.git("show", f"{BRANCH}:stack.yaml") == PIN.replace("2.9", "2.10").strip()
    assert checkout.git("diff", "--name-only", "main", BRANCH).split() == [
        "pins/torch/2.10-bbbbbbbbbbbb.json", f"pins/torch/{FILE}", "stack.yaml",
    ]  # fmt: skip
    events = parse(checkout.git("show", f"{BRANCH}:pins/torch/{FILE}").encode(), Path(FILE))
    assert events[2:] == [change_in(checkout.folder).event]
    assert checkout.git("log", "-1", "--format=%B", BRANCH) == change_in(checkout.folder).message.strip()
    assert checkout.git("log", "-1", "--format=%P %an %ae %at", BRANCH) == (
        f"{checkout.git('rev-parse', 'main')} a a@example.org {int(NOW.timestamp())}"
    )
    assert checkout.state == before


def test_what_is_done_twice_changes_nothing(checkout: Checkout) -> None:
    first = make(checkout)
    later = change_in(checkout.folder)
    again = make(checkout, Change(
        track="torch", folder=later.folder, pin=later.pin, text="- [ ] other words\n",
        event=later.event.model_copy(update={"at": NOW.replace(day=29), "reasons": ("62 days",)}),
    ))  # fmt: skip
    assert (again.new, again.commit) == (False, first.commit)


def test_a_branch_that_another_process_made_meanwhile_is_the_branch(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(checkout)
    answers = iter([None])
    monkeypatch.setattr(change, "tip_of", lambda *words: next(answers, branch.tip_of(*words)))
    again = make(checkout)
    assert (again.new, again.commit) == (False, first.commit)


def test_a_dirty_checkout_stays_as_it_is_and_gives_the_branch_only_what_is_of_the_pin(
    checkout: Checkout,
) -> None:
    checkout.write("stack.yaml", PIN + "own: work\n")
    checkout.write("README.md", "# half done\n")
    checkout.git("add", "README.md")
    checkout.write("new.txt", "not added\n")
    before = checkout.state
    make(checkout)
    assert checkout.state == before
    assert checkout.git("show", f"{BRANCH}:stack.yaml") == PIN.replace("2.9", "2.10").strip()
    assert "new.txt" not in checkout.git("ls-tree", "--name-only", BRANCH)
    assert checkout.git("show", f"{BRANCH}:README.md") == "# demo"


def test_a_detached_head_is_what_the_branch_is_made_on(checkout: Checkout) -> None:
    head = checkout.git("rev-parse", "HEAD")
    checkout.git("checkout", "--quiet", "--detach")
    checkout.git("branch", "--quiet", "-D", "main")
    assert repository_at(checkout.folder).on == ""
    make(checkout)
    assert checkout.git("rev-parse", f"{BRANCH}^") == head


def test_a_shallow_clone_can_make_it_and_push_it(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit()
    clone = Checkout(tmp_path / "clone")
    checkout.git("clone", "--quiet", "--depth=1", checkout.folder.as_uri(), str(clone.folder))
    made = make_change(repository_at(clone.folder), change_in(clone.folder), now=NOW.timestamp())
    clone.git("push", "--quiet", "origin", BRANCH)
    assert checkout.git("rev-parse", BRANCH) == made.commit
    assert checkout.git("rev-parse", f"{BRANCH}^") == checkout.git("rev-parse", "main")


def test_settings_in_a_folder_of_a_repository_change_what_is_below_it(tmp_path: Path) -> None:
    whole = Checkout(tmp_path)
    inner = new_checkout(tmp_path / "project")
    (tmp_path / "project/.git").rename(tmp_path / ".git")
    whole.commit()
    made = make_change(repository_at(inner.folder), change_in(inner.folder), now=NOW.timestamp())
    assert made.files == [f"project/pins/torch/{FILE}", "project/stack.yaml"]
    assert "2.10" in whole.git("show", f"{BRANCH}:project/stack.yaml")


def test_a_worktree_of_the_users_own_is_a_checkout_too(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit()
    checkout.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    make(Checkout(tmp_path / "other"), change_in(tmp_path / "other"))
    assert checkout.git("rev-parse", f"{BRANCH}^") == checkout.git("rev-parse", "other")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sha": "c" * 64}, "has sha 'bbbb"),
        ({"answers": (1, 2)}, "has answers (1,), not (1, 2)"),
        ({"deprecated": ("nightly",)}, "has deprecated (), not ('nightly',)"),
    ],
)
def test_a_branch_with_another_upgrade_is_not_touched(
    checkout: Checkout, changed: dict[str, object], said: str
) -> None:
    first = make(checkout)
    other = change_in(checkout.folder)
    event = other.event.model_copy(update=changed)
    with pytest.raises(BranchTakenError) as caught:
        make(checkout, Change(track="torch", folder=other.folder, pin=other.pin, event=event, text=TEXT))
    assert said in caught.value.what
    assert "delete it, here and where it was sent to" in (caught.value.remedy or "")
    assert caught.value.exit_code == 1
    assert checkout.git("rev-parse", BRANCH) == first.commit


def test_a_branch_of_somebody_elses_with_that_name_is_not_touched(checkout: Checkout) -> None:
    checkout.git("branch", BRANCH)
    with pytest.raises(BranchTakenError, match="is there already, and holds no upgrade"):
        make(checkout)
    assert checkout.git("rev-parse", BRANCH) == checkout.git("rev-parse", "main")


def test_a_branch_whose_pin_somebody_changed_by_hand_is_told(checkout: Checkout) -> None:
    make(checkout)
    checkout.git("checkout", "--quiet", "--force", BRANCH)
    checkout.write("stack.yaml", PIN.replace("2.9", "2.8"))
    checkout.commit()
    checkout.git("checkout", "--quiet", "main")
    # What was not committed on main went with the branch.
    checkout.git("checkout", "--quiet", f"{BRANCH}~", "--", ".")
    with pytest.raises(BranchTakenError, match=r"and pins 2\.8, not 2\.10"):
        make(checkout)


def test_work_that_people_put_on_the_branch_stays(checkout: Checkout) -> None:
    make(checkout)
    tree = Checkout(checkout.folder.with_name("tree"))
    checkout.git("worktree", "add", "--quiet", str(tree.folder), BRANCH)
    tree.write("fix.py", "fixed = True\n")
    tip = tree.commit()
    assert make(checkout).commit == tip


def test_a_rebuild_of_the_same_version_has_a_branch_of_its_own(checkout: Checkout) -> None:
    made = make(checkout, replace(change_in(checkout.folder, "2.9", "d" * 64), times=1))
    assert made.branch == "pins/torch-2.9-2"
    assert checkout.git("diff", "--name-only", "main", made.branch) == f"pins/torch/{FILE}"
    title = checkout.git("log", "-1", "--format=%s", made.branch)
    assert title == "torch: 2.9 built again, with dddddddddddd"


def test_no_hook_of_the_user_runs_and_no_filter_changes_what_is_written(checkout: Checkout) -> None:
    ran = checkout.folder / "ran"
    for hook in ("pre-commit", "commit-msg", "post-index-change", "reference-transaction", "post-commit"):
        path = checkout.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch '{ran}'\nexit 1\n")
        path.chmod(0o755)
    checkout.git("-c", "core.hooksPath=/dev/null", "config", "filter.loud.clean", "tr a-z A-Z")
    checkout.write(".git/info/attributes", "*.yaml filter=loud\n*.jsonl filter=loud\n")
    checkout.write(
        ".git/config", (checkout.folder / ".git/config").read_text() + "[core]\n\tautocrlf = true\n"
    )
    make(checkout)
    assert not ran.exists()
    assert checkout.git("cat-file", "blob", f"{BRANCH}:stack.yaml") == PIN.replace("2.9", "2.10").strip()


def test_a_commit_is_signed_where_the_users_are(checkout: Checkout, tmp_path: Path) -> None:
    signer = tmp_path / "signer"
    signer.write_text(
        "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\nmade up\\n-----END PGP SIGNATURE-----\\n'\n"
    )
    signer.chmod(0o755)
    checkout.git("config", "gpg.program", str(signer))
    checkout.git("config", "commit.gpgSign", "yes")
    made = make(checkout)
    assert "gpgsig -----BEGIN PGP SIGNATURE-----" in checkout.git("cat-file", "commit", made.commit)
    assert make(checkout).new is False


def test_a_signature_that_cannot_be_made_leaves_no_branch(checkout: Checkout) -> None:
    checkout.git("config", "gpg.program", "/bin/false")
    checkout.git("config", "commit.gpgSign", "true")
    with pytest.raises(CommandError, match="gpg failed to sign"):
        make(checkout)
    assert checkout.git("branch", "--list", "pins/*") == ""


def test_where_git_knows_nobody_the_tool_commits(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("user.name", "user.email"):
        checkout.git("config", "--unset", key)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    make(checkout)
    assert checkout.git("log", "-1", "--format=%an %ae %cn", BRANCH) == (
        "somebody spyre-ci@users.noreply.github.com spyre-ci"
    )


def test_ends_of_lines_of_two_characters_stay(checkout: Checkout) -> None:
    content = PIN.replace("\n", "\r\n").encode()
    checkout.write("stack.yaml", content)
    checkout.git("-c", "core.autocrlf=false", "add", "stack.yaml")
    checkout.git("commit", "--quiet", "--message", "crlf")
    made = make(checkout)
    blob = checkout.git("rev-parse", f"{made.commit}:stack.yaml")
    wanted = checkout.write("../wanted", content.replace(b"2.9", b"2.10"))
    assert blob == checkout.git("hash-object", "--no-filters", str(wanted))


def test_a_program_stays_one_and_a_link_is_followed(checkout: Checkout) -> None:
    (checkout.folder / "stack.yaml").rename(checkout.folder / "real.yaml")
    (checkout.folder / "real.yaml").chmod(0o755)
    (checkout.folder / "stack.yaml").symlink_to("real.yaml")
    checkout.commit()
    made = make(checkout)
    assert "real.yaml" in made.files
    assert checkout.git("ls-tree", BRANCH, "real.yaml").startswith("100755 blob")


def test_a_file_that_git_has_as_a_link_is_refused(checkout: Checkout) -> None:
    (checkout.folder / "stack.yaml").rename(checkout.folder / "real.yaml")
    (checkout.folder / "stack.yaml").symlink_to("real.yaml")
    checkout.commit()
    (checkout.folder / "stack.yaml").unlink()
    checkout.write("stack.yaml", PIN)
    with pytest.raises(UsageError, match="is committed as a link or a folder"):
        make(checkout)


def test_a_pin_nobody_committed_is_refused(checkout: Checkout) -> None:
    checkout.write("new.yaml", PIN)
    with pytest.raises(UsageError, match="is not committed") as caught:
        make(checkout, change_in(checkout.folder, file="new.yaml"))
    assert caught.value.where == str(checkout.folder / "new.yaml")


def test_a_pin_outside_of_the_repository_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yaml").write_text(PIN)
    with pytest.raises(UsageError, match="is outside of the repository"):
        make(checkout, change_in(checkout.folder, file="../elsewhere.yaml"))


def test_a_folder_without_a_repository_or_a_commit_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is in no checkout of Git"):
        repository_at(tmp_path)
    Checkout(tmp_path).git("init", "--quiet")
    with pytest.raises(UsageError, match="has no commit yet"):
        repository_at(tmp_path)


def test_a_name_that_git_takes_for_a_pattern_is_a_name(checkout: Checkout) -> None:
    checkout.write("st*ck [1].yaml", PIN)
    checkout.commit()
    made = make(checkout, change_in(checkout.folder, file="st*ck [1].yaml"))
    assert "st*ck [1].yaml" in made.files
    assert "'2.9'" in checkout.git("show", f"{BRANCH}:stack.yaml")


def test_a_version_that_no_branch_can_be_called_gets_another_name(checkout: Checkout) -> None:
    made = make(checkout, change_in(checkout.folder, "1!2..3.lock"))
    assert made.branch == "pins/torch-1-2-.3-"
    repository = Repository(top=checkout.folder, head=made.commit, on="")
    pin = PinPlace(file=checkout.folder / "stack.yaml", key="variants.pinned.version")
    assert pinned_version(repository, pin, made.commit) == "1!2..3.lock"


def test_a_branch_that_stands_in_the_way_is_told(checkout: Checkout) -> None:
    checkout.git("branch", "pins")
    with pytest.raises(CommandError, match="'refs/heads/pins' exists"):
        make(checkout)
