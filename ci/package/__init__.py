"""A project's way from its checkout to a package index: lint, test, build, verify, publish, prove."""
