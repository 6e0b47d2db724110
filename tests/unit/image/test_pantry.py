"""What steps are given besides their context."""

from __future__ import annotations

import shlex
from pathlib import Path

from ci.image.pantry import index_key, settings_of


def test_proxies_and_indexes_go_on_and_nothing_else() -> None:
    environ = {"https_proxy": "http://me:word@proxy:3128", "PIP_INDEX_URL": "https://i/it's", "HOME": "/root"}
    lines = settings_of(environ, certificates=None).splitlines()
    assert [shlex.split(line) for line in lines] == [
        ["export", "https_proxy=http://me:word@proxy:3128"],
        ["export", "PIP_INDEX_URL=https://i/it's"],
    ]


def test_certificates_are_a_file_for_the_step_alone(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nabc\n")
    said = settings_of({}, certificates=bundle)
    assert "BEGIN CERTIFICATE" in said
    assert 'export PIP_CERT="$__certificates"' in said
    assert "trap 'rm -f" in said


def test_an_index_is_told_from_another_and_its_credentials_make_no_difference() -> None:
    keys = {
        index_key({"PIP_INDEX_URL": address}) for address in ("https://a/simple", "https://me:word@a/simple")
    }
    assert len(keys) == 1
    (key,) = keys
    assert len(key) == 12
    assert index_key({"PIP_INDEX_URL": "https://b/simple"}) != key
    assert index_key({}) != key
