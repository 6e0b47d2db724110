from __future__ import annotations

from ci.package.twine_run import read

REFUSED = """Uploading distributions to http://127.0.0.1:1/
INFO     password set by command options
INFO     username: publisher
INFO     password: <hidden>
INFO     dist/x.whl (1.2 KB)
Uploading x.whl
INFO     Response from http://127.0.0.1:1/:
         400 Bad Request
INFO     <html><title>400</title>
         <p>Invalid value for <b>blake2</b></p></html>
WARNING  Error during upload. Retry with the --verbose option for more details.
ERROR    HTTPError: 400 Bad Request from http://127.0.0.1:1/
         Bad Request
"""


def test_the_status_and_what_the_index_said_are_read() -> None:
    said = read(1, REFUSED)
    assert (said.code, said.status, said.untrusted) == (1, 400, False)
    assert "  | Invalid value for blake2" in said.text
    assert "password" not in said.text
    assert "<" not in said.text


def test_a_status_that_was_not_said_is_none() -> None:
    assert read(1, "ERROR    ConnectionError: refused").status is None


def test_a_job_that_the_index_does_not_trust_is_known() -> None:
    assert read(1, "ERROR    TrustedPublishingFailure: The token request failed").untrusted
    assert read(1, "ERROR    NonInteractive: Credential not found for API token.").untrusted


def test_a_github_that_is_not_well_is_not_the_jobs_fault() -> None:
    begin = "ERROR    TrustedPublishingFailure: Unable to retrieve an OIDC token from the CI platform"
    assert not read(1, f"{begin} GitHub: OIDC token request timed out").untrusted
    assert not read(1, f"{begin} GitHub: OIDC token request failed (code=503, body='')").untrusted
    assert read(1, f"{begin} GitHub: OIDC token request failed (code=403, body='')").untrusted


def test_no_line_of_an_index_commands_a_terminal_or_a_ci() -> None:
    text = read(1, "\x1b[31m::error::x\x07\n::stop-commands::y").text
    assert text == "  | ::error::x\\x07\n  | ::stop-commands::y"


def test_only_the_last_lines_are_shown_and_none_is_endless() -> None:
    shown = read(1, "\n".join(f"{number} {'x' * 1000}" for number in range(100))).text.splitlines()
    assert len(shown) == 20
    assert max(map(len, shown)) < 310


def test_of_a_traceback_the_last_line_is_shown() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py"\nOSError: b\n\n'
    text = f"Uploading x\n{trace}requests.Error: refused\n"
    assert read(1, text).text == "  | requests.Error: refused"
