"""Libraries of compiled code: parts of functions, and entries that link parts to machine code.

Numba optimises every function together with all functions that it calls and generates machine code,
though most are called by other compiled functions only, which contain them. Here a function is a
*part*: its own code, lightly optimised. For a function that Python calls, an *entry* is generated:
its part and those of all functions that it calls, directly or not, are linked, optimised and
compiled to machine code, once.

All other functions are internal to an entry, so that copies in several entries are independent.
Parts are linked from their bitcode, whether they have just been compiled or were read from disk, so
that both give the same machine code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import require_global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.runtime import rtsys

_ENVIRONMENT = "_ZN08NumbaEnv"
_OPEN = (binding.Linkage.external, binding.Linkage.weak_odr)
_HELPER = "__excinfo_unwrap"
_UNRESOLVED = ".numba.unresolved$"


class EnvironmentObjects:
    """Python objects that the code of a function refers to by number: Numba's environment. A
    wrapper adds objects to those of the function, so a later environment has more objects.
    """

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    def __reduce__(self) -> Any:
        return _environment_objects, (self.environment, list(self.environment.consts))


def _environment_objects(environment: Any, objects: list[Any]) -> EnvironmentObjects:
    environment.consts.extend(objects[len(environment.consts) :])
    return EnvironmentObjects(environment)


@dataclass(eq=False)
class Unit:
    """Code of one part: LLVM bitcode, and units of the functions that it calls.

    `name` is the name of its file, empty for a unit that only other units contain; `home` is the
    module of the function; `counted` is whether it uses Numba's reference counting; `environments`
    are Python objects that its code refers to by number; `reload` are functions to call before its
    code runs.
    """

    name: str
    home: str
    bitcode: bytes
    calls: tuple[Unit, ...]
    counted: bool
    environments: tuple[EnvironmentObjects, ...]
    reload: tuple[Any, ...] = ()

    def closure(self) -> list[Unit]:
        """Return this unit and all units that it calls, directly or not, each once."""
        units = {self.name: self}
        waiting = [self]
        for unit in waiting:  # grows during the loop
            for called in unit.calls:
                if called.name not in units:
                    units[called.name] = called
                    waiting.append(called)
        return list(units.values())


@dataclass
class _Linked:
    """Module into which libraries are linked."""

    module: Any
    #: Functions that are visible outside.
    open: set[str]
    calls: dict[str, Unit] = field(default_factory=dict)
    counted: bool = False

    def link(self, library: Any) -> None:
        """Link the code of a library, or record that it must be linked later."""
        if library is rtsys.library:
            self.counted = True
        elif isinstance(library, KernelLibrary):
            unit = library.unit
            if unit.name:
                self.calls[unit.name] = unit
            else:
                self.module.link_in(binding.parse_bitcode(unit.bitcode))
                self.calls |= {each.name: each for each in unit.calls}
                self.counted |= unit.counted
        else:
            self.module.link_in(library._get_module_for_linking(), preserve=True)

    def close(self) -> None:
        """Give internal linkage to all functions except those in `open` and unresolved symbols."""
        unresolved = {
            each.name.removeprefix(_UNRESOLVED)
            for each in self.module.global_variables
            if each.name.startswith(_UNRESOLVED)
        }
        for function in self.module.functions:
            if not function.is_declaration and function.name not in self.open | unresolved:
                function.linkage = "internal"


class _LateEnvironments:
    """Proxy of a code generator that ignores environments until machine code is generated."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        codegen: Any = self._library._codegen
        if self._library.emitted:
            codegen.set_env(name, environment)


