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
    "test_nn.py::T::e": [
        "torch/functional.py:table",
        "torch/functional.py:prepared",
        "torch/functional.py:listed",
    ],
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
def listed():
    return 3
READY = [prepared()]
SAMPLES = [listed]
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
                files.pop(path, None)
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
    "a removed module": ({"spyre/lazy.py": None}, {"ops": {"cos"}}),
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
    "a function of torch that a table has": (
        {"torch/functional.py": ("return 3", "return 8")},
        {"functions": {"torch/functional.py:listed"}},
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


# A further module of the back end; what of it changes, or `widen` of the helpers; and the ops that are named
# at least, or that it is everything.
Shapes = dict[str, tuple[str, tuple[str, str] | None, set[str] | None]]
SHAPES: Shapes = {
    "another module's import is chosen": (
        """
try:
    from .helpers import widen
except ImportError:
    from .slow import widen
@impl("aten::sub")
def sub(a): return widen(a)
""",
        None,
        {"sub"},
    ),
    "a name that is none where an import fails": (
        """
try:
    from .helpers import widen
except ImportError:
    widen = None
@impl("aten::sub")
def sub(a): return widen(a)
""",
        None,
        {"sub"},
    ),
    "an import in a loop": (
        """
for _ in [1]:
    from .helpers import widen
@impl("aten::sub")
def sub(a): return widen(a)
""",
        None,
        {"sub"},
    ),
    "a module with a mark of its encoding": (
        """\ufeff
from .helpers import widen
@impl("aten::sub")
def sub(a): return widen(a)
""",
        None,
        {"sub"},
    ),
    "a mode that has an op's name": (
        """
def reduce(x, mode): return x
TABLE = {"aten::glu": functools.partial(reduce, mode="sum")}
""",
        ("return x", "return -x"),
        {"glu"},
    ),
    "a mode within a lambda": (
        """
def w(x): return x
TABLE = {"aten::glu": lambda x: reduce(w(x), "sum")}
""",
        ("return x", "return -x"),
        {"glu"},
    ),
    "a function whose name ends like a registration": (
        """
def w(x): return x
@impl("aten::sub")
def sub(x): return _div_impl(w(x), mode="sum")
""",
        ("return x", "return -x"),
        {"sub"},
    ),
    "a call at import that has a mode": ("install(LIB, mode='sum')\n", ("LIB", "OTHER"), None),
    "a table that a kernel looks up": (
        """
def total(x): return x
REDUCE = {"sum": total, "exp": total}
@impl("aten::sub")
def sub(x, k): return REDUCE[k](x)
""",
        ("return x", "return -x"),
        {"sub", "sum", "exp"},
    ),
    "an entry of a table that a kernel looks up": (
        """
def total(x): return x
REDUCE = {"sum": total, "exp": total}
@impl("aten::sub")
def sub(x, k): return REDUCE[k](x)
""",
        ('"sum": total', '"sum": other'),
        {"sub", "sum"},
    ),
    "an entry whose key is no op": (
        "def a(x): return x\ndef b(x): return -x\nT = {'sub': a, 'glu': b, 'unknown': a}\n",
        ("'unknown': a", "'unknown': b"),
        None,
    ),
    "an op that the decorator names by a constant": (
        """
@impl(Ops.GLU)
def glu(x): return x
@impl("aten::sub")
def sub(x): return glu(x)
""",
        ("return x", "return -x"),
        None,
    ),
    "ops that the decorator has from a list": (
        "MORE = ['aten::sub']\n@impl('aten::add', *MORE)\ndef k(x): return x\n",
        ("return x", "return -x"),
        None,
    ),
    "a list of ops": (
        "MORE = ['aten::sub']\n@impl('aten::add', *MORE)\ndef k(x): return x\n",
        ("['aten::sub']", "['aten::glu']"),
        None,
    ),
    "a function of torch that the decorator names": (
        "@implements(torch.sub)\n@implements(torch.add)\ndef add(x): return x\n",
        ("return x", "return -x"),
        None,
    ),
    "a cached function with an op's name": (
        "@functools.cache\ndef sum(): return 1\n",
        ("return 1", "return 2"),
        None,
    ),
    "an attribute that has an op's name": (
        "class Backend:\n    reduce = 'sum'\n    def go(self): return 1\n",
        ("return 1", "return 2"),
        None,
    ),
    "what is registered besides": (
        """
def load(lib):
    lib.impl("sub", sub)
    for name, f in TABLE.items():
        lib.impl(name, f)
def sub(a): return a
""",
        ("lib.impl(name, f)", "lib.impl(name, print)"),
        None,
    ),
    "a loop's name that another function has too": (
        """
def generic(x): return x
for op in NAMES:
    lib.impl(op, generic)
@impl("aten::sub")
def sub(x):
    op = x
    return op
""",
        ("return x", "return -x"),
        None,
    ),
    "a loop that registers and does more": (
        "for d in TYPES:\n    lib.impl('sub', f)\n    patch(d)\n",
        ("patch(d)", "patch(d, 1)"),
        None,
    ),
    "a method of a class that others derive from": (
        """
class Base:
    def run(self, x): return x
class Add(Base):
    op = "aten::add"
class Sub(Base):
    op = "aten::sub"
@impl("aten::glu")
def glu(x): return x.run(1)
""",
        ("return x\n", "return -x\n"),
        {"add", "sub"},
    ),
    "a method that torch calls": (
        """
class Mine(Kernel):
    def load(self, name): return name
register_backend("spyre", Mine)
@impl("aten::sub")
def sub(x): return json.load(x)
""",
        ("return name", "return 1"),
        None,
    ),
    "a property on the way to another": (
        """
class S:
    @property
    def layout(self): return 1
@impl("aten::sub")
def sub(x: S): return x.layout.strides
""",
        ("return 1", "return 2"),
        {"sub"},
    ),
    "what is not only for checkers of types": (
        """
if TYPE_CHECKING:
    X = int
else:
    X = 1
@impl("aten::sub")
def sub(x): return X
""",
        ("X = 1", "X = 2"),
        {"sub"},
    ),
    "the exception that an import may raise": (
        """
try:
    import fast
except ImportError:
    fast = None
@impl("aten::sub")
def sub(x): return fast
""",
        ("ImportError", "OSError"),
        None,
    ),
    "another branch": (
        """
if A:
    X = 1
    Y = 1
else:
    Z = 1
@impl("aten::sub")
def sub(x): return X
""",
        ("    X = 1\n    Y = 1\nelse:", "    Y = 1\nelse:\n    X = 1"),
        {"sub"},
    ),
    "another order": (
        "lib.impl('sub', a)\nlib.impl('glu', b)\n",
        ("lib.impl('sub', a)\nlib.impl('glu', b)", "lib.impl('glu', b)\nlib.impl('sub', a)"),
        None,
    ),
    "all names at once": (
        """
def mul(x): return x
@impl("aten::sub")
def sub(x): return mul(x)
for name, f in list(globals().items()):
    lib.impl(name, f)
""",
        ("return x", "return -x"),
        None,
    ),
    "functions without a name": (
        """
@functools.singledispatch
def w(x): return x
@w.register
def _(x: int): return x + 5
@impl("aten::sub")
def sub(x):
    a, _ = w(x)
""",
        ("x + 5", "x + 6"),
        None,
    ),
    "what is set on torch": (
        """
import torch
def to(x): return x
def prepare():
    torch.Tensor.to = to
@impl("aten::sub")
def sub(x): prepare()
""",
        ("return x", "return -x"),
        None,
    ),
}
# Files besides, edits, and the ops, or that it is everything.
LAYOUTS: dict[str, tuple[dict[str, str], dict[str, tuple[str, str] | str | None], set[str] | None]] = {
    "an import for its effect": (
        {"spyre/__init__.py": "from . import kernels\nfrom .registry import install\ninstall()\n"},
        {"spyre/__init__.py": ("from . import kernels\n", "")},
        None,
    ),
    "one of two modules of a package": (
        {"spyre/__init__.py": "import spyre.kernels\nimport spyre.registry\n"},
        {"spyre/__init__.py": ("import spyre.kernels\n", "")},
        None,
    ),
    "a name that a package hands on": (
        {
            "spyre/__init__.py": "from .helpers import widen\n",
            "spyre/k2.py": "from spyre import widen\n@impl('aten::sub')\ndef sub(a): return widen(a)\n",
        },
        {"spyre/__init__.py": ("import widen", "import _really as widen")},
        {"sub"},
    ),
    "a folder without __init__": (
        {
            "spyre/ns/x.py": "def w(x): return x\n",
            "spyre/k2.py": "from .ns.x import w\n@impl('aten::sub')\ndef sub(x): return w(x)\n",
        },
        {"spyre/ns/x.py": ("return x", "return -x")},
        {"sub"},
    ),
    "a folder of source that is a package too": (
        {
            "src/__init__.py": "",
            "src/pk/h.py": "def w(x): return x\n",
            "src/pk/k.py": "from pk.h import w\n@impl('aten::sub')\ndef sub(x): return w(x)\n",
        },
        {"src/pk/h.py": ("return x", "return -x")},
        {"sub"},
    ),
    "two modules of one name": (
        {"vendor/spyre/__init__.py": "", "vendor/spyre/helpers.py": "def widen(x): return 1\n"},
        {HELPERS: ("return _really(x)", "return x")},
        {"add", "mul"},
    ),
    "a package that appears": ({}, {"spyre/sub/__init__.py": ""}, None),
    "a package that goes": ({"spyre/sub/__init__.py": ""}, {"spyre/sub/__init__.py": None}, None),
    "a link": ({}, {"spyre/link.py": None}, None),
}


@pytest.mark.parametrize("name", SHAPES)
def test_no_op_of_a_module_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, edit, ops = SHAPES[name]
    monkeypatch.setitem(FILES, "spyre/k2.py", text)
    found = evidence_of(Edit({"spyre/k2.py": edit} if edit else {HELPERS: ("return _really(x)", "return x")}))

    assert found.everything if ops is None else not found.everything
    assert found.ops.keys() >= (ops or set())


@pytest.mark.parametrize("name", LAYOUTS)
def test_no_module_of_a_package_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files, edits, ops = LAYOUTS[name]
    for path, text in files.items():
        monkeypatch.setitem(FILES, path, text)
    found = evidence_of(Edit(edits))

    assert found.everything if ops is None else not found.everything
    assert found.ops.keys() >= (ops or set())


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
