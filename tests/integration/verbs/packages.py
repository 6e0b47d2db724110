"""What verbs of packages find: a small project under Git, with what each step leaves."""

from __future__ import annotations

import shutil

import yaml

from ci.package.artifacts import sha256_of
from ci.package.records import BUILD, LINT, UNIT, VERIFY, Record, write_record
from ci.package.statement import envelope_of, statement_of
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


def signed(world: World) -> None:
    """A wheel, a statement of it, and the key that signed it."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # an extra's
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    built(world)
    wheel = next((world.folder / "dist").glob("*.whl"))
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    world.write("key.pem", public.decode())
    release = {
        "project": "demo", "version": "1.0", "at": "2026-01-01T00:00:00+00:00",
        "source": {"url": "https://github.com/o/r", "commit": "a" * 40}, "torch": "", "image": "",
        "files": [{"name": wheel.name, "sha256": sha256_of(wheel)}], "runs": [], "gates": [],
    }  # fmt: skip
    world.write("demo.intoto.json", envelope_of(statement_of(release, "https://ci.example.org/1"), private))


def fragments(world: World) -> None:
    """The project with a changelog and a change."""
    project(world)
    towncrier = (
        '\n[tool.towncrier]\ndirectory = "changelog.d"\nfilename = "CHANGELOG.md"\nname = "demo"\n'
        '[[tool.towncrier.type]]\ndirectory = "added"\nname = "Added"\nshowcontent = true\n'
    )
    path = world.folder / "pyproject.toml"
    path.write_text(path.read_text(encoding="utf-8") + towncrier, encoding="utf-8")
    world.write("CHANGELOG.md", "# Changelog\n\n<!-- towncrier release notes start -->\n")
    world.write("changelog.d/thing.added.md", "A thing.\n")
    world.git("add", "--all")
    world.git("commit", "--quiet", "--message", "change")


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
