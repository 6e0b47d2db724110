"""What of a job's environment tests have no business with, which a pull request brings; pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

# Tokens, and the files by which GitHub is told what later steps find in their environment and path.
WITHHELD = (
    "SPYRE_CI_HUD_TOKEN", "SPYRE_CI_GITHUB_TOKEN", "SPYRE_CI_CLICKHOUSE_PASSWORD",
    "SPYRE_CI_GITHUB_TOKEN_*", "SPYRE_CI_WEBHOOK_*", "SPYRE_CI_JENKINS_*",
    "SPYRE_CI_SHARE_PASSWORD", "SPYRE_CI__RUN__SHARE", "SPYRE_CI_INDEX_TOKEN",
    "ACTIONS_*", "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY",
    "TWINE_*", "UV_PUBLISH_*", "HATCH_INDEX_*", "FLIT_*", "AWS_*",
    "*PYPI*TOKEN*", "*PYPI*PASSWORD*", "POETRY_PYPI_*", "POETRY_HTTP_BASIC_*", "NPM_TOKEN", "NODE_AUTH_TOKEN",
    "CI_JOB_TOKEN", "CI_JOB_JWT*", "CI_REGISTRY_PASSWORD", "CI_DEPLOY_PASSWORD",
)  # fmt: skip


def without_job_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for tests: no tokens, and no files that steer the job.

    The same user's processes can still be looked into, so a job that runs strangers' tests should hold no
    secret it can do without.
    """
    return {
        name: value
        for name, value in environ.items()
        if not any(fnmatchcase(name, pattern) for pattern in WITHHELD)
    }
