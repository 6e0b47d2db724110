"""A machine that has `pip install spyre-ci` and nothing else: told in full, and not by falling over."""

from __future__ import annotations

from pathlib import Path

from .conftest import Site, doctor
from .machines import bare


def test_a_bare_machine_is_told_what_it_lacks(tmp_path: Path, site: Site) -> None:
    """No path, no home, no pip, no torch, no nox: each is a line with its remedy."""
    python = bare(tmp_path / "v")
    folder = tmp_path / "a folder"
    folder.mkdir()
    site.pages["/simple/torch/"] = (200, "text/html", "<a href='x'>torch-1.0-py3-none-any.whl</a>")
    environ = {"PIP_INDEX_URL": f"{site.url}/simple", "SPYRE_CI__RUN__LEASES": str(tmp_path / "l")}
    told = doctor(folder, environ=environ, python=python)
    assert told.code == 2
    assert told.faults == ["nox", "torch", "index"], told.findings
    assert told.of("python")[0]["said"].endswith("no settings file, so all defaults")
    assert told.of("torch")[0]["said"] == "not installed in this environment"
    assert told.of("torch")[0]["remedy"].startswith(f"{python} -m pip install torch==")
    index = told.of("index")[0]["said"]
    assert index.startswith(f"{site.url}/simple (index-url) has torch, and not torch 2.")
    for look in ("device", "cards", "registry", "cluster", "hud", "tokens"):
        assert [one["level"] for one in told.of(look)] == ["ok"], told.of(look)
    assert told.err == ""
    assert not any(folder.iterdir()), "looking leaves nothing behind"


def test_what_is_not_installed_is_told_as_what_it_is(tmp_path: Path) -> None:
    """Requirements that got lost, and an extra that a cluster wants: each with what installs it."""
    python = bare(tmp_path / "v", without={"docker", "uvicorn"})
    (tmp_path / "k").write_text("{}")
    environ = {"KUBECONFIG": str(tmp_path / "k"), "DOCKER_HOST": "unix:///nowhere"}
    only = [word for name in ("python", "cluster", "engine") for word in ("--only", name)]
    told = doctor(tmp_path, *only, environ=environ, python=python)
    assert (told.code, told.faults) == (2, ["python", "engine"])
    (found,) = told.of("python")
    assert "2 requirements of spyre-ci not met: docker>=" in found["said"]
    assert found["remedy"].startswith(f"{python} -m pip install 'docker>=")
    (cluster,) = told.of("cluster")
    assert (cluster["level"], cluster["remedy"]) == ("warning", "pip install 'spyre-ci[jobs]'")
    assert told.of("engine")[0]["remedy"] == "pip install docker"
