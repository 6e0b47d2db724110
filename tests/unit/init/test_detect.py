"""Which back end a checkout is of: read off its files, which are never imported or run."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import UsageError
from ci.init.checkout import MOST_BYTES, Sources
from ci.init.detect import detect, names_in_cxx, names_in_python, read_metadata

PYPROJECT = """\
[build-system]
requires = ["setuptools>=70", "torch~=2.10.0"]
build-backend = "setuptools.build_meta"
[project]
name = "torch_spyre"
dynamic = ["version"]
[project.entry-points."torch.backends"]
torch_spyre = "torch_spyre:_autoload"
"""
SETUP_CFG = """\
[metadata]
name = torch-acme
[options.entry_points]
torch.backends =
    acme = torch_acme.start:load
"""
SETUP_PY = """\
from setuptools import setup
NAME = "torch_acme"
raise SystemExit("never run")
setup(name=NAME, entry_points={"console_scripts": [], "torch.backends": ["acme = torch_acme:load", 3]})
"""
RENAMES = """\
import torch
from .constants import DEVICE_NAME

def _autoload():
    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
"""


def sources(
    python: dict[str, str] | None = None, cxx: dict[str, str] | None = None, **metadata: str
) -> Sources:
    names = {
        name.replace("_toml", ".toml").replace("_cfg", ".cfg").replace("_py", ".py"): text
        for name, text in metadata.items()
    }
    return Sources(metadata=names, python=python or {}, cxx=cxx or {})


def test_a_back_end_is_known_by_what_it_registers_and_by_the_name_it_gives() -> None:
    python = {
        "torch_spyre/__init__.py": RENAMES,
        "torch_spyre/constants.py": "DEVICE_NAME = 'spyre'\n",
        "tools/example.py": "rename_privateuse1_backend('other')",
    }
    found = detect(sources(python, pyproject_toml=PYPROJECT))
    assert (found.device, found.package, found.project) == ("spyre", "torch_spyre", "torch_spyre")
    assert found.notes == (
        "package torch_spyre: pyproject.toml registers it with torch (torch.backends)",
        "device spyre: torch_spyre/__init__.py gives PrivateUse1 that name",
    )


@pytest.mark.parametrize(
    ("name", "text", "project", "packages"),
    [
        ("pyproject.toml", PYPROJECT, "torch_spyre", ("torch_spyre",)),
        ("setup.cfg", SETUP_CFG, "torch-acme", ("torch_acme",)),
        ("setup.py", SETUP_PY, "torch_acme", ("torch_acme",)),
        (
            "pyproject.toml",
            '[tool.poetry]\nname = "x"\n[tool.poetry.plugins."torch.backends"]\na = "x.y:z"',
            "x",
            ("x",),
        ),
        ("pyproject.toml", '[project]\nname = "../x"\nentry-points = 3', "", ()),
        ("setup.py", 'NAME: str = "acme"\nsetup(name=NAME)', "acme", ()),
        ("setup.py", "setup(name=name(), entry_points=points)", "", ()),
    ],
)
def test_what_a_project_registers_is_read_as_data(
    name: str, text: str, project: str, packages: tuple[str, ...]
) -> None:
    found = read_metadata({name: text})
    assert (found.project, found.packages, found.unread) == (project, packages, ())


@pytest.mark.parametrize(
    ("name", "text"), [("pyproject.toml", "[["), ("setup.cfg", "x"), ("setup.py", "def")]
)
def test_a_file_that_cannot_be_read_is_told_and_the_next_one_asked(name: str, text: str) -> None:
    found = detect(Sources(metadata={name: text}, python={}, cxx={}))
    assert found.notes[0] == f"{name} cannot be read, so it says nothing"


def test_the_first_file_that_registers_something_counts() -> None:
    found = read_metadata({"pyproject.toml": '[project]\nname = "a"\n', "setup.py": SETUP_PY})
    assert (found.project, found.packages, found.source) == ("a", ("torch_acme",), "setup.py")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("torch.utils.rename_privateuse1_backend('acme')", {"acme"}),
        ("rename_privateuse1_backend(backend_name='acme')", {"acme"}),
        ("N: str = 'acme'\nrename_privateuse1_backend(N)", {"acme"}),
        ("from b import N as M\nrename_privateuse1_backend(M)", {"acme"}),
        ("from .b import N\nrename_privateuse1_backend(N)", {"acme"}),
        ("from p.b import N\nrename_privateuse1_backend(N)", set()),
        ("rename_privateuse1_backend(name())", set()),
        ("rename_privateuse1_backend()", set()),
        ("rename_privateuse1_backend('A B')", set()),
        ("# rename_privateuse1_backend('acme')", set()),
        ("def broken(", set()),
        ("\0", set()),
    ],
)
def test_a_name_is_found_where_it_is_written(text: str, names: set[str]) -> None:
    found = names_in_python({"a.py": text, "b.py": "N = 'acme'"})
    assert found.get("a.py", set()) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('c10::register_privateuse1_backend("acme");', {"acme"}),
        ('register_privateuse1_backend( std::string("acme") )', {"acme"}),
        ('// register_privateuse1_backend("acme")', set()),
        ('/* register_privateuse1_backend("acme") */', set()),
        ('f("//"); register_privateuse1_backend("acme");', {"acme"}),
        ("register_privateuse1_backend(name);", set()),
    ],
)
def test_a_name_that_cxx_registers_is_found(text: str, names: set[str]) -> None:
    assert names_in_cxx(text) == names


@pytest.mark.parametrize("part", ['\\"', "/* ", '"', "//", "register_privateuse1_backend ", "\\"])
@pytest.mark.parametrize("first", ['"', "/*", ""])
def test_what_is_never_closed_is_looked_at_once(first: str, part: str) -> None:
    # A search that began anew at every sign would take hours for a file of the size that is read.
    text = first + part * (MOST_BYTES // len(part))
    assert names_in_cxx(f'{text}\nregister_privateuse1_backend("acme")') <= {"acme"}


@pytest.mark.parametrize("part", [" ", "a", ":", "[", ". "])
def test_a_long_line_of_entry_points_is_looked_at_once(part: str) -> None:
    text = f"[options.entry_points]\ntorch.backends =\n  a = b{part * 100_000}!\n  acme = torch_acme:load\n"
    assert read_metadata({"setup.cfg": text}).packages == ("torch_acme",)


def test_a_file_that_python_has_no_room_for_is_told() -> None:
    found = read_metadata({"setup.py": "-" * 200_000 + "1", "setup.cfg": "[metadata]\nname = acme\n"})
    assert (found.project, found.unread) == ("acme", ("setup.py",))


def test_only_files_that_name_it_are_read_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def parsed(text: str) -> ast.Module:
        read.append(text)
        return ast.parse(text)

    monkeypatch.setattr("ci.init.detect._parsed", parsed)
    python = {"a.py": "from b import N\nrename_privateuse1_backend(N)", "b.py": "N = 'x'", "c.py": "M = 'y'"}
    assert names_in_python(python) == {"a.py": {"x"}}
    assert "M = 'y'" not in read


def test_several_packages_and_names_are_told_and_the_flags_that_decide() -> None:
    text = PYPROJECT + 'other = "torch_other:load"\n'
    python = {"torch_spyre/a.py": "rename_privateuse1_backend('b')\nrename_privateuse1_backend('a')"}
    found = detect(sources(python, pyproject_toml=text))
    assert (found.package, found.device) == ("torch_spyre", "a")
    assert "several packages" in found.notes[0]
    assert "--package" in found.notes[0]
    assert "several names (a, b); --device" in found.notes[1]
    asked = detect(sources(python, pyproject_toml=text), device="b", package="torch_other")
    assert (asked.package, asked.device, asked.notes) == ("torch_other", "b", ())


def test_of_several_names_that_of_the_package_is_the_likelier() -> None:
    python = {"x.py": "rename_privateuse1_backend('spyre')\nrename_privateuse1_backend('a')"}
    assert detect(sources(python, pyproject_toml=PYPROJECT)).device == "spyre"


@pytest.mark.parametrize(
    ("python", "project", "package", "device"),
    [
        ({"torch_acme/__init__.py": ""}, "torch-acme", "torch_acme", "acme"),
        ({"src/torch_acme/__init__.py": "", "other/__init__.py": ""}, "torch.acme", "torch_acme", "acme"),
        ({"Acme/__init__.py": ""}, "x", "Acme", "acme"),
        ({}, "", "torch_spyre", "spyre"),
        ({"a/__init__.py": "", "b/__init__.py": ""}, "c", "torch_spyre", "spyre"),
    ],
)
def test_what_nobody_says_is_assumed_and_said(
    python: dict[str, str], project: str, package: str, device: str
) -> None:
    text = f'[project]\nname = "{project}"\n' if project else ""
    found = detect(sources(python, pyproject_toml=text))
    assert (found.package, found.device) == (package, device)
    assert all("is assumed" in one for one in found.notes)
    assert any("--device" in one for one in found.notes)


@pytest.mark.parametrize(
    "given", [{"device": "Spyre"}, {"device": "a b"}, {"device": ""}, {"package": "a-b"}]
)
def test_a_name_that_is_none_is_refused(given: dict[str, str]) -> None:
    (name,) = given
    with pytest.raises(UsageError, match=f"--{name} is ") as caught:
        detect(sources(), **given)
    assert caught.value.remedy


def test_a_checkout_that_is_too_large_says_so() -> None:
    found = detect(Sources(metadata={}, python={}, cxx={}, partly=True))
    assert "more files than were looked at" in found.notes[0]


@given(st.text(), st.text())
def test_no_file_makes_it_stumble(one: str, two: str) -> None:
    found = detect(sources({"a.py": one}, {"a.cpp": two}, pyproject_toml=two, setup_cfg=one, setup_py=two))
    assert found.device
    assert found.package
