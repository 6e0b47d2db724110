"""What a build is given besides its context."""

from __future__ import annotations

import configparser
from pathlib import Path

from ci.image.build_settings import index_arguments, index_key, pip_settings, write_secrets

ENVIRON = {
    "PIP_INDEX_URL": "https://me:wo%rd@a/simple",
    "PIP_EXTRA_INDEX_URL": "https://me:word@b/simple https://c/simple",
    "HOME": "/root",
}


def test_components_are_told_the_index_and_not_its_credentials() -> None:
    assert index_arguments(ENVIRON) == {
        "PACKAGE_INDEX": index_key(ENVIRON),
        "PIP_INDEX_URL": "https://a/simple",
        "PIP_EXTRA_INDEX_URL": "https://b/simple https://c/simple",
    }
    assert index_arguments({}) == {"PACKAGE_INDEX": index_key({})}


def test_pip_is_told_them_in_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    secrets = write_secrets(tmp_path, ENVIRON, tmp_path / "ca.pem")
    assert secrets == {"pip": tmp_path / "pip", "certificates": tmp_path / "ca.pem"}
    assert secrets["pip"].stat().st_mode & 0o777 == 0o600
    read = configparser.RawConfigParser()
    read.read_string(pip_settings(ENVIRON))
    assert read["global"]["index-url"] == ENVIRON["PIP_INDEX_URL"]
    assert read["global"]["extra-index-url"].split() == ENVIRON["PIP_EXTRA_INDEX_URL"].split()
    assert pip_settings({}) == "[global]\n"


def test_an_index_is_told_from_another_and_its_credentials_make_no_difference() -> None:
    assert index_key(ENVIRON) == index_key({**ENVIRON, "PIP_INDEX_URL": "https://a/simple"})
    assert len({index_key(one) for one in (ENVIRON, {}, {"PIP_INDEX_URL": "https://b/simple"})}) == 3
