"""Start Jenkins for repositories whose webhooks cannot reach it: `spyre-ci webhooks poll`."""

from __future__ import annotations

import sys

from ci.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["webhooks", "poll"]
    main()
