"""What tests of jobs on a cluster share: the stand-in, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.jobs.cluster import Cluster
from tests.kubernetes_api import KubernetesApi
from tests.kubernetes_jobs import hasty


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        yield api


@pytest.fixture
def cluster(api: KubernetesApi, tmp_path: Path) -> Cluster:
    """A client that waits a hundredth of the time it would."""
    return api.cluster(tmp_path, effects=hasty())
