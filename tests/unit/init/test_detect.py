"""Which back end a checkout holds: read from its files, which are never imported or run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import UsageError
from ci.init import detect as module
from ci.init.detect import BackEnd, detect

PYPROJECT = """\
[project]
name = "torch_spyre"
[project.entry-points."torch.backends"]
torch_spyre = "torch_spyre:_autoload"
"""
SETUP_CFG = (
    "[metadata]\nname = torch-acme\n[options.entry_points]\ntorch.backends =\n    a = torch_acme.x:load\n"
)
SETUP_PY = """\
raise SystemExit("never run")
setup(
    name="torch-acme",
    entry_points={"torch.backends": ["acme = torch_acme:load"]},
)
"""
RENAMES = "from .constants import NAME\n\ndef load():\n    torch.utils.rename_privateuse1_backend(NAME)\n"
REGISTERS = 'register_privateuse1_backend("acme");'


def made(folder: Path, files: dict[str, str], **flags: str) -> BackEnd:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return detect(folder, **flags)


def test_a_back_end_is_known_by_what_it_registers_and_the_name_it_gives(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        {
            "pyproject.toml": PYPROJECT,
            "torch_spyre/__init__.py": RENAMES,
            "torch_spyre/constants.py": 'NAME: str = "spyre"\n',
            "tools/example.py": "rename_privateuse1_backend('other')",
            "tests/test_a.py": "rename_privateuse1_backend('other')",
            ".venv/a.py": "rename_privateuse1_backend('other')",
            "environment/pyvenv.cfg": "",
            "environment/torch_spyre/a.py": "rename_privateuse1_backend('other')",
        },
    )
    assert (found.device, found.package, found.project) == ("spyre", "torch_spyre", "torch_spyre")
    assert found.notes == (
        "package torch_spyre: pyproject.toml registers it with torch (torch.backends)",
        "device spyre: torch_spyre/__init__.py names PrivateUse1",
    )


@pytest.mark.parametrize(
    ("files", "project", "package", "device"),
    [
        ({"setup.cfg": SETUP_CFG}, "torch-acme", "torch_acme", "acme"),
        ({"setup.py": SETUP_PY}, "torch-acme", "torch_acme", "acme"),
        ({"pyproject.toml": '[project]\nname = "a"', "setup.py": SETUP_PY}, "a", "torch_acme", "acme"),
        ({"pyproject.toml": '[project]\nname = "../x"\nentry-points = 3'}, "", "torch_spyre", "spyre"),
        ({"pyproject.toml": '[project]\nname = "acme\\n"'}, "", "torch_spyre", "spyre"),
        ({"torch_acme/__init__.py": ""}, "", "torch_acme", "acme"),
        ({"src/torch_acme/__init__.py": "", "x/__init__.py": "", "setup.cfg": "name = torch-acme"},
         "torch-acme", "torch_acme", "acme"),
        ({"a/__init__.py": "", "b/__init__.py": ""}, "", "torch_spyre", "spyre"),
        ({"a\nb: 1/__init__.py": ""}, "", "torch_spyre", "spyre"),
    ],
)  # fmt: skip
def test_what_no_file_says_is_assumed_and_noted(
    tmp_path: Path, files: dict[str, str], project: str, package: str, device: str
) -> None:
    found = made(tmp_path, files)
    assert (found.project, found.package, found.device) == (project, package, device)
    assert f"device {device} is assumed: no source names PrivateUse1; --device names another" in found.notes
    assert len(found.notes) == 2


@pytest.mark.parametrize(
    ("name", "text", "device"),
    [
        ("a.py", "torch.utils.rename_privateuse1_backend('acme')", "acme"),
        ("a.py", "rename_privateuse1_backend(backend_name='acme')", "acme"),
        ("a.py", "N = 'acme'\nrename_privateuse1_backend(N)", "acme"),
        ("a.py", "from b import C\nrename_privateuse1_backend(C.NAME)\nNAME = 'acme'", "acme"),
        ("a.py", "rename_privateuse1_backend(name())", ""),
        ("a.py", "rename_privateuse1_backend()", ""),
        ("a.py", "rename_privateuse1_backend('A B')", ""),
        ("a.py", "# rename_privateuse1_backend('acme')\n'''rename_privateuse1_backend('acme')'''", ""),
        ("a.py", "rename_privateuse1_backend('acme'", ""),
        ("a.py", "\0 rename_privateuse1_backend('acme')", ""),
        ("a.cpp", f"c10::{REGISTERS}", "acme"),
        ("a.h", 'register_privateuse1_backend( std::string("acme") )', "acme"),
        ("a.cc", f'f("//"); {REGISTERS}', "acme"),
        ("a.cpp", f"// {REGISTERS}\n/* {REGISTERS} */", ""),
        ("a.cpp", "register_privateuse1_backend(name);", ""),
    ],
)
def test_a_device_is_found_where_its_name_is_written(
    tmp_path: Path, name: str, text: str, device: str
) -> None:
    found = made(tmp_path, {name: text})
    assert found.notes[1] == (
        f"device {device}: {name} names PrivateUse1"
        if device
        else "device spyre is assumed: no source names PrivateUse1; --device names another"
    )


@pytest.mark.parametrize("part", ['\\"', "/* ", '"', "//", "register_privateuse1_backend ", "\\"])
def test_what_is_never_closed_is_searched_once(tmp_path: Path, part: str) -> None:
    """A search that started anew at every sign would take hours."""
    text = part * (module.MOST_BYTES // len(part) - 10)
    assert made(tmp_path, {"a.cpp": f'"{text}\n{REGISTERS}'}).device


def test_several_names_are_noted_with_the_flag_that_decides(tmp_path: Path) -> None:
    calls = "rename_privateuse1_backend('b')\nrename_privateuse1_backend('a')"
    files = {"pyproject.toml": PYPROJECT + 'other = "torch_other:load"\n', "torch_spyre/a.py": calls}
    found = made(tmp_path, files)
    assert (found.package, found.device) == ("torch_spyre", "a")
    assert found.notes[0].endswith("(also torch_other: --package names another)")
    assert found.notes[1] == "device a is assumed: the sources name PrivateUse1 a, b; --device names another"
    asked = detect(tmp_path, device="b", package="torch_other")
    assert (asked.package, asked.device, asked.notes) == ("torch_other", "b", ())


def test_what_cannot_be_read_is_noted_or_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link.py").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "large.py").write_bytes(b" " * (module.MOST_BYTES + 1))
    monkeypatch.setattr(module, "MOST_FILES", 2)
    files = {"pyproject.toml": "[[", **{f"a{number}.py": "" for number in range(3)}}
    notes = made(tmp_path, files).notes
    assert notes[0] == "pyproject.toml is not valid TOML and was not used"
    assert notes[-1] == "only the first 2 source files were read"


@pytest.mark.parametrize(("flag", "name"), [("device", "Spyre"), ("device", ""), ("package", "a-b")])
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, flag: str, name: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag} is '{name}'") as caught:
        detect(tmp_path, **{flag: name})
    assert caught.value.remedy


@given(st.binary(), st.binary())
def test_no_file_makes_it_stumble(tmp_path_factory: pytest.TempPathFactory, one: bytes, two: bytes) -> None:
    folder = tmp_path_factory.mktemp("c")
    call = b"rename_privateuse1_backend register_privateuse1_backend "
    for name, data in {
        "a.py": call + one,
        "a.cpp": call + two,
        "pyproject.toml": two,
        "setup.py": one,
    }.items():
        (folder / name).write_bytes(data)
    assert detect(folder).device
