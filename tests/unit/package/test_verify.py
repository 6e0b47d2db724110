"""What verification says of artifacts, with one thing wrong about each."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from ci.core.errors import BadFileError, MissingInputError
from ci.core.findings import Finding
from ci.package.artifacts import Artifact, artifact, artifacts_in, contents_of
from ci.package.verify import contents, metadata
from tests.packages import make_sdist, make_wheel

ELF = b"\x7fELF"


def look(
    path: Path, *, toplevel: tuple[str, ...] = ("demo",), forbidden: tuple[str, ...] = ()
) -> list[Finding]:
    """Every check that needs no tool."""
    one = artifact(path)
    inside = contents_of(one)
    found = metadata.check_metadata(one, inside, project="demo", version=Version("1.0"))
    found += contents.check_contents(one, inside, toplevel=toplevel, forbidden=forbidden)
    return found + (metadata.check_tags(one, inside) if one.kind == "wheel" else [])


def failed(path: Path, **options: Any) -> dict[str, str]:
    return {one.check: one.seen for one in look(path, **options) if not one.passed}


def test_a_good_wheel_and_a_good_sdist_pass(tmp_path: Path) -> None:
    assert failed(make_wheel(tmp_path)) == {}
    assert failed(make_sdist(tmp_path)) == {}


@pytest.mark.parametrize(
    ("fields", "check", "seen"),
    [
        ({"License-Expression": None}, "licence", "no licence stated; LICENSE"),
        ({"License-File": None}, "licence", "Apache-2.0; no licence file"),
        ({"License-File": "COPYING"}, "licence", "Apache-2.0; not in it: COPYING"),
        ({"Requires-Dist": "torch @ https://example.org/torch.whl"}, "requirements", "torch is fetched from"),
        ({"Requires-Dist": "torch =>2"}, "requirements", "'torch =>2' is no requirement"),
        (
            {"Description": "", "Description-Content-Type": None},
            "description",
            "0 characters, no content type",
        ),
        ({"Description-Content-Type": None}, "description", "no content type"),
        ({"Version": "1.1"}, "name and version", "says demo 1.1"),
        ({"Version": "one"}, "name and version", "says demo one"),
        ({"Name": "other"}, "name and version", "says other 1.0"),
    ],
)
@pytest.mark.parametrize("make", [make_wheel, make_sdist])
def test_metadata_that_does_not_hold_is_named(
    tmp_path: Path, make: Any, fields: dict[str, str | None], check: str, seen: str
) -> None:
    path = make(tmp_path, fields=fields)
    found = failed(path)
    assert list(found) == [f"{'wheel' if path.suffix == '.whl' else 'sdist'} {check}"]
    assert seen in found.popitem()[1]


def test_a_licence_of_a_classifier_is_one(tmp_path: Path) -> None:
    fields = {"License-Expression": None, "Classifier": "License :: OSI Approved :: Apache Software License"}
    assert failed(make_wheel(tmp_path, fields=fields)) == {}


def test_another_version_than_the_one_wanted_is_said(tmp_path: Path) -> None:
    found = failed(make_wheel(tmp_path, version="1.1"))
    assert found == {"wheel name and version": "demo-1.1-py3-none-any.whl says demo 1.1"}


@pytest.mark.parametrize(
    "name",
    [
        "demo/.env",
        "demo/a.pyc",
        "demo/.git/config",
        "demo/__pycache__/a",
        "demo/id_rsa",
        "demo/k.pem",
        "demo/x.orig",
    ],
)
def test_files_that_must_not_be_packaged_are_named(tmp_path: Path, name: str) -> None:
    assert failed(make_wheel(tmp_path, files={"demo/__init__.py": "", name: "x"})) == {
        "wheel contents": f"must not be packaged: {name}"
    }
    assert "sdist contents" in failed(make_sdist(tmp_path, files={f"demo-1.0/{name}": "x"}))


@pytest.mark.parametrize("glob", ["*.bin", "demo/data/*", "data/*"])
def test_a_project_forbids_more(tmp_path: Path, glob: str) -> None:
    wheel = make_wheel(tmp_path, files={"demo/__init__.py": "", "demo/data/a.bin": "x"})
    assert "wheel contents" in failed(wheel, forbidden=(glob,))


@pytest.mark.parametrize(
    ("name", "top"), [("tests/test_a.py", "tests"), ("setup.py", "setup"), ("stray.so", "stray")]
)
def test_a_stray_top_level_package_is_named(tmp_path: Path, name: str, top: str) -> None:
    wheel = make_wheel(tmp_path, files={"demo/__init__.py": "", name: ""})
    assert failed(wheel).pop("wheel top level") == f"also installs {top}"
    assert "wheel top level" not in failed(wheel, toplevel=("demo", top))


def test_a_wheel_of_nothing_is_none(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"demo-1.0.data/scripts/x": ""})
    assert failed(wheel) == {"wheel top level": "installs nothing"}


def test_a_wheel_changed_by_hand_is_found(tmp_path: Path) -> None:
    import zipfile  # noqa: PLC0415

    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("demo/more.py", "")
    assert failed(wheel) == {"wheel RECORD": "demo/more.py is not in it"}
    assert failed(make_wheel(tmp_path / "none", record=False)) == {"wheel RECORD": "there is none"}


def test_a_wheel_whose_record_lies_is_found(tmp_path: Path) -> None:
    record = "demo/__init__.py,sha256=AAAA,1\ngone.py,sha256=AAAA,1\n"
    wheel = make_wheel(
        tmp_path, files={"demo/__init__.py": "x", "demo-1.0.dist-info/RECORD": record}, record=False
    )
    seen = failed(wheel)["wheel RECORD"]
    assert "demo/__init__.py has another hash" in seen
    assert "gone.py is not in the wheel" in seen


def tar_entry(name: str, kind: bytes, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, link, mode
    return entry


@pytest.mark.parametrize(
    ("entry", "seen"),
    [
        (tar_entry("demo-1.0/../x", tarfile.REGTYPE), "leads out of it"),
        (tar_entry("/etc/x", tarfile.REGTYPE), "leads out of it"),
        (tar_entry("other/x", tarfile.REGTYPE), "is not below demo-1.0/"),
        (tar_entry("demo-1.0/x", tarfile.SYMTYPE, "/etc/passwd"), "is a link to /etc/passwd"),
        (tar_entry("demo-1.0/x", tarfile.SYMTYPE, "../../y"), "is a link to ../../y"),
        (tar_entry("demo-1.0/x", tarfile.FIFOTYPE), "is no file"),
        (tar_entry("demo-1.0/x", tarfile.REGTYPE, mode=0o4755), "would run as its owner"),
        (tar_entry("demo-1.0/license", tarfile.REGTYPE), "are one file where case does not count"),
    ],
)
def test_an_archive_that_reaches_out_is_refused(tmp_path: Path, entry: tarfile.TarInfo, seen: str) -> None:
    assert seen in failed(make_sdist(tmp_path, files={"entry": entry}))["sdist paths"]


def test_a_link_within_an_sdist_is_fine(tmp_path: Path) -> None:
    entry = tar_entry("demo-1.0/demo/LICENSE", tarfile.SYMTYPE, "../LICENSE")
    assert failed(make_sdist(tmp_path, files={"entry": entry})) == {}


@pytest.mark.parametrize(
    ("options", "check", "seen"),
    [
        ({"tag": "cp311-cp311-linux_x86_64", "pure": False}, "wheel platform", "0 binaries"),
        ({"files": {"demo/_C.so": ELF}}, "wheel platform", "py3-none-any, 1 binaries"),
        ({"pure": False}, "wheel platform", "py3-none-any, 0 binaries"),
        ({"stated": "py2-none-any"}, "wheel tags", "the name says py3-none-any, WHEEL says py2-none-any"),
        (
            {
                "tag": "cp311-cp311-linux_x86_64",
                "pure": False,
                "files": {"demo/_C.cpython-312-x86_64-linux-gnu.so": ELF},
            },
            "wheel Python",
            "tagged cp311, binaries for cp312",
        ),
    ],
)
def test_tags_that_lie_are_found(tmp_path: Path, options: dict[str, Any], check: str, seen: str) -> None:
    found = failed(make_wheel(tmp_path, **options))
    assert list(found) == [check]
    assert seen in found[check]


@pytest.mark.parametrize("library", ["_C.so", "_C.cpython-311-x86_64-linux-gnu.so", "_C.abi3.so"])
def test_an_extension_with_its_tags_passes(tmp_path: Path, library: str) -> None:
    wheel = make_wheel(tmp_path, tag="cp311-cp311-linux_x86_64", pure=False, files={f"demo/{library}": ELF})
    assert failed(wheel) == {}


def linux(tmp_path: Path, platform: str, shown: dict[str, Any], *, wants: bool = False) -> Finding:
    one = artifact(make_wheel(tmp_path, tag=f"cp311-cp311-{platform}", pure=False, files={"demo/_C.so": ELF}))
    return metadata.check_linux(one, json.dumps(shown), excluded=["libtorch*.so*"], wants_manylinux=wants)


def test_what_auditwheel_sees_is_judged(tmp_path: Path) -> None:
    seen = {"sym_tag": "manylinux_2_34_x86_64", "external_libs": {"libtorch_cpu.so": None}}
    assert linux(tmp_path, "manylinux_2_34_x86_64", seen, wants=True).passed
    assert linux(tmp_path, "manylinux_2_35_x86_64", seen, wants=True).passed
    assert linux(tmp_path, "linux_x86_64", seen).passed
    plain = linux(tmp_path, "linux_x86_64", seen, wants=True)
    assert "the index takes manylinux alone" in plain.seen
    old = linux(tmp_path, "manylinux_2_28_x86_64", seen)
    assert "newer glibc" in old.remedy
    assert "newer glibc" in linux(tmp_path, "manylinux2014_x86_64", seen).remedy
    foreign = linux(tmp_path, "linux_x86_64", {**seen, "external_libs": {"libflux.so.1": "/x"}})
    assert foreign.seen == "links libflux.so.1, which it does not bring"


def test_a_large_file_is_said(tmp_path: Path) -> None:
    one = artifact(make_wheel(tmp_path))
    assert metadata.check_size(one, 100).passed
    assert "MiB, 0.0001 at most" in metadata.check_size(one, 0.0001).seen


def test_both_artifacts_are_wanted(tmp_path: Path) -> None:
    wheel = artifact(make_wheel(tmp_path))
    assert "there is no sdist" in metadata.check_together([wheel]).remedy
    assert metadata.check_together([wheel, artifact(make_sdist(tmp_path))]).passed


@pytest.mark.parametrize("name", ["demo.whl", "demo-1.0.tar.gz.tar.gz", "demo.tar.gz"])
def test_a_name_that_is_none_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(BadFileError, match=r"its name is not that|is damaged"):
        contents_of(artifact(tmp_path / name))


@pytest.mark.parametrize("name", ["demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz"])
def test_a_damaged_file_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 not at all")
    with pytest.raises(BadFileError, match="is damaged"):
        contents_of(artifact(tmp_path / name))


def test_another_projects_metadata_is_damage(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, name="other")
    wheel = wheel.rename(tmp_path / "demo-1.0-py3-none-any.whl")
    with pytest.raises(BadFileError, match=r"holds 'other-1\.0\.dist-info', which is another project's"):
        contents_of(artifact(wheel))


def test_a_folder_holds_one_release(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="neither an sdist nor a wheel"):
        artifacts_in(tmp_path)
    make_wheel(tmp_path)
    make_sdist(tmp_path)
    assert [one.kind for one in artifacts_in(tmp_path)] == ["sdist", "wheel"]
    make_wheel(tmp_path, version="1.1")
    with pytest.raises(BadFileError, match=r"more than one release are here: demo 1\.0, demo 1\.1"):
        artifacts_in(tmp_path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no such file"):
        artifact(tmp_path / "demo-1.0.tar.gz")


def test_an_artifact_knows_its_tags(tmp_path: Path) -> None:
    one: Artifact = artifact(make_wheel(tmp_path))
    assert one.platforms == {"any"}
    assert one.as_json() == {"name": one.filename, "sha256": one.sha256, "size": one.size}
