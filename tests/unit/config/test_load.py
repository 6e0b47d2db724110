from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.config import load_settings
from ci.config.load import Settings, rows
from ci.config.renamed import RENAMED
from ci.core.errors import MissingInputError, SettingsError

RENAMED_KEYS = Path(__file__).parents[3] / "docs" / "renamed.md"


def load(tmp_path: Path, text: str = "", *, environ: dict[str, str] | None = None, **flags: Any) -> Settings:
    if text:
        (tmp_path / "spyre-ci.yaml").write_text(text, encoding="utf-8")
    return load_settings(
        path=None,
        environ=environ or {},
        flags={key.replace("__", "."): value for key, value in flags.items()},
        cwd=tmp_path,
    )


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.model.stage == 1
    assert settings.model.stages[1].percent == 5
    assert {origin for _, _, origin, _ in rows(settings)} == {"default"}


def test_the_roll_out_is_the_one_that_was_agreed(tmp_path: Path) -> None:
    stages = load(tmp_path).model.stages
    assert [(n, s.percent, s.cards) for n, s in sorted(stages.items())] == [
        (0, 0, 24), (1, 5, 128), (2, 25, 512), (3, 50, 1024), (4, 80, 2048), (5, 80, 2048),
    ]  # fmt: skip
    assert [n for n, s in stages.items() if not s.blocking] == [5]


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    text = "run: {cards: 1, grace_s: 2, test_timeout_s: 3}\n"
    environ = {"SPYRE_CI__RUN__GRACE_S": "7", "SPYRE_CI__RUN__TEST_TIMEOUT_S": "7", "UNRELATED": "x"}
    settings = load(tmp_path, text, environ=environ, run__test_timeout_s=9, run__cards=None)
    run = settings.model.run
    assert (run.cards, run.grace_s, run.test_timeout_s) == (1, 7, 9)
    origins = {key: origin for key, _, origin, _ in rows(settings)}
    assert origins["run.cards"] == "file"
    assert origins["run.grace_s"] == "environment"
    assert origins["run.test_timeout_s"] == "flag"
    assert origins["run.setup_timeout_s"] == "default"


@pytest.mark.parametrize("key", RENAMED)
def test_a_key_that_was_removed_names_what_there_is_now(tmp_path: Path, key: str) -> None:
    text: Any = "x"
    for part in reversed(key.replace("*", "night").split(".")):
        text = {part: text}
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, yaml.safe_dump(text))
    assert (
        f"key {key.replace('*', 'night')!r} was removed; instead: {RENAMED[key].replace('*', 'night')}"
        in str(caught.value)
    )
    assert f"| `{key}` |" in RENAMED_KEYS.read_text(encoding="utf-8")


@pytest.mark.parametrize("nothing", ["", " ", "\n", "\t \n"])
def test_an_empty_variable_is_no_setting(tmp_path: Path, nothing: str) -> None:
    # A pipeline hands inputs on as variables, also those that nobody gave.
    environ = {"SPYRE_CI__STAGE": nothing, "SPYRE_CI__PYTORCH__SOURCE": nothing, "SPYRE_CI__RUN": nothing}
    settings = load(tmp_path, "stage: 2\npytorch: {source: tree}\n", environ=environ)
    assert (settings.model.stage, settings.model.pytorch.source) == (2, "tree")
    assert settings.origins["stage"] == "file"


def test_a_variable_takes_a_setting_back_by_saying_so(tmp_path: Path) -> None:
    settings = load(tmp_path, "pytorch: {source: tree}\n", environ={"SPYRE_CI__PYTORCH__SOURCE": "null"})
    assert settings.model.pytorch.source is None
    assert load(tmp_path, environ={"SPYRE_CI__PYTORCH__SUITE": "''"}).model.pytorch.suite is not None


