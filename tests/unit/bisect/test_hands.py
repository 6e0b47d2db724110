"""How a try is started: what it is given, and what of its words counts."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from ci.bisect.answers import Answer, Said
from ci.bisect.builders import Made
from ci.bisect.child import answers_in, as_row
from ci.bisect.executors import MARK, RunnerHands, child_environment, conditions_of, timeout_of
from ci.bisect.search import UnbuildableError
from ci.bisect.trees import Trees
from ci.config import load_settings
from ci.steps.context import Context


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(
        settings=load_settings(path=None, environ={}, flags={}, cwd=tmp_path),
        environ={
            "SPYRE_CI_HUD_TOKEN": "x",
            "GITHUB_TOKEN": "x",
            "PATH": "/bin",
            "SPYRE_CI__DEVICE__NAME": "cpu",
        },
        clock=lambda: 0.0,
        monotonic=lambda: 0.0,
        console=Console(),
        cores=1,
    )


def test_a_try_is_given_no_secret_and_is_found_again(context: Context, tmp_path: Path) -> None:
    environ = child_environment(context, tmp_path)
    assert {"SPYRE_CI_HUD_TOKEN", "GITHUB_TOKEN"}.isdisjoint(environ)
    assert environ[MARK] == str(tmp_path)
    assert environ["PATH"] == "/bin"


def test_a_container_is_given_the_tree_the_job_and_nothing_else(context: Context, tmp_path: Path) -> None:
    tree, folder = tmp_path / "tree", tmp_path / "tries" / "1"
    made = conditions_of(context, tree=tree, folder=folder, search=tmp_path)
    assert set(made.mounts.values()) == {tree, folder, tmp_path / "leases"}
    assert all(one.name in {"ci", "test_selection"} for one in made.read_only_mounts.values())
    assert (made.network, made.restricted) == ("none", True)
    assert {name for name in made.environment if "TOKEN" in name} == set()
    assert made.environment["SPYRE_CI__DEVICE__NAME"] == "cpu"
    named = replace(context, settings=replace(context.settings, path=tmp_path / "spyre-ci.yaml"))
    with_settings = conditions_of(named, tree=tree, folder=folder, search=tmp_path)
    assert tmp_path / "spyre-ci.yaml" in with_settings.read_only_mounts.values()


def test_answers_come_through_and_other_lines_do_not() -> None:
    told = [Answer(said=Said.FAILED, message="é", seconds=0.5, card="cpu:0"), Answer(said=Said.ABSENT)]
    lines = [json.dumps(as_row(one)) for one in told]
    noise = [
        "",
        "words",
        "{}",
        "[1]",
        "null",
        '{"said": "passed"}',
        '{"said": "maybe", "message": ""}',
        lines[0][:9],
    ]
    assert answers_in([*noise, *lines, *noise]) == told


def test_a_tree_in_which_a_build_failed_is_not_built_in_again(context: Context, tmp_path: Path) -> None:
    class Noting:
        made, dropped = list[str](), list[Path]()

        def make(self, sha: str) -> Path:
            self.made.append(sha)
            return tmp_path / sha

        def drop(self, tree: Path) -> None:
            self.dropped.append(tree)

    class Failing:
        released = 0

        def build(self, sha: str, tree: Path) -> Made:
            if sha == "b":
                raise UnbuildableError("no compiler takes it")
            return Made(tree=tree, release=self.release)

        def release(self) -> None:
            self.released += 1

    trees, builder = Noting(), Failing()
    hands = RunnerHands(
        context=context, test="a.py::A::b", commits="ab", trees=cast("Trees", trees), builder=builder,
        folder=tmp_path, stop=threading.Event(),
    )  # fmt: skip
    with pytest.raises(UnbuildableError):
        hands.ready(1)
    assert trees.dropped == [tmp_path / "b"]
    hands.ready(0)
    hands.ready(0)
    assert builder.released == 0
    hands.put_down()
    assert (trees.made, trees.dropped[1:], builder.released) == (["b", "a"], [tmp_path / "a"], 1)


def test_who_waits_for_a_card_is_given_the_time(tmp_path: Path) -> None:
    def seconds(device: str, tries: int) -> float:
        flags = {"device.name": device, "bisect.try_timeout_s": 10, "run.lease_timeout_s": 5000}
        return timeout_of(load_settings(path=None, environ={}, flags=flags, cwd=tmp_path).model, tries)

    # Two workers and one card: one waits for each of its tries as long as a run waits.
    assert seconds("spyre", 3) - seconds("spyre", 2) == 5010
    assert seconds("cpu", 3) - seconds("cpu", 2) == 10
