"""The examples of `spyre-ci image`, typed with a stack, a registry and an engine of the test's own."""

from __future__ import annotations

import json
import os
import shlex

import pytest

from ci.image.containerfile import COMMIT_LABEL
from tests.engine import build_image
from tests.json_documents import differences
from tests.unit.cli.every_verb import every_verb

from .conftest import World

pytestmark = pytest.mark.nightly
WITH_JSON = ("build",)


def examples(verb: str) -> list[list[str]]:
    """What is typed behind `spyre-ci`."""
    (facts,) = [one for one in every_verb() if one.path == ("image", verb)]
    assert facts.examples
    return [shlex.split(text)[1:] for text in facts.examples]


def check(verb: str, out: str) -> None:
    """What was printed is what docs/json.md says."""
    assert differences(f"image {verb}", json.loads(out)) == []


def test_the_examples_run_one_after_the_other(world: World) -> None:
    world.flex(test=["test -f flex.txt"])
    for verb in ("build", "test", "shell"):
        for words in examples(verb):
            more = ["--json"] if verb in WITH_JSON else []
            # Nobody types into the shell, which ends with its input.
            said = world.image(*words[1:], *more)
            assert said.code == 0, (words, said.output)
            if more:
                check(verb, said.out)


def test_the_example_of_a_tree_runs(world: World) -> None:
    commit = world.commit({"test/test_ops.py": "", "version.txt": "2.13.0\n"})
    (words,) = examples("tree")
    image = words[2]
    build_image(world.client, image, f"FROM {os.environ['TEST_BASE_IMAGE']}\nLABEL {COMMIT_LABEL}={commit}\n")
    try:
        url = f"file://{world.repository}"
        said = world.image(*words[1:], "--json", code=0, SPYRE_CI__IMAGE__PYTORCH_URL=url)
    finally:
        world.client.api.remove_image(image, force=True)
    check("tree", said.out)
    assert (world.folder / "pytorch" / "test" / "test_ops.py").is_file()


def test_no_verb_of_images_is_left_out() -> None:
    verbs = {one.path[1] for one in every_verb() if one.path[0] == "image" and one.runs}
    assert verbs == {"test", "build", "shell", "tree"}
