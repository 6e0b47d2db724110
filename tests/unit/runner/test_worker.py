from __future__ import annotations

from pathlib import Path

import pytest

from ci.runner import worker


def test_a_log_is_begun_anew_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_LOG_BYTES", 10)
    log = tmp_path / "0-1.log"
    worker.stem_flood(log)
    log.write_bytes(b"x" * 10)
    worker.stem_flood(log)
    assert log.stat().st_size == 10
    log.write_bytes(b"x" * 11)
    worker.stem_flood(log)
    assert log.stat().st_size == 0
