"""Jobs as code, under a recording DSL: what jenkins/jobs makes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.jenkins_dsl import ROOT, record_jobs

# As the seed job has them.
SCRIPTS = ("folder", "pull_requests", "nightly", "release", "seed")
REMOTE = ("factory", "remoteJenkinsFileWorkflowBranchProjectFactory")
Job = dict[str, Any]


def jobs(told: dict[str, Any]) -> dict[str, Job]:
    assert "refused" not in told
    return {one["name"]: one for one in told["made"]}


def blocks(job: Job, *path: str) -> list[Job]:
    """The methods that are called at a path of blocks."""
    found: list[Job] = [job]
    for name in path:
        found = [one for block in found for one in block["inside"] if one["name"] == name]
    return found


def inside(job: Job, *path: str) -> list[Any]:
    """What is given to the methods at a path of blocks, all of them one after the other."""
    return [value for block in blocks(job, *path) for value in block["given"]]


def hours(spec: str) -> set[str]:
    """The hours of a trigger's lines of cron."""
    return {hour for line in spec.splitlines()[1:] for hour in line.split()[1].split(",")}


def parameters(job: Job) -> dict[str, str]:
    blocks = [one for block in job["inside"] if block["name"] == "parameters" for one in block["inside"]]
    return {one["given"][0]: one["given"][1] for one in blocks}