def test_one_number_of_one_stage_can_be_changed(tmp_path: Path) -> None:
    stages = load(tmp_path, "stages: {1: {cards: 7}}\n").model.stages
    assert (stages[1].cards, stages[1].percent, len(stages)) == (7, 5, 6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run:\n  crads: 3\n", ["spyre-ci.yaml:2", "unknown key 'run.crads'", "did you mean 'cards'"]),
        ("device:\n  name: spyre\n\nstage: one\n", ["spyre-ci.yaml:4", "stage", '"one"', "remedy"]),
        ("run:\n  cards: -1\n", ["spyre-ci.yaml:2", "run.cards", "-1", "cards used on this host"]),
        ("stages: {1: {percent: 90}}\n", ["stages must not shrink", "25 % follows 90 %"]),
        ("stages: {1: {by: seconds}}\n", ["stages by count and stages by seconds do not nest"]),
        ("stages: {1: {by: luck}}\n", ["stages.1.by", "luck"]),
        ("report: {repository: nobody}\n", ["report.repository", "nobody"]),
        ("stage: 1\nstage: 2\n", ["spyre-ci.yaml:2", "'stage' is there twice", "line 1"]),
        ("stage: [1\n", ["spyre-ci.yaml", "is not YAML"]),
        (f"run: {{seed: 0x{'f' * 4000}}}\n", ["run.seed", "seen: a number of thousands of digits"]),
        ("- a\n- b\n", ["spyre-ci.yaml:1", "holds a list, not a table"]),
    ],
)
def test_a_bad_file_is_told_with_line_key_value_and_remedy(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert caught.value.exit_code == 2
    for part in [*expected, "remedy:"]:
        assert part in str(caught.value)


def test_several_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"also: .*spyre-ci\.yaml:2"):
        load(tmp_path, "stage: x\nrunz: 1\n")


def test_a_bad_variable_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"SPYRE_CI__RUN__CARDS \(environment\)"):
        load(tmp_path, environ={"SPYRE_CI__RUN__CARDS": "many"})
    with pytest.raises(SettingsError, match="is not a YAML value"):
        load(tmp_path, environ={"SPYRE_CI__RUN__CARDS": "[1"})
    with pytest.raises(SettingsError, match="is not a YAML value") as told:
        load(tmp_path, environ={"SPYRE_CI__RUN__SHARE": "[redis://ci:s3cret@host/0"})
    assert "s3cret" not in str(told.value)


def test_a_bad_flag_is_told_as_a_flag(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"device.name \(flag\)"):
        load(tmp_path, device__name="NOT A NAME")


def test_a_settings_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="check --config"):
        load_settings(path=tmp_path / "other.yaml", environ={}, flags={}, cwd=tmp_path)


def test_every_setting_says_what_it_means(tmp_path: Path) -> None:
    assert [key for key, _, _, description in rows(load(tmp_path)) if not description] == []


def test_relative_paths_start_at_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "sub" / "s.yaml"
    file.parent.mkdir()
    file.write_text("state: keep\n", encoding="utf-8")
    settings = load_settings(path=file, environ={}, flags={}, cwd=tmp_path)
    assert settings.state_dir == (tmp_path / "sub" / "keep").resolve()


def test_a_section_and_a_key_of_it_in_the_environment_are_told_whatever_stands_first(tmp_path: Path) -> None:
    pairs = [("SPYRE_CI__RUN", "3"), ("SPYRE_CI__RUN__CARDS", "3")]
    for environ in (dict(pairs), dict(reversed(pairs))):
        with pytest.raises(SettingsError, match=r"(?s)run.*valid dictionary"):
            load(tmp_path, environ=environ)


@pytest.mark.parametrize(
    ("text", "environ", "place"),
    [
        ("state: s\nhud: [1]\n", {"SPYRE_CI__HUD__PORT": "1"}, "spyre-ci.yaml:2.*hud: .*known keys.*port"),
        ("hud: text\n", {}, r"spyre-ci.yaml:1.*hud: .*seen: \"text\""),
        (
            "report:\n  dispatch: 3\n",
            {"SPYRE_CI__REPORT__DISPATCH__REF": "x"},
            "yaml:2.*report.dispatch: ",
        ),
        ("stages: [1]\n", {"SPYRE_CI__STAGES__1__PERCENT": "5"}, "yaml:1.*stages: .*seen: "),
    ],
)
def test_what_is_no_section_is_told_also_where_the_environment_has_keys_of_it(
    tmp_path: Path, text: str, environ: dict[str, str], place: str
) -> None:
    with pytest.raises(SettingsError, match=f"(?s){place}"):
        load(tmp_path, text, environ=environ)


def test_an_endpoint_that_is_none_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"spyre-ci.yaml:1: report.endpoint.*(?s:.*)`embedded`, `none`"):
        load(tmp_path, "report: {endpoint: emebdded}\n")


