"""What each kind of job promises its container, and what it is told when it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import EXIT_USAGE, SettingsError
from ci.jobs.kinds import CONTRACTS, check_contract
from ci.jobs.spec import KINDS, Spec
from tests.job_specs import ARTIFACT, BUCKET, IMAGE, spec_of

WHERE = Path("job.yaml")


def spec(kind: str, **keys: Any) -> Spec:
    return Spec.model_validate({"version": 1, "kind": kind, "image": {"name": IMAGE}, **keys})


def test_every_kind_has_a_contract() -> None:
    assert set(CONTRACTS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_of_every_kind_keeps_its_contract(kind: str) -> None:
    assert spec_of(kind).kind == kind


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (spec("serve"), "kind serve wants a `source`"),
        (spec("load", load={"to": "s3://models/base"}), "kind load wants a `source`"),
        (spec("train", train={"command": ["a"]}), "kind train wants a `source`"),
        (spec("tests", source=BUCKET, store={"volume": "a"}), "`source` has no meaning for kind tests"),
        (spec("tests"), "kind tests wants a `store`"),
        (spec("train", source=BUCKET, train={"command": ["a"]}), "kind train wants a `store`"),
        (
            spec("tests", store={"bucket": "s3://runs"}, tests={"share": True}),
            "tests.share wants a volume that all pods write",
        ),
        (
            spec("serve", source=BUCKET, deadline_minutes=60),
            "`deadline_minutes` has no meaning for kind serve, which lasts until it is cancelled",
        ),
        (spec("serve", source=BUCKET, retries=1), "`retries` has no meaning for kind serve"),
        (
            spec("evaluation", evaluation={"command": ["run", "--conf={configs}/a"]}),
            r"the command names \{configs\}, and there are none",
        ),
        (
            spec("serve", source=BUCKET, serve={"command": ["serve", "{results}"]}),
            r"the command names \{results\}, and there is no `store`",
        ),
        (spec("serve", source=ARTIFACT), "an artifact is fetched, and nothing says from where"),
        (
            spec(
                "train",
                source=BUCKET,
                store={"volume": "a"},
                train={"command": ["a"], "dataset": ARTIFACT},
            ),
            "an artifact is fetched, and nothing says from where",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_a_contract_that_is_not_kept_is_told_with_what_to_give(given: Spec, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        check_contract(given, WHERE)
    assert caught.value.where == "job.yaml"
    assert caught.value.remedy
    assert caught.value.exit_code == EXIT_USAGE


def test_an_address_from_a_secret_will_do() -> None:
    address = {"MLFLOW_TRACKING_URI": {"secret": "mlflow", "key": "address"}}
    check_contract(spec("serve", source=ARTIFACT, environment=address), WHERE)