def workspace(folder: Path, *, stage: int, components: list[dict[str, str]] | None = None) -> Path:
    """A checkout of the toolkit, as far as the scripts read it."""
    (folder / "jenkins" / "resources").mkdir(parents=True)
    text = (ROOT / "spyre-ci.yaml").read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^stage: \d+$", f"stage: {stage}", text)
    (folder / "spyre-ci.yaml").write_text(changed, encoding="utf-8")
    shutil.copy(ROOT / "jenkins" / "resources" / "triggers.json", folder / "jenkins" / "resources")
    target = folder / "jenkins" / "resources" / "components.json"
    if components is None:
        shutil.copy(ROOT / "jenkins" / "resources" / "components.json", target)
    else:
        target.write_text(json.dumps(components), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """All jobs of this checkout."""
    scripts = [ROOT / "jenkins" / "jobs" / f"{name}.groovy" for name in SCRIPTS]
    return jobs(record_jobs(ROOT, scripts, tmp_path_factory.mktemp("made")))


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """The jobs of stage 3, with a component of the company's own."""
    own = {
        "component": "runtime",
        "repository": "aiu/runtime.x",
        "clone": "https://github.example.com/aiu/runtime.x.git",
        "api": "https://github.example.com/api/v3",
        "branch": "torch-aiu-main",
        "context": "jenkins/aiu",
        "credentials": "company-git",
    }
    folder = workspace(tmp_path_factory.mktemp("stage") / "w", stage=3, components=[own])
    scripts = [ROOT / "jenkins" / "jobs" / f"{name}.groovy" for name in ("pull_requests", "nightly")]
    return jobs(record_jobs(folder, scripts, tmp_path_factory.mktemp("later")))


def test_there_is_a_job_for_each_pipeline_and_component(made: dict[str, Job]) -> None:
    assert list(made) == [
        "spyre", "spyre/pr-torch-spyre", "spyre/nightly-pinned", "spyre/nightly-main", "spyre/release",
        "spyre/seed",
    ]  # fmt: skip


def test_every_pipeline_is_the_toolkits_and_has_the_parameters_it_reads(made: dict[str, Job]) -> None:
    read = {}
    for name, job in made.items():
        if job["kind"] == "multibranchPipelineJob":
            (path,) = inside(job, *REMOTE, "remoteJenkinsFile")
            source = inside(
                job, *REMOTE, "remoteJenkinsFileSCM", "gitSCM", "userRemoteConfigs", "userRemoteConfig", "url"
            )
        elif job["kind"] == "pipelineJob":
            (path,) = inside(job, "definition", "cpsScm", "scriptPath")
            source = inside(job, "definition", "cpsScm", "scm", "git", "remote", "url")
        else:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        asked = set(re.findall(r"params\.(\w+)", text))
        assert asked <= parameters(job).keys(), name
        # Else a build would overwrite what the job has.
        assert not re.search(r"^\s+(parameters|triggers) \{", text, re.MULTILINE)
        assert source == ["https://github.com/torch-spyre/spyre-ci.git"]
        read[Path(path).name] = asked
    assert read.keys() == {path.name for path in (ROOT / "jenkins").glob("Jenkinsfile.*")}


def test_the_seed_job_makes_them_all_folder_first(made: dict[str, Job]) -> None:
    named = [Path(one).stem for one in inside(made["spyre/seed"], "steps", "dsl", "external")]
    assert named[0] == "folder"
    assert sorted(named) == sorted(path.stem for path in (ROOT / "jenkins" / "jobs").glob("*.groovy"))


def cron(job: Job) -> list[str]:
    """What triggers a job by the clock."""
    return [str(one) for one in inside(job, "properties", "pipelineTriggers", "triggers", "cron", "spec")]


def test_a_night_has_its_variant_and_from_stage_3_on_there_are_several_runs_a_day(
    made: dict[str, Job], later: dict[str, Job]
) -> None:
    assert yaml.safe_load((ROOT / "spyre-ci.yaml").read_text(encoding="utf-8"))["stage"] < 3
    begun = []
    for variant in ("pinned", "main"):
        name = f"spyre/nightly-{variant}"
        assert parameters(made[name])["VARIANT"] == variant
        ((once,), (often,)) = cron(made[name]), cron(later[name])
        # In the time zone of the settings, which is the first line.
        assert {once.splitlines()[0], often.splitlines()[0]} == {"TZ=UTC"}
        assert (len(hours(once)), len(hours(often))) == (1, 4)
        begun.append(hours(often))
    assert begun[0] & begun[1] == set(), "both variants at once want twice the cards"


def test_a_stage_that_no_lane_is_for_begins_nothing(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", stage=9)
    told = record_jobs(folder, [ROOT / "jenkins" / "jobs" / "nightly.groovy"], tmp_path / "out")
    assert [cron(job) for job in jobs(told).values()] == [[], []]


def test_pull_requests_are_found_by_jenkins_and_no_fork_is_trusted(later: dict[str, Job]) -> None:
    job = later["spyre/pr-runtime"]
    source = ("branchSources", "branchSource", "source", "github")
    asked = ("repoOwner", "repository", "apiUri", "credentialsId")
    assert [inside(job, *source, name)[0] for name in asked] == [
        "aiu", "runtime.x", "https://github.example.com/api/v3", "company-git",
    ]  # fmt: skip
    assert inside(job, *source, "traits", "gitHubForkDiscovery", "trust") == []
    assert [
        one["name"] for one in blocks(job, *source, "traits", "gitHubForkDiscovery", "trust")[0]["inside"]
    ] == ["gitHubTrustNobody"]
    # Merged heads would be rebuilt with each push to the branch; branches are not built at all.
    found = {one["name"]: one for one in blocks(job, *source, "traits")[0]["inside"]}
    assert found.keys() == {"gitHubPullRequestDiscovery", "gitHubForkDiscovery", "headWildcardFilterWithPR"}
    assert inside(job, *source, "traits", "gitHubPullRequestDiscovery", "strategyId") == [2]
    assert inside(job, *source, "traits", "gitHubForkDiscovery", "strategyId") == [2]
    assert inside(job, *source, "traits", "headWildcardFilterWithPR", "includes") == ["torch-aiu-main"]
    # Also where no webhook reaches this Jenkins.
    assert inside(job, "triggers", "periodicFolderTrigger", "interval") == ["5m"]


def test_the_jenkinsfile_of_a_pull_request_is_the_toolkits_whatever_its_branch_holds(
    made: dict[str, Job],
) -> None:
    job = made["spyre/pr-torch-spyre"]
    assert inside(job, *REMOTE, "remoteJenkinsFile") == ["jenkins/Jenkinsfile.pr"]
    assert inside(job, *REMOTE, "matchBranches") == [False]
    assert inside(job, *REMOTE, "remoteJenkinsFileSCM", "gitSCM", "branches", "branchSpec", "name") == [
        "main"
    ]
    assert blocks(job, "factory", "workflowBranchProjectFactory") == []


def test_nobody_who_starts_a_build_can_say_where_tokens_go_or_what_is_enough(made: dict[str, Job]) -> None:
    allowed = {
        "spyre/pr-torch-spyre": set(),
        "spyre/nightly-main": {"VARIANT", "STAGE", "BUILDER", "DEVICE", "NOTIFY"},
        "spyre/release": {"VERSION", "STACK", "STAGE", "BUILDER", "DEVICE", "NOTIFY"},
    }  # fmt: skip
    assert {name: parameters(made[name]).keys() for name in allowed} == allowed


def test_every_component_has_what_its_builds_look_up() -> None:
    folder = ROOT / "jenkins" / "resources"
    needed = {"component", "repository", "clone", "api", "branch", "context"}
    for one in json.loads((folder / "components.json").read_text(encoding="utf-8")):
        assert needed <= one.keys() <= needed | {
            "credentials", "status_credentials", "builder", "device", "notify",
        }  # fmt: skip
    site = json.loads((folder / "site.json").read_text(encoding="utf-8"))
    assert site.keys() == {"toolkit", "hud", "release"}
    assert site["release"].keys() == {"clone", "credentials", "upstream", "index"}
    assert site["toolkit"].keys() == {"url", "commit", "credentials"}


def test_a_script_with_a_word_that_the_dsl_does_not_know_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "wrong.groovy"
    script.write_text("pipelineJob('a') { definition { cpsScm { script('x') } } }", encoding="utf-8")
    told = record_jobs(tmp_path, [script], tmp_path / "out")
    assert told["refused"].startswith("pipelineJob.definition.cpsScm has no script; known: ")
