"""Hooks on PyTorch's test instantiation: which template, class and parameters each generated test has.

PyTorch makes `TestAdd.test_sum[op, dtype]` into methods such as `test_sum_add_spyre_float32` of a class
`TestAddPRIVATEUSE1`, or `TestAddSPYRE` when another class was made before it in the same process. Those
names cannot be taken apart again, so the parts are noted while PyTorch puts them together
(`torch.testing._internal.common_device_type` and `common_utils`, torch 2.1 to 2.13).
"""

from __future__ import annotations

import enum
import functools
import importlib.abc
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from typing import Any

# What PyTorch passes to every instantiated test and no test is told apart by.
_DEVICE_PARAMETERS = frozenset({"device", "devices"})
# The names PyTorch gives the parameter that stands for the operator or module under test.
_OP_PARAMETERS = {"op": "op", "opinfo": "op", "module_info": "module", "optim_info": "optimizer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one test was instantiated from, all as text."""

    cls: str
    template: str
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def op(self) -> str | None:
        """The operator or module."""
        return self.params.get("op") or self.params.get("module")

    @property
    def dtype(self) -> str | None:
        """The dtype, or several joined by `+`."""
        return self.params.get("dtype") or self.params.get("dtypes")


# By generated function: the name of its template. Functions live as long as their test class.
_TEMPLATES: dict[types.FunctionType, str] = {}
# By generated class: the name of the class it was generated from.
_GENERIC: dict[type, str] = {}
# The text of dtypes and operators, by address: a few hundred that stand in tens of thousands of tests.
_KNOWN: dict[int, tuple[Any, str]] = {}


def install() -> None:
    """Patch PyTorch's two instantiation functions, now or once their modules are imported.

    To be called once, before any test file is imported.
    """
    when_imported("torch.testing._internal.common_utils", _watch_utils)
    when_imported("torch.testing._internal.common_device_type", _watch_device_type)


def _watch_utils(module: Any) -> None:
    module.instantiate_parametrized_tests = _watch_parametrized(module.instantiate_parametrized_tests)


def _watch_device_type(module: Any) -> None:
    module.inspect = InspectOnce("inspect")
    base = module.DeviceTypeTestBase
    base.instantiate_test = classmethod(_watch_device_tests(base.instantiate_test.__func__))


def parts_of(function: Any, cls: type | None, name: str, params: Mapping[str, Any]) -> Parts:
    """The parts of one collected test.

    Args:
        function: the test's function, unbound.
        cls: its class, None for a plain function.
        name: its name without pytest's own parameters.
        params: pytest's own parameters of it.
    """
    template = _TEMPLATES.get(function) if isinstance(function, types.FunctionType) else None
    class_name = "" if cls is None else _GENERIC.get(cls, _class_name(cls))
    if template is None:
        return Parts(cls=class_name, template=name, params=_texts(params))
    return Parts(cls=class_name, template=template, params=_texts({**_instantiated_with(function), **params}))


def _class_name(cls: type) -> str:
    """The class's name behind those it stands in, as pytest has them; the function that made it is none."""
    return cls.__qualname__.rpartition("<locals>.")[2].replace(".", "::")


class InspectOnce(types.ModuleType):
    """The module `inspect`, but that what wraps one function is looked into once.

    PyTorch asks for the signature of the same template before each of the thousands of tests it makes of it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._known: dict[types.FunctionType, inspect.Signature] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)

    def signature(self, function: Any, **options: Any) -> inspect.Signature:
        """As `inspect.signature` has it, which follows `__wrapped__` too."""
        within = inspect.unwrap(function, stop=_speaks_for_itself)
        if options or _speaks_for_itself(within):
            return inspect.signature(function, **options)
        if within not in self._known:
            self._known[within] = inspect.signature(within)
        return self._known[within]


def _speaks_for_itself(function: Any) -> bool:
    """True of what is no plain function, and of one that says its signature."""
    return type(function) is not types.FunctionType or "__signature__" in function.__dict__


def _watch_device_tests(original: Callable[..., None]) -> Callable[..., None]:
    # PyTorch counts this function's parameters to see whether it takes generic_cls: the signature stays.
    @functools.wraps(original)
    def instantiate_test(cls: Any, name: str, test: Any, *, generic_cls: Any = None) -> None:
        before = set(cls.__dict__)
        original(cls, name, test, generic_cls=generic_cls)
        _GENERIC[cls] = generic_cls.__name__ if generic_cls is not None else cls.__name__
        _TEMPLATES.update(dict.fromkeys(_functions_made(cls, before), name))

    return instantiate_test


def _watch_parametrized(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def instantiate_parametrized_tests(generic_cls: Any) -> Any:
        before = set(generic_cls.__dict__)
        result = original(generic_cls)
        # functools.wraps hands the template's own name on to what is made of it.
        _TEMPLATES.update((function, function.__name__) for function in _functions_made(generic_cls, before))
        return result

    return instantiate_parametrized_tests


def _functions_made(cls: type, before: set[str]) -> list[types.FunctionType]:
    """The functions that a class defines beside those it had."""
    made = (cls.__dict__[name] for name in cls.__dict__.keys() - before)
    return [function for function in made if isinstance(function, types.FunctionType)]


def _instantiated_with(function: types.FunctionType) -> Mapping[str, Any]:
    """The keyword arguments PyTorch bound to a generated test: the default of its `param_kwargs`."""
    # Tens of thousands are looked at, and inspect.Signature takes a hundred times as long.
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    bound = (by_name | (function.__kwdefaults__ or {})).get("param_kwargs")
    return bound if isinstance(bound, Mapping) else {}


def _texts(params: Mapping[str, Any]) -> dict[str, str]:
    return {
        _OP_PARAMETERS.get(key, key): value_text(value)
        for key, value in params.items()
        if key not in _DEVICE_PARAMETERS
    }


def value_text(value: Any) -> str:  # noqa: PLR0911  # one return a kind of value reads best
    """A parameter's value as text that is the same in every process: no addresses, no order of sets."""
    if isinstance(value, enum.Enum):  # first, for it may be text or a number as well
        return value.name
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | int | float | complex):
        return repr(value)
    if isinstance(value, functools.partial):
        bound = [value_text(one) for one in value.args]
        bound += [f"{key}:{value_text(one)}" for key, one in value.keywords.items()]
        return f"{value_text(value.func)}({' '.join(bound)})"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return value.__qualname__.replace("<locals>.", "")
    if isinstance(value, Mapping):
        return "{" + " ".join(f"{value_text(k)}:{value_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return "+".join(sorted(value_text(one) for one in value))
    if isinstance(value, list | tuple):
        return "+".join(value_text(one) for one in value)
    return _object_text(value)


def _object_text(value: Any) -> str:
    if (known := _KNOWN.get(id(value))) is not None:
        return known[1]
    text = _text_of(value)
    if type(value).__name__ == "dtype" or hasattr(value, "variant_test_name"):
        _KNOWN[id(value)] = value, text  # held, so that nothing else comes to its address
    return text


def _text_of(value: Any) -> str:
    variant = getattr(value, "variant_test_name", "")
    name = getattr(value, "name", None)
    if isinstance(name, str) and name:
        return f"{name}.{variant}" if isinstance(variant, str) and variant else name
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        # A tensor made with random numbers has other values in every process.
        return f"{type(value).__name__}({value_text(tuple(value.shape))} {value_text(value.dtype)})"
    shown = str(value)
    if " at 0x" in shown or "\n" in shown:
        return type(value).__name__
    return shown.removeprefix("torch.")


def when_imported(name: str, do: Callable[[Any], None]) -> None:
    """Call `do` with a module: at once where it is imported, else as soon as it has been.

    Args:
        name: the module, with its package.
        do: takes the module, whole; the import that it follows sees what it raises.
    """
    if (module := sys.modules.get(name)) is not None:
        do(module)
    else:
        sys.meta_path.insert(0, _Awaited(name, do))


class _Awaited(importlib.abc.MetaPathFinder):
    """Finds one module as the finders after it do, once, and sees it loaded."""

    def __init__(self, name: str, do: Callable[[Any], None]) -> None:
        self._name, self._do = name, do
        self._looking = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  # the finder's own signature
        target: types.ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module's spec with a loader that tells of it; None for every other module."""
        if fullname != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            load, do = loader.exec_module, self._do

            def exec_module(module: types.ModuleType) -> None:
                load(module)
                # Not before: whoever looks for a module need not import it, and an import may fail once.
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                do(module)

            loader.exec_module = exec_module
        return spec
