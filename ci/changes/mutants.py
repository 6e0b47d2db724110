"""Faults that are put into Python source, one at a time, each as a programmer might make it. Pure.

The operators are those of mutation testing (Offutt and others, An Experimental Determination of Sufficient
Mutant Operators, ACM TOSEM 5, 1996), with a return that is lost and arguments in the wrong order.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from ci.core.errors import BadFileError

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of a source file.

    Attributes:
        file: that it is in, from the repository's top.
        source: the file without it.
        start: where the text begins that it replaces: line from 1, and column in bytes.
        end: where that ends.
        new: what stands there instead.
        kind: arithmetic, comparison, constant, negation, condition, arguments or return.
    """

    file: str
    source: str
    start: tuple[int, int]
    end: tuple[int, int]
    new: str
    kind: str

    @property
    def text(self) -> str:
        """The file with the fault."""
        lines = self.source.split("\n")  # as ast counts them: a form feed ends none
        before = lines[self.start[0] - 1].encode()[: self.start[1]].decode()
        after = lines[self.end[0] - 1].encode()[self.end[1] :].decode()
        return "\n".join([*lines[: self.start[0] - 1], before + self.new + after, *lines[self.end[0] :]])

    @property
    def name(self) -> str:
        """What tells it from all others of one source tree."""
        return f"{self.file}:{self.start[0]} {self.kind} {sha256(self.text.encode()).hexdigest()[:8]}"


def faults_of(file: str, content: bytes) -> Iterator[Fault]:
    """Every fault that the operators make of the functions of a file, in the order of its source.

    Raises:
        BadFileError: it does not parse, or is not UTF-8.
    """
    try:
        source = content.decode().replace("\r\n", "\n").replace("\r", "\n")
        body = ast.parse(source).body
    except (SyntaxError, ValueError) as error:
        raise BadFileError(f"is no Python: {error}", where=file, remedy="mend it, or leave it out") from error
    for function in body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for node in (one for statement in function.body for one in ast.walk(statement)):
                if isinstance(node, ast.expr | ast.stmt):
                    start = (node.lineno, node.col_offset)
                    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
                    for kind, new in _faults(node):
                        yield Fault(file=file, source=source, start=start, end=end, new=new, kind=kind)


def _faults(node: ast.expr | ast.stmt) -> Iterator[tuple[str, str]]:
    """What an expression or a return becomes, as source."""
    new = copy.deepcopy(node)
    match new:
        case ast.BinOp() | ast.BoolOp() if type(new.op) in _SWAPS:
            new.op = _SWAPS[type(new.op)]()  # type: ignore[assignment]  # an operator for an operator
            yield "condition" if isinstance(new, ast.BoolOp) else "arithmetic", f"({ast.unparse(new)})"
        case ast.Compare() if type(new.ops[0]) in _SWAPS:
            new.ops[0] = _SWAPS[type(new.ops[0])]()  # type: ignore[call-overload]  # the same
            yield "comparison", f"({ast.unparse(new)})"
        case ast.Constant(value=int() | float() as value):
            yield "constant", str(not value if isinstance(value, bool) else value + 1)
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield "negation", f"({ast.unparse(new.operand)})"
        case ast.IfExp():
            new.test = ast.UnaryOp(ast.Not(), new.test)
            yield "condition", f"({ast.unparse(new)})"
        case ast.Call(args=[first, second, *rest]) if not isinstance(second, ast.Starred):
            new.args = [second, first, *rest]
            yield "arguments", ast.unparse(new)
        case ast.Return(value=ast.expr()):
            yield "return", "return None"
