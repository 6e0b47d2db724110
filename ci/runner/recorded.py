"""What of a worker's environment may matter to a test, for whoever runs it again elsewhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ci.core.addresses import without_secrets
from ci.core.withheld import without_job_secrets

# Of PyTorch, the back end and its cards, libraries that compute, Python and the C library.
_NAMES = re.compile(
    r"(PYTORCH|TORCH|ATEN|SPYRE|AIU|DT|FLEX|SENLIB|DEEPTOOLS|OMP|GOMP|KMP|MKL|OPENBLAS|THP|CUBLAS|NVIDIA"
    r"|CUDA|HIP|PCIDEVICE|MALLOC|PYTHON)_?[A-Z0-9_]*|LANG|LANGUAGE|LC_[A-Z]+|TZ|LD_PRELOAD"
)
_SECRET = re.compile(
    r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE|SIGN|PRIVATE|WEBHOOK|ENDPOINT", re.IGNORECASE
)
# Of the toolkit's own, all but what says how tests are run is for others to know.
_OURS = "SPYRE_CI_"
MOST = 200
LONGEST = 1000


def recorded(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by name that may matter, in order; nothing secret, and no address with a secret in it.

    Args:
        environ: of a worker.
    """
    names = [
        name
        for name in sorted(without_job_secrets(environ))
        if _NAMES.fullmatch(name) and not _SECRET.search(name) and not name.startswith(_OURS)
    ]
    return {name: without_secrets(environ[name])[:LONGEST] for name in names[:MOST]}