def test_a_time_out_that_the_relay_may_outlast_is_refused(tmp_path: Path) -> None:
    text = "report: {endpoint: 'https://relay.example', timeout_s: 59}\n"
    with pytest.raises(SettingsError, match=r"(?s)report.*timeout_s is 59.*raise it, or set own_server"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    "report",
    [
        "{endpoint: 'https://relay.example', timeout_s: 60}",
        "{endpoint: 'https://hud.example', timeout_s: 1, own_server: true}",
        "{endpoint: 'http://127.0.0.1:9', timeout_s: 1}",
        "{endpoint: 'http://[::1]:9', timeout_s: 1}",
        "{endpoint: 'http://localhost', timeout_s: 1}",
        "{endpoint: 'https://[', timeout_s: 1}",
        "{endpoint: embedded, timeout_s: 1}",
        "{endpoint: none, timeout_s: 1}",
    ],
)
def test_a_server_of_our_own_may_be_given_less_time(tmp_path: Path, report: str) -> None:
    assert load(tmp_path, f"report: {report}\n").model.report.timeout_s > 0


def test_what_may_be_a_secret_in_an_address_is_not_shown(tmp_path: Path) -> None:
    text = "report: {endpoint: 'https://u:s3cret@hud/x?token=s3cret'}\n"
    shown = {key: value for key, value, _, _ in rows(load(tmp_path, text))}
    assert shown["report.endpoint"] == "https://hud/x?***"
    with pytest.raises(SettingsError, match=r"seen: \"ftp://x\"") as caught:
        load(tmp_path, "report: {endpoint: 'ftp://u:s3cret@x'}\n")
    assert "s3cret" not in str(caught.value)


def test_tables_in_a_list_are_shown_as_tables(tmp_path: Path) -> None:
    text = (
        "pins: {tracks: {torch: {package: torch, direct: [numpy], suites: [{name: a, needs: [torch>2]}]}}}\n"
    )
    shown = {key: value for key, value, _, _ in rows(load(tmp_path, text))}
    assert shown["pins.tracks.torch.suites"] == [{"name": "a", "needs": ["torch>2"], "calls": []}]
    assert shown["pins.tracks.torch.direct"] == ["numpy"]


def test_stages_that_shrink_are_told_without_the_whole_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="25 % follows 30 %") as caught:
        load(tmp_path, "stages: {1: {percent: 30}}\n")
    assert "seen:" not in str(caught.value)


@pytest.mark.parametrize("lane", ["run: {pytorch: {stage: 9}}", "run: {pytorch: {}}, in_stages: [1, 9]"])
def test_a_lane_of_a_stage_that_is_not_there_is_told(tmp_path: Path, lane: str) -> None:
    with pytest.raises(SettingsError, match="lane night names stage 9, and the stages are 0, 1, 2, 3, 4, 5"):
        load(tmp_path, f"lanes: {{night: {{{lane}, cadence: {{times_a_day: 1}}}}}}\n")


def test_what_a_device_declares_and_the_tiers_have_sensible_defaults(tmp_path: Path) -> None:
    model = load(tmp_path).model
    assert (model.device.ops, model.device.dtypes) == ([], [])
    assert {number: row.tier for number, row in model.stages.items()} == {
        **dict.fromkeys(range(5), "nightly"),
        5: "pr",
    }
    tiers = model.tiers
    assert (tiers.pr.test_s, tiers.nightly.test_s, tiers.weekly.test_s) == (60, 600, None)
    assert (tiers.weekly.cards, tiers.weekly.memory_gib) == (None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("device:\n  dtypes: [flaot16]\n", "there is no dtype 'flaot16', did you mean 'float16'?"),
        ("device:\n  dtypes:\n    - half\n", "there is no dtype 'half', did you mean 'float16'?"),
        ("tiers:\n  pr: {test_s: 0}\n", "tiers.pr.test_s"),
        ("tiers:\n  pr: {gpus: 1}\n", "unknown key 'tiers.pr.gpus'"),
        ("buckets: {}\n", "unknown key 'buckets', it is called 'tiers' now"),
        ("stages:\n  1: {bucket: pr}\n", "unknown key 'stages.1.bucket', it is called 'tier' now"),
        ("tiers:\n  monthly: {}\n", "unknown key 'tiers.monthly'"),
        ("stages:\n  1: {tier: monthly}\n", "'pr', 'nightly' or 'weekly'"),
    ],
)
def test_capabilities_and_tiers_that_cannot_be_are_refused_with_their_line(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert said in str(caught.value)
    assert "spyre-ci.yaml:" in str(caught.value)
