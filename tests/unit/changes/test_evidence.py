from __future__ import annotations

from pathlib import Path

import pytest

from ci.changes.evidence import find_evidence
from ci.changes.source_change import SourceChange
from test_selection.change import Evidence
from test_selection.op_map import make_op_map

TRACES = {
    "test_ops.py::T::a": ["aten::add.Tensor float32", "aten::mul.Tensor float32"],
    "test_ops.py::T::b": ["aten::exp float32", "aten::neg float32", "aten::sum int64"],
    "test_nn.py::T::c": [
        "aten::glu float32",
        "aten::addmm float32",
        "aten::cos float32",
        "torch/functional.py:norm",
    ],
    "test_nn.py::T::d": ["aten::sub.Tensor float32", "torch/functional.py:einsum", "torch/_tensor.py:cached"],
    "test_nn.py::T::e": ["torch/functional.py:table", "torch/functional.py:prepared"],
}
OP_MAP = make_op_map(TRACES, pytorch="2.13.0", device="spyre")
FILES = {
    "spyre/__init__.py": "from .registry import install\ninstall\n",
    "spyre/registry.py": """
KERNELS = {}
def impl(*names):
    def keep(function):
        KERNELS.update(dict.fromkeys(names, function))
        return function
    return keep
def install(library):
    for name, function in KERNELS.items():
        library.impl(name, function)
""",
    "spyre/kernels.py": '''
"""Kernels."""
import torch
from .helpers import widen as w, SCALE
from .registry import impl

@impl("aten::add.Tensor")
def add(a, b, *, alpha=1):
    """Add."""
    return w(a) + b * alpha  # as torch does

@impl("aten::mul.Tensor")
def mul(a, b):
    return w(a) * b

@impl("aten::exp")
def exp(x):
    return torch.exp(x) * SCALE

@impl("aten::neg")
def neg(x):
    return -x

def unused(x):
    return x
''',
    "spyre/helpers.py": """
SCALE = 1
def widen(x):
    return _really(x)
def _really(x):
    return x.float()
class Shape:
    def size(self):
        return 1
    def __init__(self):
        self.rank = 1
""",
    "spyre/tables.py": """
import torch
from spyre import helpers
aten = torch.ops.aten
def glu(x):
    return x / 2
def total(x):
    return helpers.Shape().size() + x
TABLE = {aten.glu: glu, aten.sum.dim_IntList: total}
TABLE["addmm"] = lambda x: helpers._really(x)
""",
    "spyre/late.py": """
from spyre.kernels import neg
def register(library):
    library.impl("sub.Tensor", subtract)
def subtract(a, b):
    return a + neg(b)
if __name__ == '__main__':
    print(1)
""",
    "spyre/lazy.py": """
from .registry import impl
@impl("aten::cos")
def cos(x):
    from .helpers import widen
    return widen(x)
""",
    "spyre/dynamic.py": """
def one(name):
    return globals()[f"kernel_{name}"]
def kernel_add(x):
    return x
""",
    "spyre/handed.py": "def mul(x):\n    return x\n",
    "spyre/hands.py": """
from spyre import handed
from spyre.registry import impl
def walk(module):
    return [getattr(module, name) for name in dir(module)]
ALL = walk(handed)
@impl("aten::mul.Scalar")
def by_number(x):
    return handed.mul(x)
""",
    "test/test_ops.py": "from common import check\n",
    "test/test_nn.py": "import helper_nn\n",
    "test/common.py": "import deeper\ndef check(): pass\n",
    "test/deeper.py": "X = 1\n",
    "test/helper_nn.py": "X = 1\n",
    "test/nobody.py": "X = 1\n",
    "torch/functional.py": """
import functools
LIMIT = 3
def norm(x):
    return x
def einsum(x):
    return x
@functools.lru_cache
def table(x):
    return x
class Layer:
    def run(self):
        return 1
def prepared():
    return 1
def at_import():
    return 2
READY = [prepared()]
""",
    "torch/_tensor.py": "def cached():\n    return 1\n",
    "torch/unseen.py": "def f():\n    return 1\n",
    "README.md": "words\n",
    "docs/conf.py": "x = 1\n",
    "csrc/add.cpp": "int x;\n",
    "setup.py": "setup()\n",
    "pyproject.toml": "[project]\n",
    "spyre-ci.yaml": "stage: 1\n",
    "requirements.txt": "torch\n",
    "tests/test_own.py": "def test(): pass\n",
}


