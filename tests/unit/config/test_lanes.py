"""Settings of lanes that cannot be, refused with their line and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.config import load_settings
from ci.config.lanes_model import BegunBy, LaneWorker
from ci.core.errors import SettingsError

LANE = "lanes:\n  a:\n    run: {session: {name: tests}}\n    cadence: "


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (f"{LANE}{{cron: 0 2 * *}}\n", 4, "no cron expression of five fields: it has 4"),
        (f"{LANE}{{cron: 30 0 2 * * *}}\n", 4, "no cron expression of five fields: it has 6"),
        (f"{LANE}{{cron: 61 2 * * *}}\n", 4, "no cron expression of five fields: Bad minute"),
        (f"{LANE}{{cron: 0 2 30 2 *}}\n", 4, "no cron expression of five fields: Bad day-of-month"),
        (f"{LANE}{{cron: 0 0 L * *}}\n", 4, "has l, which crons read differently"),
        (f"{LANE}{{cron: 0 0 * * 1#2}}\n", 4, "has 1#2, which crons read differently"),
        (f"{LANE}{{cron: 0 0 * * 5-7}}\n", 4, "has 7, which crons read differently; write numbers"),
        (f"{LANE}{{cron: 0 0 1 * 1}}\n", 4, "names days of the month and of the week"),
        (f"{LANE}{{cron: 0 0 */2 * 1}}\n", 4, "names days of the month and of the week"),
        (f"{LANE}{{cron: 0 0 * * *, times_a_day: 3}}\n", 4, "needs exactly one of cron, times_a_day"),
        (f"{LANE}{{times_a_day: 25}}\n", 4, "less than or equal to 24"),
        (f"{LANE}{{after_end: {{min: 8, max: 6}}}}\n", 4, "min (8) is above max (6)"),
        ("lane_worker: {late_s: 29}\n", 1, "late_s (29) is below two times poll_s (15)"),
        ("lane_worker:\n  time_zone: Europe/Atlantis\n", 2, "'Europe/Atlantis' is no time zone here"),
        ("lane_worker:\n  time_zone: ../../etc/passwd\n", 2, "'../../etc/passwd' is no time zone here"),
        ("lane_worker:\n  time_zone: Europe\n", 2, "'Europe' is no time zone here"),
    ],
)  # fmt: skip
def test_a_time_that_no_lane_can_have_is_refused(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = tmp_path / "spyre-ci.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(path=path, environ={}, flags={}, cwd=tmp_path)
    assert said in str(caught.value)
    assert f"spyre-ci.yaml:{line}: " in str(caught.value)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("0  2 * *   1-5", "0 2 * * 1-5"),
        ("0 4 * jan-MAR,12 SUN,mon", "0 4 * 1-3,12 0,1"),
        ("5/20 * * * *", None),
    ],
)
def test_a_cron_line_is_kept_in_numbers_with_single_spaces(
    tmp_path: Path, line: str, kept: str | None
) -> None:
    path = tmp_path / "spyre-ci.yaml"
    path.write_text(f"{LANE}{{cron: '{line}'}}\n", encoding="utf-8")
    if kept is None:
        with pytest.raises(SettingsError, match="which crons read differently"):
            load_settings(path=path, environ={}, flags={}, cwd=tmp_path)
        return
    found = load_settings(path=path, environ={}, flags={}, cwd=tmp_path)
    assert found.model.lanes["a"].cadence.cron == kept


@pytest.mark.parametrize("job", ["n", "nightly", "spyre/night ly"])
def test_a_job_of_a_jenkins_may_be_called_as_it_likes(job: str) -> None:
    assert BegunBy(jenkins=job).jenkins == job


@pytest.mark.parametrize("job", ["", "/", " ", "/n", "n/", "n\n", "a\nb"])
def test_what_is_no_path_of_a_job_is_refused(job: str) -> None:
    with pytest.raises(ValueError, match="should match pattern"):
        BegunBy(jenkins=job)


def test_a_time_may_be_as_late_as_two_looks() -> None:
    assert LaneWorker(poll_s=15, late_s=30).late_s == 30


def test_the_worker_s_page_has_every_key_with_its_default() -> None:
    page = (Path(__file__).parent.parent.parent.parent / "docs" / "lanes.md").read_text("utf-8")
    for name, field in LaneWorker.model_fields.items():
        default = f"`{field.default}`" if isinstance(field.default, Path) else field.default
        assert f"| `{name}` | {default} |" in page