class KernelLibrary(JITCodeLibrary):
    """Numba library that generates machine code when its address is requested."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.emitted = False
        #: Name of the unit's file and module of the function; set for parts only.
        self.unit_name = self.home = ""
        self._unit: Unit | None = None
        self._own: set[str] = set()

    @property
    def codegen(self) -> Any:
        return _LateEnvironments(self)

    @property
    def unit(self) -> Unit:
        """Code of this library, without the code of the parts that it calls."""
        self._ensure_finalized()
        assert self._unit is not None
        return self._unit

    @property
    def has_dynamic_globals(self) -> bool:
        self._ensure_finalized()
        return bool(self._dynamic_globals)

    def finalize(self) -> None:
        """Link the libraries without a name that this one calls, and store the bitcode."""
        require_global_compiler_lock()
        self._raise_if_finalized()
        module = self._final_module
        self._own = _opened(module)
        linked = _Linked(module, self._own)
        for library in dict.fromkeys(self._linking_libraries):
            library._ensure_finalized()
            self._reload_init.update(library._reload_init)
            linked.link(library)
        linked.close()
        self._finalize_dynamic_globals()
        self._unit = Unit(
            self.unit_name,
            self.home,
            module.as_bitcode(),
            tuple(linked.calls.values()),
            linked.counted,
            tuple(_environments(module)),
            tuple(self._reload_init),
        )
        self._finalized = True

    @classmethod
    def of_unit(cls, codegen: Any, unit: Unit) -> KernelLibrary:
        """Return the library of a unit from disk."""
        library = cls(codegen, unit.name)
        library.unit_name, library.home = unit.name, unit.home
        library._final_module = binding.parse_bitcode(unit.bitcode)
        library._own = _opened(library._final_module)
        library._unit, library._finalized = unit, True
        library._reload_init = set(unit.reload)
        return library

    @classmethod
    def of_object(cls, codegen: Any, name: str, code: bytes, symbols: set[str]) -> KernelLibrary:
        """Return the library of machine code from disk."""
        library = cls(codegen, name)
        library.enable_object_caching()
        library._set_compiled_object(code)
        library.emitted, library._own = True, symbols
        library._finalize_final_module()
        codegen._engine._defined_symbols |= symbols
        return library

    def machine_code(self) -> tuple[bytes, set[str], tuple[str, ...]]:
        """Return the machine code of an entry, the symbols it defines, and those it needs."""
        calls = (each.name for each in self._final_module.functions if each.is_declaration)
        needs = sorted(name for name in calls if not name.startswith("llvm."))
        return self._get_compiled_object(), self._own, tuple(needs)

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        if name not in self._own:
            return 0
        if not self.emitted:
            self._emit()
        return int(super().get_pointer_to_function(name))

    def _get_module_for_linking(self) -> Any:
        """Return all code, for linking into one of Numba's own libraries."""
        if self._shared_module is None:
            module = self._with_calls()
            for name in self._own:
                module.get_function(name).linkage = "linkonce_odr"
            self._shared_module = module
        return self._shared_module

    def _with_calls(self) -> Any:
        """Link this library with all units that it calls."""
        unit = self.unit
        linked = _Linked(binding.parse_bitcode(unit.bitcode), self._own)
        closure = unit.closure()
        for each in closure[1:]:
            linked.module.link_in(binding.parse_bitcode(each.bitcode))
        if any(each.counted for each in closure):
            linked.module.link_in(rtsys.library._get_module_for_linking(), preserve=True)
        linked.close()
        return linked.module

    def _emit(self) -> None:
        """Generate machine code."""
        module = self._with_calls()
        module.name = self._final_module.name
        self._final_module = module
        self._optimize_final_module()
        module.verify()
        self._dynamic_globals.clear()
        self.emitted = True
        self._finalize_final_module()
        self.set_environments(self.environments())

    def environments(self) -> tuple[EnvironmentObjects, ...]:
        """Return the objects that machine code refers to."""
        return tuple(_environments(self._final_module))

    def set_environments(self, environments: tuple[EnvironmentObjects, ...]) -> None:
        """Set the addresses of environments in machine code."""
        codegen: Any = self._codegen
        for each in environments:
            codegen.set_env(each.environment.env_name, each.environment)


def _opened(module: Any) -> set[str]:
    """Return the names of functions visible outside, without Numba's common helpers."""
    return {
        each.name
        for each in module.functions
        if not each.is_declaration and each.linkage in _OPEN and not each.name.startswith(_HELPER)
    }


def _environments(module: Any) -> Iterator[EnvironmentObjects]:
    for each in module.global_variables:
        if each.name.startswith(_ENVIRONMENT):
            environment = lookup_environment(each.name)
            if environment is not None and environment.can_cache():
                yield EnvironmentObjects(environment)


@contextmanager
def kernel_libraries(codegen: Any) -> Iterator[None]:
    """Use `KernelLibrary` for everything that Numba compiles in the block; its lock is held."""
    require_global_compiler_lock()
    before = codegen._library_class
    codegen._library_class = KernelLibrary
    try:
        yield
    finally:
        codegen._library_class = before
