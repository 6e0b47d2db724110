"""A job as manifests: nothing in a spec gets out of its place."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from ci.core.errors import SettingsError
from ci.jobs.parcels import BOUND
from ci.jobs.render import fill, quoted, render, to_yaml
from tests.job_specs import MLFLOW, job_of, spec_of
from tests.manifests import broken_rules, check_strictly

EVIL = [
    "{{ 7 * 7 }}", "{% raw %}", "{# a #}", "a: b", "- a", "'", '"', '"}', "]}", "\\", "\n---\nkind: Secret\n",
    "# a", "&a", "*a", "!!python/object", "%YAML", "yes", "y", "null", "~", "1e3", "0x10", "010", "1_000",
    "12:30:00", "2026-01-01", ".inf", "=", "<<", "$(HOME)", "$$(HOME)", "$", "$$", "$(", "\t", "\r\n", "\x85",
    "\u2028", "\ufeff", "\x7f", "\x1b[31m", "\U0001f600", "\uffff", " a ", "",
]  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(EVIL),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50),
)


def expanded(text: str) -> str:
    """What Kubernetes makes of a word or a variable, where no variable has a value: its expansion.go."""
    made, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            made += text[at]
            at += 1
        elif text[at + 1] == "$":
            made += "$"
            at += 2
        elif text[at + 1] == "(" and ")" in text[at:]:
            made += "EXPANDED"
            at = text.index(")", at) + 1
        else:
            made += text[at : at + 2]
            at += 2
    return made


def shape(value: Any) -> Any:
    """The keys of a manifest without its texts."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value)


def made_with(text: str) -> list[dict[str, Any]]:
    spec = spec_of(
        "evaluation",
        parameters={"A": text},
        environment={"B": text},
        tags={"why": text},
        evaluation={"command": ["run", f"{text}!", "{configs}"], "configs": ["run.conf"]},
    )
    return render(job_of(spec, run=text, files={"run.conf": text.encode()}))


@given(TEXTS)
def test_any_text_reaches_its_place_unchanged_and_no_other(text: str) -> None:
    config_map, job = made_with(text)
    (main,) = job["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: expanded(one["value"]) for one in main["env"]}
    assert environment["PARAM_A"] == environment["B"] == environment["SPYRE_CI_JOB_RUN"] == text
    assert expanded(main["command"][1]) == f"{text}!"
    assert job["metadata"]["annotations"]["why"] == text
    content = config_map.get("data", {}) or {
        key: base64.b64decode(value).decode() for key, value in config_map["binaryData"].items()
    }
    assert content == {"run.conf": text}
    assert shape(job) == shape(made_with("plain")[1]) or not text
    assert broken_rules([config_map, job]) == []


@given(TEXTS)
def test_yaml_reads_back_what_was_written(text: str) -> None:
    manifests = made_with(text)
    assert list(yaml.safe_load_all(to_yaml(manifests))) == manifests
    assert to_yaml(manifests).isascii()


@pytest.mark.parametrize(
    "text", ["1e3", "010", "y", "n", "Yes", "null", "0o7", "2026-01-01", ".nan", "", "5e9f"]
)
def test_what_another_reader_takes_for_no_text_is_quoted(text: str) -> None:
    assert to_yaml([{"a": text}]).strip() in {f'---\n"a": "{text}"', f"---\n\"a\": '{text}'"}


@given(
    st.recursive(
        TEXTS | st.integers() | st.booleans(), lambda inner: st.dictionaries(TEXTS, inner, max_size=3)
    )
)
def test_a_value_is_one_line_of_yaml(value: Any) -> None:
    line = quoted(value)
    assert "\n" not in line
    assert yaml.safe_load(f"at: {line}") == {"at": value}


def test_a_name_that_a_template_wants_must_be_given() -> None:
    with pytest.raises((UndefinedError, TypeError)):
        fill("service", metadata={}, port=80)


def test_the_same_job_gives_the_same_manifests_and_another_a_digest_of_its_own() -> None:
    spec = spec_of("tests")
    assert render(job_of(spec)) == render(job_of(spec))

    def digest(**more: Any) -> set[str]:
        return {one["metadata"]["annotations"]["spyre-ci.io/spec"] for one in render(job_of(spec, **more))}

    (usual,), (other,) = digest(), digest(deadline_s=1)
    assert usual != other


def test_files_that_no_config_maps_hold_are_refused() -> None:
    with pytest.raises(SettingsError, match="more than 16 ConfigMaps hold"):
        render(job_of(spec_of("evaluation"), files={"run.conf": bytes(BOUND + 1)}))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x1f\x8b\x08", b"a\0b", b"\x1b[31m"])
def test_what_nobody_can_read_is_bytes_in_a_config_map(content: bytes) -> None:
    config_map = render(job_of(spec_of("evaluation"), files={"run.conf": content}))[0]
    assert config_map["binaryData"] == {"run.conf": base64.b64encode(content).decode()}
    assert "data" not in config_map


def test_everything_made_is_found_by_the_jobs_labels() -> None:
    job = job_of(spec_of("serve"), files={"a": b"a"})
    manifests = render(job)
    assert [one["kind"] for one in manifests] == ["ConfigMap", "Service", "Deployment"]
    pods = manifests[-1]["spec"]["template"]
    wanted = {"app.kubernetes.io/name": job.name, "app.kubernetes.io/managed-by": "spyre-ci"}
    for one in [*manifests, pods]:
        assert wanted.items() <= one["metadata"]["labels"].items()
    assert manifests[1]["spec"]["selector"] == wanted
    assert {one["metadata"]["namespace"] for one in manifests} == {"spyre-ci"}


def test_a_servers_pods_have_no_deadline() -> None:
    manifests = render(job_of(spec_of("serve"), pod_deadline_s=60))
    assert broken_rules(manifests) == []


@pytest.mark.parametrize("kind", ["tests", "evaluation", "load", "train", "serve", "notebook"])
def test_pods_may_run_where_only_restricted_ones_may(kind: str) -> None:
    spec = spec_of(kind, environment=MLFLOW)
    pod = render(job_of(spec))[-1]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    # What a namespace of OpenShift gives is refused where a pod asks for another.
    assert not {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"} & pod["securityContext"].keys()
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    assert pod["automountServiceAccountToken"] is False
    assert {key for one in pod["volumes"] for key in one} - {"name"} <= {
        "emptyDir", "ephemeral", "projected", "persistentVolumeClaim",
    }  # fmt: skip


def test_2048_pods_are_one_small_job() -> None:
    files = {f"slice-{pod}.json.gz": b"\x1f\x8b" + bytes(4_000) for pod in range(2_048)}
    manifests = render(job_of(spec_of("tests"), pods=2_048, files=files))
    check_strictly(manifests, ["1.28", "1.36"])
    assert broken_rules(manifests) == []
    assert [one["kind"] for one in manifests] == [*["ConfigMap"] * 9, "Job"]
    assert len(to_yaml(manifests[-1:])) < 10_000


def test_a_user_alone_leaves_the_volumes_to_their_group() -> None:
    pod = render(job_of(spec_of("evaluation", user=1001)))[-1]["spec"]["template"]["spec"]
    assert {"runAsUser", "runAsGroup", "fsGroup"} & pod["securityContext"].keys() == {"runAsUser"}
    assert pod["securityContext"]["runAsUser"] == 1001
