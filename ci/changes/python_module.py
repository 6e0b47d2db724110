"""The parts of a Python module, the ops that each registers, and the names that each uses. Pure.

A part is a function, a class without its methods, a method, or a name that is assigned at module level. What
a registration binds together (a call, an entry of a table) is a group: the ops that it names, and the parts
that serve them.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from test_selection.op_map import family

Function = ast.FunctionDef | ast.AsyncFunctionDef
_OP = re.compile(r"(?:\w+::)?\w+(?:\.\w+)?")
# A call of such a name registers; of others, only one at module level whose op is no mere word.
_REGISTERS = re.compile(r"_?impl|_?register\w*", re.IGNORECASE)
# A decorator of such a name registers; where it names no op, nobody knows what the function serves.
_DECORATES = re.compile(r"impl|register|registry|lower|decomp", re.IGNORECASE)
# By these any name of a module can be looked up.
_LOOK_UP = {"globals", "vars", "locals", "eval", "exec", "__import__"}
_NOT_RUN = {"TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'"}

# A name that a part uses, as it is written: `("helpers", "widen")`; `("", "scale")` of an unknown object.
Use = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """What a registration binds together.

    Attributes:
        ops: families of the ops that it names.
        uses: what serves them.
        text: its syntax.
    """

    ops: frozenset[str]
    uses: frozenset[Use]
    text: tuple[str, ...]


@dataclass(slots=True)
class Part:
    """A part of a module.

    Attributes:
        text: its syntax, without comments and docstrings, and the branch that it lies in: two parts of one
            text do the same.
        ops: families of the ops that it registers for itself.
        uses: what it uses, outside of registrations.
        groups: its registrations.
        runs: True if more may depend on it than what uses it: a statement that runs at import, or what
            changes another module.
    """

    text: str = ""
    ops: set[str] = field(default_factory=set)
    uses: set[Use] = field(default_factory=set)
    groups: list[Group] = field(default_factory=list)
    runs: bool = False

    @property
    def rest(self) -> str:
        """Its syntax without its registrations."""
        rest = self.text
        for text in (one for group in self.groups for one in group.text):
            rest = rest.replace(text, "", 1)
        return rest.replace(", ", "")


@dataclass(slots=True)
class Module:
    """A module.

    Attributes:
        parts: by name, such as `add` or `Kernel.run`, also of what is imported; a statement without a name,
            by its text.
        imports: by name here, also within functions, what it may stand for in other modules, as paths:
            `("helpers", "widen")`; a relative one begins with as many empty names as it has dots.
        stars: modules that all is imported from.
        dynamic: True if names of this module are looked up by text that is made when it runs.
    """

    parts: dict[str, Part] = field(default_factory=dict)
    imports: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    stars: set[tuple[str, ...]] = field(default_factory=set)
    dynamic: bool = False


def read_module(source: bytes, known: Callable[[str], bool] | None) -> Module:
    """Read a module's imports and parts.

    Args:
        source: its text, in the encoding that it declares.
        known: True for the family of an op that a registration may name without a namespace; None: no parts
            are read.

    Raises:
        SyntaxError: it cannot be parsed.
        ValueError: it contains null bytes.
    """
    module, tree = Module(), ast.parse(source)
    for node in ast.walk(tree):
        _import(module, node)
    if known is not None:
        _Reader(module, known).read(tree.body)
    return module


def _import(module: Module, node: ast.AST) -> None:
    if isinstance(node, ast.Import):
        for one in node.names:
            path = tuple(one.name.split("."))
            # `import a.b` makes the name `a`, and imports `a.b` besides.
            targets = {path} if one.asname else {path, path[:1]}
            module.imports.setdefault(one.asname or path[0], set()).update(targets)
    elif isinstance(node, ast.ImportFrom):
        start = ("",) * node.level + tuple(filter(None, (node.module or "").split(".")))
        for one in node.names:
            if one.name == "*":
                module.stars.add(start)
            else:
                module.imports.setdefault(one.asname or one.name, set()).add((*start, one.name))


class _Reader:
    def __init__(self, module: Module, known: Callable[[str], bool]) -> None:
        self._module, self._known = module, known
        self._where = ""

    def read(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(node, node.name, set())
                case ast.ClassDef():
                    self._class(node)
                case ast.Import() | ast.ImportFrom():
                    for one in node.names:
                        alone = copy.copy(node)
                        alone.names = [one]
                        self._add(one.asname or one.name.partition(".")[0], alone)
                case ast.If() | ast.With() | ast.Try():
                    self._block(node)
                case _ if not _is_text(node):
                    names = _assigned(node)
                    for name in names or [ast.dump(node)]:
                        self._add(name, node).runs |= not names

    def _block(self, node: ast.If | ast.With | ast.Try) -> None:
        match node:
            case ast.If() if ast.unparse(node.test) in _NOT_RUN:
                self._branches([], [[], node.orelse])
            case ast.If():
                self._branches([node.test], [node.body, node.orelse])
            case ast.With():
                self._branches([one.context_expr for one in node.items], [node.body])
            case ast.Try():
                caught = [one.type for one in node.handlers if one.type is not None]
                handlers = (one.body for one in node.handlers)
                self._branches(caught, [node.body, *handlers, node.orelse, node.finalbody])

    def _branches(self, heads: Sequence[ast.expr], bodies: Sequence[Iterable[ast.stmt]]) -> None:
        """What runs in one of several cases; its parts are others when it is another case."""
        for one in heads:
            self._add(ast.dump(one), one).runs = True
        outer = self._where
        for number, body in enumerate(bodies):
            self._where = f"{outer}{number}{''.join(map(ast.dump, heads))}"
            self.read(body)
        self._where = outer

    def _function(self, node: Function, name: str, of_class: set[str]) -> None:
        decorators = node.decorator_list
        registers = [one for one in decorators if _DECORATES.search(ast.unparse(one))]
        ops = set().union(*map(self._ops, decorators)) | of_class
        if registers and not any(isinstance(one, ast.Call) for one in decorators):
            ops |= {family(node.name)} if self._known(family(node.name)) else set()
        starred = any(isinstance(inner, ast.Starred) for one in decorators for inner in ast.walk(one))
        # Nobody calls it by its name, so that each is of its own.
        unnamed = node.name == "_"
        part = self._add(ast.dump(node) if unnamed else name, node)
        part.ops |= set() if starred else ops
        part.runs |= unnamed or starred or (bool(registers) and not ops)

    def _class(self, node: ast.ClassDef) -> None:
        body = [one for one in node.body if not _is_text(one)]
        rest = [one for one in body if not isinstance(one, Function)]
        # A word that an attribute is may have the name of an op.
        named = {
            family(name) for one in rest for inner in ast.walk(one) if "::" in (name := _op_of(inner) or "")
        }
        ops = named.union(*map(self._ops, node.decorator_list))
        head = ast.ClassDef(node.name, node.bases, node.keywords, rest or [ast.Pass()], node.decorator_list)
        self._add(node.name, head).ops |= ops
        for one in body:
            if isinstance(one, Function):
                self._function(one, f"{node.name}.{one.name}", ops)

    def _add(self, name: str, node: ast.AST) -> Part:
        part = self._module.parts.setdefault(name, Part())
        part.text += _dump(node) + self._where
        _Walker(self._module, part, self._ops).visit(node)
        return part

    def _ops(self, node: ast.AST) -> set[str]:
        """The families of the ops that a registration names: `"add.Tensor"`, `aten.add`, `"aten::add"`."""
        return {
            family(name)
            for one in ast.walk(node)
            if (name := _op_of(one)) and ("::" in name or self._known(family(name)))
        }


class _Walker(ast.NodeVisitor):
    """Notes what a part uses and registers."""

    def __init__(self, module: Module, part: Part, ops: Callable[[ast.AST], set[str]]) -> None:
        self._module, self._part, self._ops = module, part, ops
        self._in_function = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._in_function += 1
        self.generic_visit(node)
        self._in_function -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815  # as ast wants it
    visit_Lambda = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815  # the same

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and self._at_import([target.slice], [node.value]):
            self.visit(target.value)
        else:
            self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None or not self._at_import([key], [value]):
                self.generic_visit(ast.Tuple([one for one in (key, value) if one is not None]))

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if not self._at_import(node.elts, node.elts):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        if called == "getattr" and len(node.args) > 1:
            self._looked_up(node.args[1])
        words = [*node.args, *(one.value for one in node.keywords)]
        simple = [one for one in words if not isinstance(one, ast.Dict | ast.List | ast.Tuple)]
        registers = _REGISTERS.fullmatch(called.rpartition(".")[2]) or (
            not self._in_function and any("::" in (_op_of(one) or "") for one in simple)
        )
        if registers and self._group(simple, simple):
            self.visit(node.func)
            for one in words:
                if one not in simple:
                    self.visit(one)
        else:
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if ast.unparse(node.value) in {"globals()", "vars()"} and isinstance(node.slice, ast.Constant):
            self._looked_up(node.slice)
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._part.uses.add((node.id,))
        self._module.dynamic |= node.id in _LOOK_UP

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = _path_of(node)
        self._part.uses.update(("", one) for one in (path or (node.attr, node.attr))[1:])
        if path is not None:
            self._part.uses.add(path)  # not its first name by itself: a module that is handed on shows so
            # What is set on a module or a class of others is seen by all that use these.
            self._part.runs |= isinstance(node.ctx, ast.Store) and path[0] in self._module.imports
        else:
            self.generic_visit(node)

    def _looked_up(self, name: ast.expr) -> None:
        if isinstance(name, ast.Constant):
            self._part.uses.update([(str(name.value),), ("", str(name.value))])
        else:
            self._module.dynamic = True

    def _at_import(self, named: Sequence[ast.expr], serving: Sequence[ast.expr]) -> bool:
        return not self._in_function and self._group(named, serving)

    def _group(self, named: Sequence[ast.expr], serving: Sequence[ast.expr]) -> bool:
        """Note a registration; False where this names no op, or nothing that serves it."""
        ops = set().union(*(self._ops(one) for one in named))
        # Which ops a list of other names has cannot be told here.
        if not ops or any(isinstance(one, ast.Starred) for one in named):
            return False
        found = Part()
        for one in serving:
            if _op_of(one) is None:
                _Walker(self._module, found, self._ops).visit(one)
        # A word among the arguments, such as a mode, may have the name of an op.
        uses = found.uses.union(*(one.uses for one in found.groups))
        if not uses:
            return False
        text = tuple(dict.fromkeys(map(ast.dump, (*named, *serving))))
        self._part.groups.append(Group(frozenset(ops), frozenset(uses), text))
        self._part.groups.extend(found.groups)
        return True


def _op_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if _OP.fullmatch(node.value) else None
    if isinstance(node, ast.Attribute) and (path := _path_of(node)) and "aten" in path[:-1]:
        return f"aten::{path[path.index('aten') + 1]}"
    return None


def _path_of(node: ast.expr) -> tuple[str, ...] | None:
    """`a.b.c` as its names; None for an attribute of anything but a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else None


def _assigned(node: ast.stmt) -> list[str]:
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [one.id for one in targets if isinstance(one, ast.Name)]
    return names if len(names) == len(targets) else []


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _dump(node: ast.AST) -> str:
    """The syntax of a node without docstrings."""
    for one in ast.walk(node):
        if isinstance(one, Function | ast.ClassDef):
            one.body = [statement for statement in one.body if not _is_text(statement)] or [ast.Pass()]
    return ast.dump(node)
