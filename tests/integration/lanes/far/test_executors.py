"""Executors as the worker has them: by kind, each lane with its own place and secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ci.config.load import Settings, load_settings
from ci.core.errors import SpyreCiError, UsageError
from ci.lanes.executors import Places
from ci.lanes.order import Order

NIGHT = {"cadence": {"cron": "17 2 * * *"}, "run": {"pytorch": {"stage": 1}}}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    lanes = {"here": NIGHT, "on-openshift": NIGHT | {"where": {"openshift": {"spec": "job.yaml"}}}}
    path = tmp_path / "spyre-ci.yaml"
    path.write_text(yaml.safe_dump({"lanes": lanes}))
    settings: Settings = load_settings(path=path, environ={}, flags={}, cwd=tmp_path)
    environ = {"KUBECONFIG": "/nonexistent/kubeconfig"}
    return Places(settings=settings, environ=lambda _: environ, clock=lambda: 0.0)


def test_a_lane_that_left_the_settings_is_told(places: Places, tmp_path: Path) -> None:
    found = places.executors()
    for lane in ("gone", "here"):
        order = Order(lane=lane, due=1_772_366_400, attempt=1, seed=0, folder=tmp_path)
        with pytest.raises(UsageError, match=f"there is no lane {lane} far away any more"):
            found["openshift"].look(order, "job x")


def test_only_what_the_lanes_that_begin_need_is_checked(places: Places) -> None:
    places.check(["here"])
    with pytest.raises(SpyreCiError, match="kubeconfig"):
        places.check(["on-openshift"])
