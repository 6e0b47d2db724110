"""A catalog of a million tests, in a process of its own so that its memory can be told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
MAX_BYTES = 2.5e9
SCRIPT = """
import json, sys
from pathlib import Path
from test_selection.catalog import Catalog, CatalogTest, FileRecord
from test_selection.catalog import read_catalog, write_catalog
from tests.peak import peak_bytes

def test(i):
    file, cls = f"folder/test_file_{i % 900}.py", f"TestClass{i % 3000}"
    template = f"test_template_{i % 7000}"
    op = f"nn.functional.op{i % 600}"
    name = f"{file}::{cls}::{template}[dtype=float32,op={op},variant={i}]"
    node = f"{file}::{cls}PRIVATEUSE1::{template}_{i}_spyre_float32"
    more = {"file": file, "cls": cls, "template": template, "op": op, "dtype": "float32"}
    return CatalogTest(id=name, node=node, **more)

path = Path(sys.argv[1])
files = {f"folder/test_file_{i}.py": FileRecord(collect_s=1.0) for i in range(900)}
tests = [test(i) for i in range(10**6)]
write_catalog(path, Catalog(pytorch="2.13.0", device="spyre", files=files, tests=tests))
del tests
catalog = read_catalog(path)
peak = peak_bytes()
print(json.dumps({"tests": len(catalog.tests), "last": catalog.tests[-1].id, "peak": peak}))
"""


def test_a_million_tests_are_written_and_read_whole_within_their_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "catalog.jsonl.gz")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    said = json.loads(done.stdout)
    assert said["tests"] == 10**6
    assert said["last"].endswith("variant=999999]")
    assert said["peak"] < MAX_BYTES
