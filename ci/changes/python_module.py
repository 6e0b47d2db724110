"""The parts of a Python module, the ops that each registers, and the names that each uses. Pure.

A part is a function, a class without its methods, a method, or a name that is assigned at module level. What
a registration binds together (a call, an entry of a table) is a group: the ops that it names, and the parts
that serve them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from test_selection.op_map import family

Function = ast.FunctionDef | ast.AsyncFunctionDef
_OP = re.compile(r"(?:\w+::)?\w+(?:\.\w+)?")
# In a function, only a call of such a name registers.
_REGISTERS = re.compile(r"impl|register", re.IGNORECASE)
# Statements at module level that run nothing but what they contain.
_BLOCKS = (ast.If, ast.Try, ast.With)


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
        text: its syntax, without comments and docstrings: two parts of one text do the same.
        ops: families of the ops that it registers for itself.
        uses: what it uses, outside of registrations.
        groups: its registrations.
        runs: True for a statement that runs when the module is imported.
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
            rest = rest.replace(text, "")
        return rest.replace(", ", "")


@dataclass(slots=True)
class Module:
    """A module.

    Attributes:
        parts: by name, such as `add` or `Kernel.run`; a statement without a name, by its text.
        imports: by name here, also within functions, what it may stand for in other modules, as paths:
            `("helpers", "widen")`; a relative one begins with as many empty names as it has dots.
        stars: modules that all is imported from.
        dynamic: True if names of this module are looked up by text that is made when it runs.
    """

    parts: dict[str, Part] = field(default_factory=dict)
    imports: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    stars: set[tuple[str, ...]] = field(default_factory=set)
    dynamic: bool = False


def read_module(text: str, known: Callable[[str], bool] | None) -> Module:
    """Read a module's imports and parts.

    Args:
        text: its source.
        known: True for the family of an op that a registration may name without a namespace; None: no parts
            are read.

    Raises:
        SyntaxError: it cannot be parsed.
        ValueError: it contains null bytes.
    """
    module, tree = Module(), ast.parse(text)
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

    def read(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, Function):
                self._function(node, node.name, set())
            elif isinstance(node, ast.ClassDef):
                self._class(node)
            elif isinstance(node, _BLOCKS):
                self._block(node)
            elif not (_is_text(node) or isinstance(node, ast.Import | ast.ImportFrom)):
                names = _assigned(node)
                for name in names or [ast.dump(node)]:
                    self._add(name, node).runs = not names

    def _block(self, node: ast.If | ast.Try | ast.With) -> None:
        head = [node.test] if isinstance(node, ast.If) else []
        if isinstance(node, ast.With):
            head = [one.context_expr for one in node.items]
        if head and ast.unparse(head[0]) in {
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
            "__name__ == '__main__'",
        }:
            return
        for one in head:
            self._add(ast.dump(one), one).runs = True
        self.read(node.body)
        if isinstance(node, ast.Try):
            self.read(statement for handler in node.handlers for statement in handler.body)
            self.read(node.finalbody)
        if not isinstance(node, ast.With):
            self.read(node.orelse)

    def _function(self, node: Function, name: str, of_class: set[str]) -> None:
        ops = set().union(*(self._ops(one) for one in node.decorator_list)) | of_class
        if node.decorator_list and self._known(family(node.name)):
            ops.add(family(node.name))
        self._add(name, node).ops |= ops

    def _class(self, node: ast.ClassDef) -> None:
        body = [one for one in node.body if not _is_text(one)]
        rest = [one for one in body if not isinstance(one, Function)]
        ops = set().union(*(self._ops(one) for one in (*node.decorator_list, *rest)))
        head = ast.ClassDef(node.name, node.bases, node.keywords, rest or [ast.Pass()], node.decorator_list)
        self._add(node.name, head).ops |= ops
        for one in body:
            if isinstance(one, Function):
                self._function(one, f"{node.name}.{one.name}", ops)

    def _add(self, name: str, node: ast.AST) -> Part:
        part = self._module.parts.setdefault(name, Part())
        part.text += _dump(node)
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
        registers = not self._in_function or _REGISTERS.search(called.rpartition(".")[2])
        if registers and self._group(simple, simple):
            self.visit(node.func)
            for one in words:
                if one not in simple:
                    self.visit(one)
        else:
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if ast.unparse(node.value) in {"globals()", "vars()"}:
            self._looked_up(node.slice)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._part.uses.add((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._part.uses.add(("", node.attr))
        if (path := _path_of(node)) is not None:
            self._part.uses.add(path)  # not its first name by itself: a module that is handed on shows so
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
        found = Part()
        for one in serving:
            if _op_of(one) is None:
                _Walker(self._module, found, self._ops).visit(one)
        if not ops or not found.uses:
            return False
        text = tuple(dict.fromkeys(map(ast.dump, (*named, *serving))))
        self._part.groups.append(Group(frozenset(ops), frozenset(found.uses), text))
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
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
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
