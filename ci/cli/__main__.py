"""`python -m ci.cli` is `spyre-ci`."""

from ci.cli import main

main()
