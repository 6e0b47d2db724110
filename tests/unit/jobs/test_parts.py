"""The parts of a spec, each with what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ci.jobs.parts import Resources, Scratch, Source, Store, Toleration, Tracking, leads_out

ARTIFACT = {"run": "0f" * 16, "path": "models/base"}


@pytest.mark.parametrize(
    ("model", "given", "told"),
    [
        (Resources, {"cards": 3, "tier": 1}, "tier 1 takes 1 card or an even number, not 3"),
        (Resources, {"cards": 5, "tier": 2}, "tier 2 takes 1 card or an even number, not 5"),
        (Resources, {"tier": 0}, "a tier is of cards, and there are none"),
        (
            Resources,
            {"cards": 2, "tier": 0, "resource": "nvidia.com/gpu"},
            "tiers are of ibm.com's cards, not of nvidia.com/gpu",
        ),
        (Resources, {"cards": 65}, "less than or equal to 64"),
        (Resources, {"memory": "16 GB"}, "should match pattern"),
        (Resources, {"cpu": True}, "should be a valid string"),
        (Resources, {"resource": "gpu"}, "should match pattern"),
        (Scratch, {"size": "much"}, "should match pattern"),
        (Toleration, {"key": "a", "operator": "Equal"}, "Equal wants a value, and Exists has none"),
        (Toleration, {"key": "a", "value": "b"}, "Equal wants a value, and Exists has none"),
        (Toleration, {"operator": "Equal", "value": "b"}, "without a key only Exists can be asked"),
        (Toleration, {"key": "a", "seconds": 1}, "seconds are of NoExecute alone"),
        (Source, {}, "give exactly one of artifact and bucket"),
        (Source, {"artifact": ARTIFACT, "bucket": "s3://bucket"}, "give exactly one of artifact and bucket"),
        (Source, {"artifact": ARTIFACT | {"path": "a/../../b"}}, "leads out of its folder"),
        (Source, {"artifact": ARTIFACT | {"path": "/a"}}, "should match pattern"),
        (Source, {"artifact": ARTIFACT | {"run": "latest"}}, "should match pattern"),
        (Source, {"bucket": "s3://Bucket"}, "should match pattern"),
        (Source, {"bucket": "s3://bucket/a b"}, "should match pattern"),
        (Source, {"bucket": "s3://bucket/a\x01b"}, "should match pattern"),
        (Store, {}, "give exactly one of volume and bucket"),
        (Store, {"volume": "a", "bucket": "s3://bucket"}, "give exactly one of volume and bucket"),
        (Tracking, {"experiment": ""}, "at least 1 character"),
        (Tracking, {"experiment": "a", "output": "../b"}, "should match pattern"),
        (Tracking, {"experiment": "a", "output": "b/../.."}, "leads out of its folder"),
    ],
)
def test_what_cannot_be_taken_is_told(model: type[BaseModel], given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        model.model_validate(given)


@pytest.mark.parametrize("cards", [1, 2, 4, 8])
def test_near_cards_come_alone_or_in_pairs(cards: int) -> None:
    assert Resources(cards=cards, tier=2).card_resource == "ibm.com/spyre_pf_tier2"


def test_a_tier_of_none_may_have_any_number_of_cards() -> None:
    assert Resources(cards=3, tier=0).card_resource == "ibm.com/spyre_pf_tier0"
    assert Resources(cards=3).card_resource == "ibm.com/spyre_pf"


def test_cores_and_memory_may_be_numbers() -> None:
    resources = Resources.model_validate({"cpu": 0.5, "memory": 1024})
    assert (resources.cpu, resources.memory) == ("0.5", "1024")


@pytest.mark.parametrize("path", ["/a", "..", "a/../b", "a/..", "C:a", "c:/a"])
def test_paths_that_lead_out_are_known(path: str) -> None:
    assert leads_out(path)


@pytest.mark.parametrize("path", ["a", "a/b", "..a/b", "a/b..", "./a"])
def test_paths_that_stay_are_known(path: str) -> None:
    assert not leads_out(path)
