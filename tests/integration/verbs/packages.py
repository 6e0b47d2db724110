"""What verbs of packages find: a small project under Git, with what each step leaves."""

from __future__ import annotations

import shutil

import yaml

from ci.package.artifacts import sha256_of
from ci.package.records import BUILD, LINT, UNIT, VERIFY, Record, write_record
from tests.integration.package.conftest import FILES
from tests.integration.package.publish.releases import TOKEN, USER
from tests.packages import make_sdist, make_wheel

from . import cards
from .world import ROOT, World

NOWHERE = "http://127.0.0.1:9"


def project(world: World, address: str = NOWHERE) -> None:
    """A project that is built by setuptools, and tested without a device."""
    for name, text in FILES.items():
        world.write(name, text.replace('version = "0.3.0"', 'version = "1.0"'))
    world.write(
        "tests/unit/test_demo.py", "import demo\n\n\ndef test_shapes() -> None:\n    assert demo.main\n"
    )
    one = {"user": USER, "timeout_s": 20, "gate": "none"}
    indexes = {
        name: {**one, "upload": f"{address}/", "simple": f"{address}/simple/"} for name in ("stage", "prod")
    }
    world.settings(yaml.safe_dump({"package": {"publish_timeout_s": 30, "indexes": indexes}}))
    cards.repository(world)


def built(world: World, address: str = NOWHERE) -> None:
    """The project with a wheel and an sdist."""
    project(world, address)
    dist = world.folder / "dist"
    make_wheel(dist, "demo", version="1.0")
    make_sdist(dist, "demo", version="1.0")
    passed(world)


def passed(world: World) -> None:
    """What the steps before a release note, each passed."""
    dist, commit = world.folder / "dist", world.git("rev-parse", "HEAD")
    files = [
        {"name": one.name, "sha256": sha256_of(one), "size": one.stat().st_size}
        for one in sorted(dist.iterdir())
    ]
    for step in (LINT, UNIT, BUILD, VERIFY):
        details = {"version": "1.0", "files": files, "checks": []} if step in {BUILD, VERIFY} else {}
        record = Record(step=step, project="demo", commit=commit, dirty=(), passed=True, details=details)
        write_record(world.folder / ".spyre-ci" / "records", record)


def on_an_index(world: World) -> None:
    """The project, and a real index that takes it."""
    built(world, world.request.getfixturevalue("index"))
    world.patch.setenv("SPYRE_CI_INDEX_TOKEN", TOKEN)


def installed(world: World) -> None:
    """The project, installed beside spyre-ci, with a test that wants a device."""
    project(world)
    world.write("tests/device/test_card.py", "def test_card() -> None:\n    import demo\n\n    assert demo\n")
    world.git("add", "--all")
    world.git("commit", "--quiet", "--message", "device")
    site = world.base / "site"
    shutil.copytree(world.folder / "demo", site / "demo")
    about = site / "demo-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n", encoding="utf-8")
    world.patch.syspath_prepend(site)
    world.patch.setenv("PYTHONPATH", f"{ROOT}:{site}")
