"""Set up or check the webhooks of jenkins/webhooks.yaml: `spyre-ci webhooks` under the name scripts have."""

from __future__ import annotations

import sys

from ci.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["webhooks"]
    main()
