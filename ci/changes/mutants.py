"""Faults that are put into Python source, one at a time, each as a programmer might make it. Pure.

The operators are those of mutation testing (Offutt and others, An Experimental Determination of Sufficient
Mutant Operators, ACM TOSEM 5, 1996), with a return that is lost and arguments in the wrong order.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault of a module.

    Attributes:
        start: where the text begins that it replaces: line from 1, and column in bytes.
        end: where that ends.
        new: what stands there instead.
        kind: arithmetic, comparison, constant, negation, condition, arguments or return.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    new: str
    kind: str

    def put_into(self, text: str) -> str:
        """The module's source with the fault."""
        lines = text.splitlines(keepends=True)
        before = lines[self.start[0] - 1].encode()[: self.start[1]].decode()
        after = lines[self.end[0] - 1].encode()[self.end[1] :].decode()
        return "".join([*lines[: self.start[0] - 1], before, self.new, after, *lines[self.end[0] :]])


def mutants(text: str) -> Iterator[Mutant]:
    """Every fault that the operators make of the functions of a module, in the order of its source.

    Raises:
        SyntaxError: it cannot be parsed.
    """
    for function in ast.parse(text).body:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if not isinstance(node, ast.expr | ast.stmt):
                    continue
                end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
                for kind, new in _faults(node):
                    yield Mutant(start=(node.lineno, node.col_offset), end=end, new=new, kind=kind)


def _faults(node: ast.expr | ast.stmt) -> Iterator[tuple[str, str]]:
    """What an expression or a return becomes, as source."""
    new = copy.deepcopy(node)
    match new:
        case ast.BinOp() if type(new.op) in _SWAPS:
            new.op = _SWAPS[type(new.op)]()  # type: ignore[assignment]  # an operator for an operator
            yield "arithmetic", f"({ast.unparse(new)})"
        case ast.BoolOp():
            new.op = _SWAPS[type(new.op)]()  # type: ignore[assignment]  # the same
            yield "condition", f"({ast.unparse(new)})"
        case ast.Compare() if type(new.ops[0]) in _SWAPS:
            new.ops[0] = _SWAPS[type(new.ops[0])]()  # type: ignore[call-overload]  # the same
            yield "comparison", f"({ast.unparse(new)})"
        case ast.Constant(value=bool() as value):
            yield "constant", str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", str(value + 1)
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