class Edit(SourceChange):
    """A change of FILES: what each text becomes, by file; None removes the file."""

    def __init__(self, edits: dict[str, tuple[str, str] | str | None]) -> None:
        super().__init__(folder=Path(), base="base", head="head", words="", files=tuple(edits))
        object.__setattr__(self, "edits", edits)

    def python_files(self, tree: str, below: str = "") -> dict[str, bytes]:
        files = dict(FILES)
        for path, edit in self.__dict__["edits"].items() if tree == "head" else ():
            if isinstance(edit, tuple):
                assert edit[0] in files[path], edit
                files[path] = files[path].replace(*edit)
            elif edit is None:
                del files[path]
            else:
                files[path] = edit
        wanted = (path for path in files if path == below or path.startswith(f"{below}/") or not below)
        return {path: files[path].encode() for path in wanted if path.endswith(".py")}


def evidence_of(edit: Edit) -> Evidence:
    return find_evidence(
        edit,
        OP_MAP,
        tests="test",
        test_files=["test_ops.py", "test_nn.py"],
        docs=["docs/**", "**/*.md"],
    )


KERNELS, HELPERS, TABLES = "spyre/kernels.py", "spyre/helpers.py", "spyre/tables.py"
KNOWN: dict[str, tuple[dict[str, tuple[str, str] | str | None], dict[str, set[str]]]] = {
    "an empty diff": ({}, {}),
    "a comment": ({KERNELS: ("# as torch does", "# otherwise")}, {}),
    "a docstring": ({KERNELS: ('"""Add."""', '"""Sum."""')}, {}),
    "blank lines and quotes": ({KERNELS: ('"aten::neg"', "\n    'aten::neg'\n")}, {}),
    "documents": ({"README.md": "other\n", "docs/a.rst": "x = 2\n"}, {}),
    "a back end's own test": ({"tests/test_own.py": "def test(): assert 0\n"}, {}),
    "a main block": ({"spyre/late.py": ("print(1)", "print(2)")}, {}),
    "one kernel": ({KERNELS: ("* alpha", "* alpha * 2")}, {"ops": {"add"}}),
    "two ops at once": (
        {KERNELS: ("* SCALE", "/ SCALE"), TABLES: ("x / 2", "x / 3")},
        {"ops": {"exp", "glu"}},
    ),
    "a kernel that another one calls": ({KERNELS: ("-x", "x")}, {"ops": {"neg", "sub"}}),
    "a renamed function": ({KERNELS: ("def exp(", "def exponential(")}, {"ops": {"exp"}}),
    "a new overload of a kernel": (
        {KERNELS: ('"aten::mul.Tensor"', '"aten::mul.Tensor", "aten::mul.Scalar"')},
        {"ops": {"mul"}},
    ),
    "a decorator that goes": ({KERNELS: ('@impl("aten::neg")', "")}, {"ops": {"neg", "sub"}}),
    "a shared helper": ({HELPERS: ("return _really(x)", "return x")}, {"ops": {"add", "mul", "cos"}}),
    "a helper's helper": ({HELPERS: ("x.float()", "x.double()")}, {"ops": {"add", "mul", "addmm", "cos"}}),
    "a constant": ({HELPERS: ("SCALE = 1", "SCALE = 2")}, {"ops": {"exp"}}),
    "a method": ({HELPERS: ("return 1", "return 2")}, {"ops": {"sum"}}),
    "how an object is made": ({HELPERS: ("self.rank = 1", "self.rank = 2")}, {"ops": {"sum"}}),
    "an import of another name": (
        {KERNELS: ("import widen as w", "import _really as w")},
        {"ops": {"add", "mul"}},
    ),
    "an import within a function": (
        {"spyre/lazy.py": ("from .helpers import widen", "from .helpers import _really as widen")},
        {"ops": {"cos"}},
    ),
    "an entry of a table": ({TABLES: ("aten.glu: glu", "aten.glu: total")}, {"ops": {"glu"}}),
    "an entry that is set": ({TABLES: ("_really(x)", "widen(x)")}, {"ops": {"addmm"}}),
    "a registration in a function": ({"spyre/late.py": ("a + neg(b)", "a - b")}, {"ops": {"sub"}}),
    "a removed module": ({"spyre/late.py": None}, {"ops": {"sub"}}),
    "a test file": ({"test/test_ops.py": "x = 1\n"}, {"files": {"test_ops.py"}}),
    "a helper of tests": ({"test/common.py": "x = 1\n"}, {"helpers": {"test_ops.py"}}),
    "what a helper imports": ({"test/deeper.py": "x = 2\n"}, {"helpers": {"test_ops.py"}}),
    "a function of torch": (
        {"torch/functional.py": ("def norm(x):\n    return x", "def norm(x):\n    return -x")},
        {"functions": {"torch/functional.py:norm"}},
    ),
    "a constant of torch": (
        {"torch/functional.py": ("LIMIT = 3", "LIMIT = 4")},
        {"functions": {"torch/functional.py:*"}},
    ),
    "a cached function of torch": (
        {"torch/functional.py": ("def table(x):\n    return x", "def table(x):\n    return -x")},
        {"functions": {"torch/functional.py:*"}},
    ),
    "a function of torch that a table is made with": (
        {"torch/functional.py": ("def prepared():\n    return 1", "def prepared():\n    return 7")},
        {"functions": {"torch/functional.py:*"}},
    ),
    "a function of torch that no test calls": (
        {"torch/functional.py": ("return 2", "return 7")},
        {"functions": {"torch/functional.py:*"}},
    ),
    "an import of torch": (
        {"torch/functional.py": ("import functools", "import functools, sys")},
        {"functions": {"torch/functional.py:*"}},
    ),
}
EVERYTHING: dict[str, tuple[dict[str, tuple[str, str] | str | None], str]] = {
    "C++": ({"csrc/add.cpp": "int y;\n"}, "csrc/add.cpp is no Python source"),
    "a build file": ({"setup.py": "setup(1)\n"}, "setup.py decides how tests are built or run"),
    "the project's file": ({"pyproject.toml": "x\n"}, "pyproject.toml is no Python source"),
    "requirements": ({"requirements.txt": "x\n"}, "requirements.txt is no Python source"),
    "settings": ({"spyre-ci.yaml": "stage: 2\n"}, "spyre-ci.yaml is no Python source"),
    "a file that does not parse": ({KERNELS: "def (:\n"}, f"{KERNELS} does not parse"),
    "a file with null bytes": ({KERNELS: "x = 1\0\n"}, f"{KERNELS} does not parse"),
    "a helper that nothing uses": (
        {KERNELS: ("return x\n", "return x + 1\n")},
        f"unused of {KERNELS} is used by nothing",
    ),
    "what is looked up by a made name": (
        {"spyre/dynamic.py": ("return x", "return -x")},
        "kernel_add of spyre/dynamic.py",
    ),
    "a program among documents": ({"docs/conf.py": "x = 2\n"}, "x of docs/conf.py is used by nothing"),
    "what a module that is handed on holds": (
        {"spyre/handed.py": ("return x", "return -x")},
        "mul of spyre/handed.py",
    ),
    "how kernels are installed": (
        {"spyre/registry.py": ("library.impl(name, function)", "library.impl(name, print)")},
        "install of spyre/registry.py",
    ),
    "a statement at import": (
        {"spyre/__init__.py": "from .registry import install\ninstall(1)\n"},
        "a statement of spyre/__init__.py",
    ),
    "all names of a module": (
        {KERNELS: ("import torch\n", "import torch\nfrom .helpers import *\n")},
        "imports all",
    ),
    "a kernel that no test calls": (
        {"spyre/new.py": 'from .registry import impl\n@impl("aten::erfc")\ndef erfc(x):\n    return x\n'},
        "no test is known to call erfc",
    ),
    "a helper of tests that none imports": (
        {"test/nobody.py": "X = 2\n"},
        "no test file is known to import test/nobody.py",
    ),
    "a file of torch without traces": (
        {"torch/unseen.py": "def f():\n    return 2\n"},
        "torch/unseen.py has no function",
    ),
    "a file of torch that goes": (
        {"torch/_tensor.py": None},
        "torch/_tensor.py is new, gone, or does not parse",
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_change_names_what_it_can_break(name: str) -> None:
    edits, expected = KNOWN[name]
    found = evidence_of(Edit(edits))

    assert found.everything == []
    named = {"files": found.files, "helpers": found.helpers, "ops": found.ops, "functions": found.functions}
    assert {key: set(value) for key, value in named.items() if value} == expected


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_change_that_cannot_be_resolved_may_break_any_test(name: str) -> None:
    edits, reason = EVERYTHING[name]

    assert reason in " · ".join(evidence_of(Edit(edits)).everything)
