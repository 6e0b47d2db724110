"""A job as manifests: nothing in a spec gets out of its place, and every release takes them."""

from __future__ import annotations

import base64
import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from ci.core.errors import SettingsError
from ci.jobs.job import Job
from ci.jobs.plan_chunks import CHUNK_BYTES
from ci.jobs.render import fill, quoted, render, to_yaml
from ci.jobs.spec import KINDS, read_spec
from tests.conftest import Golden
from tests.job_specs import ARTIFACT, IMAGE, MLFLOW, job_of, spec_of
from tests.manifests import RELEASES, broken_rules, check_strictly, validator

EXAMPLES = Path(__file__).parents[3] / "examples"
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


@given(st.dictionaries(st.sampled_from(["a", "file-0", "..data", "conf/a.yaml", "ä"]), st.binary()))
@example(files={"file-0": b"", "ä": b""})
def test_every_file_is_in_one_config_map_under_its_path(files: dict[str, bytes]) -> None:
    job = job_of(spec_of("evaluation"), files=files)
    *configs, made = render(job)
    assert broken_rules([*configs, made]) == []
    volumes = {one["name"]: one for one in made["spec"]["template"]["spec"]["volumes"]}
    sources = volumes["config"]["projected"]["sources"] if files else []
    mounted: dict[str, bytes] = {}
    for one, source in zip(configs, sources, strict=True):
        content = {key: value.encode() for key, value in one.get("data", {}).items()}
        content |= {key: base64.b64decode(value) for key, value in one.get("binaryData", {}).items()}
        items = source["configMap"].get("items", [{"key": key, "path": key} for key in content])
        mounted |= {item["path"]: content[item["key"]] for item in items}
    assert mounted == files


@pytest.mark.parametrize(
    "files", [{"a": bytes(CHUNK_BYTES + 1)}, {f"{n}": bytes(CHUNK_BYTES) for n in range(17)}]
)
def test_files_that_no_config_maps_hold_are_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(SettingsError, match="do not fit into 16 ConfigMaps of 921,600 bytes") as caught:
        render(job_of(spec_of("evaluation"), files=files))
    assert "fetch large files with `source`" in str(caught.value)


