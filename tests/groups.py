"""Which tests one worker of pytest-xdist has to itself: those that share an engine or a fixture of a module.

Two workers would make twice what such tests share, or wait for each other. xdist's own `loadgroup` groups
nothing with pytest 9.2, whose node ids it cannot rename, and knows no tests that share a module's fixture.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
# What begins so is one group: images are built one at a time, Groovy's classes are compiled once.
GROUPS = {
    "tests/integration/image/": "engine",
    "tests/integration/jobs/test_images.py": "engine",
    "tests/integration/jobs/test_local": "engine",
    "tests/integration/retention/test_engine_images.py": "engine",
    "tests/heavy/test_image_op_suite.py": "engine",
    "tests/heavy/test_image_bisect.py": "engine",
    "tests/heavy/test_image_reproduce.py": "engine",
    "tests/heavy/test_job_local.py": "engine",
    "tests/oracle/test_image.py": "engine",
    "tests/oracle/test_jobs.py": "engine",
    "tests/heavy/test_jenkinsfiles": "jenkins",
    # README's first command makes an environment with torch.
    "tests/heavy/test_first_hour.py": "clone",
    "tests/heavy/test_readme.py": "clone",
}


def group_of(nodeid: str) -> str:
    """The group of a test; the test itself where it shares nothing.

    Args:
        nodeid: as pytest has it, relative to the checkout.
    """
    for begin, group in GROUPS.items():
        if nodeid.startswith(begin):
            return group
    file = nodeid.partition("::")[0]
    return file if _shares(ROOT / file) else nodeid


@cache
def _shares(path: Path) -> bool:
    """Whether a test file has a fixture that is made once for all its tests."""
    return path.is_file() and 'scope="module"' in path.read_text(encoding="utf-8")
