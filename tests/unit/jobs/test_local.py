"""What a job's pods are as containers on this machine, and when one is replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci.core.containers import Conditions
from ci.core.errors import EXIT_USAGE, DeviceError, SettingsError, UsageError
from ci.jobs.job import Job, helpers_of
from ci.jobs.local import ARBITRARY_USER, Here, check_here, containers_of, shown_line, user_of
from ci.jobs.spec import Spec

HERE = Here(results=Path("/r"), work=Path("/w"), environ={}, user=1000)


def job_of(*, files: dict[str, bytes] | None = None, **spec: Any) -> Job:
    base = {"version": 1, "kind": "evaluation", "image": {"name": "quay.io/spyre/runtime:1"}}
    if spec.get("kind", "evaluation") == "evaluation":
        base["evaluation"] = {"command": ["evaluate"]}
    return Job(
        spec=Spec.model_validate(base | spec),
        name="x-bold-fox-12345",
        run="a",
        image="quay.io/spyre/runtime:1",
        namespace="spyre",
        pods=2,
        deadline_s=60,
        files=files or {},
    )


def conditions(job: Job, here: Here = HERE) -> dict[str, Conditions]:
    """Of a pod's containers by name, in the order they run; its own has none."""
    found = containers_of(job, 1, here, scratch=Path("/disk"), configs=Path("/configs"))
    return {one.name: one.conditions for one in found}


def test_a_pod_has_the_mounts_of_its_kind_and_configs_cannot_be_written() -> None:
    found = conditions(job_of(files={"a.yaml": b""}, store={"volume": "claim"}))[""]
    assert found.mounts == {"/scratch": Path("/disk"), "/results": Path("/r")}
    assert found.read_only_mounts == {"/etc/spyre-ci/x-bold-fox-12345": Path("/configs")}
    assert (found.user, found.restricted, found.network) == ("1000:0", True, "bridge")
    assert (found.entrypoint, found.ports) == (("evaluate",), {})


def test_a_server_finds_its_model_where_it_was_fetched_to() -> None:
    artifact = {"run": "a" * 32, "path": "models/small"}
    job = job_of(kind="serve", source={"artifact": artifact}, environment={"MLFLOW_TRACKING_URI": "http://x"})
    first, own = conditions(job, replace(HERE, devices=["/dev/vfio/1"], port=9000)).values()
    assert own.read_only_mounts == {"/model": Path("/disk/inputs/small")}
    assert (own.entrypoint, own.ports, own.devices) == (None, {9000: 8080}, ())
    assert (first.mounts, first.read_only_mounts, first.ports) == ({"/scratch": Path("/disk")}, {}, {})
    assert first.entrypoint == helpers_of(job)[0].command
    # With the host's network the port is the container's own.
    assert conditions(job, replace(HERE, network="host"))[""].ports == {}


def test_cards_are_emulated_unless_devices_are_given_and_the_specs_own_words_win() -> None:
    job = job_of(resources={"cards": 2})
    found = conditions(job)[""].environment
    assert (found["SPYRE_CI_EMULATE"], found["SPYRE_CI__RUN__CARDS"]) == ("1", "2")
    assert (found["JOB_COMPLETION_INDEX"], found["SPYRE_CI_JOB_NAME"]) == ("1", job.name)
    real = conditions(job, replace(HERE, devices=["/dev/vfio/1", "/dev/vfio/2"]))[""]
    assert "SPYRE_CI_EMULATE" not in real.environment
    assert real.devices == ["/dev/vfio/1", "/dev/vfio/2"]
    own = job_of(resources={"cards": 2}, environment={"SPYRE_CI__RUN__CARDS": 1})
    assert conditions(own)[""].environment["SPYRE_CI__RUN__CARDS"] == "1"
    assert "SPYRE_CI_EMULATE" not in conditions(job_of())[""].environment


def test_a_secret_that_is_not_there_is_told_with_its_variable_and_where_it_is_on_the_cluster() -> None:
    job = job_of(
        parameters={"TOKEN": {"secret": "models", "key": "token"}},
        environment={"AWS_SECRET_ACCESS_KEY": {"secret": "bucket", "key": "secret"}, "PLAIN": "x"},
    )
    with pytest.raises(SettingsError) as caught:
        check_here(job, replace(HERE, environ={"PARAM_TOKEN": ""}))
    assert caught.value.what.endswith(
        "not set: AWS_SECRET_ACCESS_KEY (secret of bucket), PARAM_TOKEN (token of models)"
    )
    assert caught.value.exit_code == EXIT_USAGE
    given = replace(HERE, environ={"PARAM_TOKEN": "a", "AWS_SECRET_ACCESS_KEY": "b", "OTHER": "c"})
    assert check_here(job, given) == ["b", "a"]
    found = conditions(job, given)[""].environment
    assert (found["PARAM_TOKEN"], found["AWS_SECRET_ACCESS_KEY"], found["PLAIN"]) == ("a", "b", "x")
    assert "OTHER" not in found


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({"port": 9000, "network": "host"}, UsageError, "--port 9000 has no meaning with the host's network"),
        ({"devices": ["/dev/vfio/1"]}, DeviceError, "1 device for a pod that needs 2 cards"),
    ],
)
def test_what_cannot_be_had_here_is_refused(
    changed: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        check_here(job_of(resources={"cards": 2}), replace(HERE, **changed))


def test_root_runs_pods_as_a_user_no_image_knows_and_others_as_themselves() -> None:
    assert (user_of(0), user_of(1000)) == (ARBITRARY_USER, 1000)


KEY = "-----BEGIN KEY-----\r\n  MIIEvQIBADAN\n{\nshort\n-----END KEY-----\n"


@pytest.mark.parametrize(
    ("line", "secrets", "shown"),
    [
        ("a abc ab\x1b[2J\r", ["ab", "abc", ""], "[3] a *** ***\\x0d"),
        ("##[error]x", [], "[3] # #[error]x"),
        # A secret of many lines is printed line by line.
        ("  MIIEvQIBADAN\r", [KEY], "[3]   ***\\x0d"),
        ("key: -----BEGIN KEY-----", [KEY], "[3] key: ***"),
        # What is as short as a bracket would make stars of every line there is.
        ("{ short }", [KEY], "[3] { short }"),
    ],
)
def test_a_line_has_its_index_and_none_of_the_secrets(line: str, secrets: list[str], shown: str) -> None:
    assert shown_line(line, 3, secrets) == shown


def test_tests_whose_store_is_a_bucket_have_none_of_its_keys_here_either() -> None:
    secret = {"AWS_SECRET_ACCESS_KEY": {"secret": "bucket", "key": "secret"}}
    job = replace(job_of(kind="tests", store={"bucket": "s3://runs"}, environment=secret), plan=b"packed")
    found = conditions(job, replace(HERE, environ={"AWS_SECRET_ACCESS_KEY": "b"}))
    keys = {name: one.environment.get("AWS_SECRET_ACCESS_KEY") for name, one in found.items()}
    assert list(keys.items()) == [("restore", "b"), ("", None), ("uploader", "b")]
