"""Engine, registry, cluster and disks: what is not asked for is no fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci.doctor.cluster import ClusterFacts, judge_cluster
from ci.doctor.disk import FEWEST_FILES, GIB, Place, judge_disk
from ci.doctor.engine import STORAGE_BYTES, EngineFacts, judge_engine, judge_registry
from ci.doctor.finding import Level

TOLD = {
    "version": "29",
    "podman": False,
    "driver": "overlay2",
    "root": "/var/lib/docker",
    "platform": "linux/x86_64",
}
ENGINE = EngineFacts(address="unix:///s", named=True, socket=True, told=TOLD)
NOBODY = replace(ENGINE, named=False, socket=False, told={})
REPOSITORY = "reg.example.com/a/b"
CLUSTER = ClusterFacts(meant="KUBECONFIG", told={"version": "v1.33", "namespace": "cards", "refused": []})
PLACE = Place(
    use="runs", path="/my runs/r", looked_at="/my runs", wants=GIB, device=1, free=9 * GIB, setting="runs"
)


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (NOBODY, Level.OK, "not used"),
        (ENGINE, Level.OK, "docker 29 at unix:///s, linux/amd64, storage overlay2"),
        (replace(ENGINE, told=TOLD | {"podman": True}), Level.OK, "podman 29"),
        (
            replace(ENGINE, told={}, why="took longer than its time"),
            Level.FAULT,
            "does not answer: took longer",
        ),
        (replace(ENGINE, named=False, told={}, why="x"), Level.WARNING, "does not answer"),
        (replace(NOBODY, repository=REPOSITORY, told={"error": "no engine"}), Level.FAULT, "no engine"),
        (replace(ENGINE, told={"lacks": "docker"}), Level.FAULT, "the package docker is not installed"),
        (replace(ENGINE, named=False, told={"error": "refused", "denied": True}), Level.WARNING, "refused"),
        (
            replace(ENGINE, repository=REPOSITORY, platform="linux/s390x"),
            Level.WARNING,
            "built for linux/s390x",
        ),
        (replace(ENGINE, platform="linux/s390x"), Level.OK, "linux/amd64"),
    ],
)
def test_an_engine_matters_to_who_asks_for_one(facts: EngineFacts, level: Level, words: str) -> None:
    (found,) = judge_engine(facts)
    assert found.level is level
    assert words in found.said


def test_an_engine_of_another_user_is_told_as_one() -> None:
    (found,) = judge_engine(replace(ENGINE, told={"error": "refused", "denied": True}))
    assert found.remedy.startswith('sudo usermod -aG docker "$USER"')


def test_storage_that_is_nearly_full_is_a_warning() -> None:
    _, found = judge_engine(replace(ENGINE, free=3 * GIB))
    assert (found.level, found.said) == (
        Level.WARNING,
        "its storage /var/lib/docker has 3.0 GiB left; images want 20",
    )
    assert len(judge_engine(replace(ENGINE, free=STORAGE_BYTES))) == 1


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (ENGINE, Level.OK, "image.repository names none"),
        (
            replace(ENGINE, repository=REPOSITORY, told=TOLD | {"registry": {}}),
            Level.OK,
            "reg.example.com answers",
        ),
        (replace(ENGINE, repository=REPOSITORY, told={"error": "x"}), Level.WARNING, "was not asked"),
        (
            replace(
                ENGINE, repository=REPOSITORY, told=TOLD | {"registry": {"error": "refuses", "remedy": ""}}
            ),
            Level.FAULT,
            "reg.example.com: refuses",
        ),
    ],
)
def test_a_registry_is_asked_where_one_is_named(facts: EngineFacts, level: Level, words: str) -> None:
    (found,) = judge_registry(facts)
    assert found.level is level
    assert words in found.said


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (ClusterFacts(meant="", told={}), Level.OK, "not used"),
        (CLUSTER, Level.OK, "v1.33, namespace cards (of KUBECONFIG); jobs may be made"),
        (replace(CLUSTER, told={}, why="took longer"), Level.FAULT, "does not answer: took longer"),
        (replace(CLUSTER, told={}, meant="~/.kube/config"), Level.WARNING, "does not answer"),
        (replace(CLUSTER, told={"fault": "credentials", "error": "who?"}), Level.FAULT, "who?"),
        (replace(CLUSTER, told={"fault": "lacks", "error": "kubernetes"}), Level.WARNING, "kubernetes"),
        (
            replace(CLUSTER, told={"version": "v1", "namespace": "n", "refused": ["create jobs"]}),
            Level.FAULT,
            "here one may not create jobs",
        ),
        (
            replace(CLUSTER, meant="this pod", told={"version": "v1", "refused": ["create jobs"]}),
            Level.WARNING,
            "of this pod",
        ),
    ],
)
def test_a_cluster_matters_to_who_names_one(facts: ClusterFacts, level: Level, words: str) -> None:
    (found,) = judge_cluster(facts)
    assert found.level is level
    assert words in found.said


def test_places_of_one_file_system_share_what_is_left() -> None:
    other = replace(PLACE, use="state", path="/s", wants=9 * GIB)
    (found,) = judge_disk([PLACE, other])
    assert found.level is Level.WARNING
    assert found.said == "9.0 GiB left for runs /my runs/r, state /s; a run takes up to 10.0 GiB"
    assert found.remedy == "free space there: df -h -- '/my runs'"
    assert [one.level for one in judge_disk([PLACE, replace(other, device=2)])] == [Level.OK, Level.OK]


def test_a_place_that_cannot_be_written_is_a_fault_of_its_own() -> None:
    first, second = judge_disk([replace(PLACE, why="Read-only file system"), PLACE])
    assert first.level is Level.FAULT
    assert first.said == "runs: /my runs cannot be written: Read-only file system"
    assert first.remedy == "see whose it is: ls -ld -- '/my runs'; or name another place with runs"
    assert second.level is Level.OK


def test_files_can_run_out_before_bytes_do() -> None:
    assert judge_disk([replace(PLACE, files=FEWEST_FILES)])[0].level is Level.OK
    (found,) = judge_disk([replace(PLACE, files=FEWEST_FILES - 1)])
    assert (found.level, found.remedy) == (Level.WARNING, "remove files there: df -i -- '/my runs'")
