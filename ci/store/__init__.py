"""One store of results: jobs, their tests, what was uploaded; SQLite, or ClickHouse with the same tables."""