def test_pods_of_a_bucket_have_an_uploader_whose_failure_counts_before_all_else() -> None:
    keys = {"AWS_SECRET_ACCESS_KEY": {"secret": "s", "key": "k"}}
    job = job_of(spec_of("tests", store={"bucket": "s3://runs/a"}, environment=keys))
    (made,) = render(job)
    check_strictly([made])
    assert broken_rules([made]) == []
    pod = made["spec"]["template"]["spec"]
    named = {one["name"]: one for one in [*pod["initContainers"], *pod["containers"]]}
    having = {name for name, one in named.items() if "AWS_SECRET_ACCESS_KEY" in str(one["env"])}
    assert having == {"restore", "uploader"}
    first = next(rule for rule in made["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule)
    assert (first["action"], first["onExitCodes"]["containerName"]) == ("Count", "uploader")
    # The plan is no part of the objects, and another one is another job.
    (other,) = render(job_of(job.spec, plan=b"other"))
    assert made["metadata"]["annotations"] != other["metadata"]["annotations"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x1f\x8b\x08", b"a\0b", b"\x1b[31m"])
def test_what_nobody_can_read_is_bytes_in_a_config_map(content: bytes) -> None:
    config_map = render(job_of(spec_of("evaluation"), files={"run.conf": content}))[0]
    assert config_map["binaryData"] == {"run.conf": base64.b64encode(content).decode()}
    assert "data" not in config_map


def test_everything_made_is_found_by_the_jobs_labels() -> None:
    job = job_of(spec_of("serve"), files={"a": b"a"})
    manifests = render(replace(job, pod_deadline_s=60))
    # A server's pods have no deadline.
    assert broken_rules(manifests) == []
    assert [one["kind"] for one in manifests] == ["ConfigMap", "Service", "Deployment"]
    pods = manifests[-1]["spec"]["template"]
    wanted = {"app.kubernetes.io/name": job.name, "app.kubernetes.io/managed-by": "spyre-ci"}
    for one in [*manifests, pods]:
        assert wanted.items() <= one["metadata"]["labels"].items()
    assert manifests[1]["spec"]["selector"] == wanted
    assert {one["metadata"]["namespace"] for one in manifests} == {"spyre-ci"}


@pytest.mark.parametrize("kind", KINDS)
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


def test_a_user_alone_leaves_the_volumes_to_their_group() -> None:
    pod = render(job_of(spec_of("evaluation", user=1001)))[-1]["spec"]["template"]["spec"]
    assert {"runAsUser", "runAsGroup", "fsGroup"} & pod["securityContext"].keys() == {"runAsUser"}
    assert pod["securityContext"]["runAsUser"] == 1001


def _jobs() -> dict[str, Job]:
    """One job of each kind, and of what a cluster asks besides."""
    keys = {
        name: {"secret": "store-keys", "key": name.lower()}
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }
    return {
        **{kind: job_of(spec_of(kind)) for kind in KINDS},
        "tests-queue": job_of(spec_of("tests", queue="cards", priority="nightly", service_account="runner")),
        "tests-tier": job_of(spec_of("tests", resources={"cards": 2, "tier": 1})),
        "tests-bucket": job_of(spec_of("tests", store={"bucket": "s3://runs/nightly"}, environment=keys)),
        "train-storage-class": job_of(
            spec_of(
                "train",
                resources={"cards": 8, "scratch": {"size": "500Gi", "storage_class": "fast"}},
                environment=MLFLOW,
                source_image="registry.example.com/tools/mlflow:3.1",
                train={"command": ["train"], "dataset": ARTIFACT, "configs": ["conf/train.yaml"]},
            )
        ),
        "evaluation-user": job_of(spec_of("evaluation", user=1001, group=2001)),
        "serve-artifact": job_of(
            spec_of("serve", source=ARTIFACT, environment=MLFLOW, serve={"quantization_bits": 8})
        ),
        "notebook-taints": job_of(
            spec_of(
                "notebook",
                image={"name": "registry.example.com/notebook:1", "pull_secrets": ["registry"]},
                node_selector={"ibm.com/spyre.present": "true"},
                tolerations=[
                    {"key": "ibm.com/spyre", "effect": "NoSchedule"},
                    {"key": "pool", "operator": "Equal", "value": "ci", "effect": "NoExecute", "seconds": 60},
                ],
                notebook={"token": "my-token"},
                tags={"team": "compiler", "example.com/why": "a look at shard 17: it's slow"},
            )
        ),
    }


JOBS = _jobs()


@pytest.mark.parametrize("name", JOBS)
def test_manifests_are_what_was_looked_at_and_fit_every_release(name: str, golden: Golden) -> None:
    manifests = render(JOBS[name])
    check_strictly(manifests)
    assert broken_rules(manifests) == []
    golden(f"jobs/{name}.yaml", to_yaml(manifests))


# The others are settings, which tests of lanes and pins load.
SPECS = [path for path in sorted(EXAMPLES.glob("*.yaml")) if not path.name.startswith(("lanes-", "pins-"))]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_an_example_fits_every_release(path: Path, golden: Golden) -> None:
    spec = read_spec(path)
    files = {} if spec.kind == "tests" else {name: (EXAMPLES / name).read_bytes() for name in spec.configs}
    job = job_of(spec) if spec.kind == "tests" else job_of(spec, image=spec.image.name or IMAGE, files=files)
    manifests = render(job)
    check_strictly(manifests)
    assert broken_rules(manifests) == []
    golden(f"jobs/example-{path.stem}.yaml", to_yaml(manifests))
    assert path.read_text().startswith("# ")
    if spec.image.upload is not None:
        assert (EXAMPLES / spec.image.upload.folder / spec.image.upload.containerfile).is_file()


def test_there_is_an_example_of_every_kind_and_the_readme_names_each() -> None:
    assert {read_spec(path).kind for path in SPECS} == set(KINDS)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(EXAMPLES.glob("*.yaml")) if f"]({path.name})" not in readme] == []


def test_ten_releases_are_looked_at() -> None:
    assert (RELEASES[0], RELEASES[-1], len(RELEASES)) == ("1.28", "1.37", 10)


LOCAL_QUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue"}


@pytest.mark.parametrize(
    ("path", "spoil", "release", "said"),
    [
        ((), LOCAL_QUEUE, "1.33", "no schema for LocalQueue kueue"),
        ((), {}, "1.99", "no schema for"),
        ((), {}, "2.0", "no schema for"),
        ((), {"backofLimit": 1}, "1.33", "'backofLimit' was unexpected"),
        (("spec",), {"backofLimit": 1}, "1.33", "'backofLimit' was unexpected"),
        (("spec", "template", "spec"), {"backofLimit": 1}, "1.33", "'backofLimit' was unexpected"),
        (("spec", "podFailurePolicy"), {"backofLimit": 1}, "1.33", "'backofLimit' was unexpected"),
        (("spec",), {"completions": "1"}, "1.28", r"spec\.completions: '1' is not of type"),
    ],
)
def test_what_a_release_does_not_take_fails(
    path: tuple[str, ...], spoil: dict[str, Any], release: str, said: str
) -> None:
    manifest = place = copy.deepcopy(render(job_of(spec_of("notebook")))[-1])
    for part in path:
        place = place[part]
    place.update(spoil)
    with pytest.raises(AssertionError, match=said):
        check_strictly([manifest], [release])


def test_a_release_whose_schemas_are_missing_is_not_taken_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validator().utils, "all_versions", lambda: ["1.34.0", "1.36.0"])
    with pytest.raises(AssertionError, match=r"on 1\.35: 1\.34 was taken"):
        check_strictly(render(job_of(spec_of("notebook"))), ["1.35"])


def test_rules_that_no_schema_tells_are_told() -> None:
    manifest = copy.deepcopy(render(job_of(spec_of("notebook")))[-1])
    del manifest["spec"]["backoffLimitPerIndex"]
    manifest["spec"]["podReplacementPolicy"] = "TerminatingOrFailed"
    manifest["spec"]["maxFailedIndexes"] = 2
    manifest["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    manifest["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].append(
        {"name": "models", "mountPath": "/scratch"}
    )
    assert broken_rules([manifest]) == [
        "Job: podReplacementPolicy with a podFailurePolicy",
        "Job: restartPolicy with a podFailurePolicy",
        "Job: FailIndex without backoffLimitPerIndex",
        "Job: maxFailedIndexes above completions",
        "Job: mount of models",
        "Job: a mountPath twice",
    ]
