"""Dispatchers of functions that are compiled at their first call.

`kernel_library` describes parts and entries; `code_files` stores them on disk.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import binding
from numba.core import bytecode, compiler, errors, event, sigutils, typing
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu_options import FastMathOptions
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.targetconfig import ConfigStack

from supple.compiled.code_files import ENTRY, PART, CodeFiles, StoredEntry, StoredPart
from supple.compiled.kernel_library import KernelLibrary, kernel_libraries


@dataclass(eq=False)
class _Part:
    """Compiled part with Numba's description of it."""

    signature: Any
    fndesc: Any
    environment: Any
    library: KernelLibrary
    annotation: str


class _PartPipeline(compiler.Compiler):
    """Numba's pipeline, with options that functions of Numba's library do not inherit.

    Numba compiles a library function once, with the options of its first caller, and reuses it for
    all later callers. An inherited ``fastmath`` would make results depend on the order of calls.
    """

    def define_pipelines(self) -> Any:
        # Options of overloads come from the stack, those of subroutines from the target context.
        inherited = ConfigStack().top()
        inherited.fastmath, inherited.forceinline = FastMathOptions(False), False
        context = self.state.targetctx
        exact = context.subtarget(fastmath=FastMathOptions(False))
        context._compile_subroutine_no_cache = exact._compile_subroutine_no_cache
        return super().define_pipelines()


class _PartCompiler(_FunctionCompiler):
    """Compiler without wrappers and machine code."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        return flags

    def flags(self) -> Any:
        """Return Numba's compiler flags for these options."""
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        return flags


class KernelDispatcher(CPUDispatcher):
    """Dispatcher of a function that Numba can compile in nopython mode, with options of
    `numba.njit`.
    """

    # Attributes of Numba's class, which has no annotations.
    _can_compile: bool
    _cache_hits: Any
    _cache_misses: Any
    overloads: Any
    targetctx: Any

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, locals or {}, targetoptions)
        self._compiler = _PartCompiler(
            py_func, self.targetdescr, self.targetoptions, self.locals, _PartPipeline
        )
        self._parts: dict[tuple[Any, ...], _Part] = {}
        self.files = CodeFiles(self)

    # Interface for other compiled functions

    def get_call_template(self, args: Any, kws: Any) -> Any:
        pysig, folded = self._compiler.fold_argument_types(args, kws)
        if self._can_compile:
            self.part(tuple(folded))
        name = self.py_func.__name__
        signatures = [each.signature for each in self._parts.values()]
        template = typing.make_concrete_template(f"CallTemplate({name})", name, signatures)
        return template, pysig, folded, {}

    def get_overload(self, sig: Any) -> Any:
        args, _ = sigutils.normalize_signature(sig)
        return self._parts[tuple(args)]

    def part(self, args: tuple[Any, ...]) -> _Part:
        """Return the part for these types of arguments; compile it if necessary."""
        with global_compiler_lock:
            if args not in self._parts:
                with self._compiling_counter:
                    part = self._loaded_part(args)
                    if part is None:
                        with self.files.exclusive(args, PART):
                            part = self._loaded_part(args) or self._compiled_part(args)
                self._parts[args] = part
                self.targetctx.insert_user_function(part, part.fndesc, [part.library])
            return self._parts[args]

    def _loaded_part(self, args: tuple[Any, ...]) -> _Part | None:
        self.targetctx.refresh()
        part = self.files.load_part(args)
        if part is None:
            return None
        for prepare in part.unit.reload:
            prepare()
        library = KernelLibrary.of_unit(self.targetctx.codegen(), part.unit)
        return _Part(part.signature, part.fndesc, part.environment, library, part.annotation)

    def _compiled_part(self, args: tuple[Any, ...]) -> _Part:
        name = self.files.name(args)
        with self._compiling(args, name):
            try:
                cres = self._compiler.compile(args, None)
            except errors.ForceLiteralArg as error:
                raise error.bind_fold_arguments(
                    lambda args, kws: self._compiler.fold_argument_types(args, kws)[1]
                ) from None
            library = cres.library
            library.unit_name, library.home = name, self.py_func.__module__
            cres.fndesc.typemap = cres.fndesc.calltypes = (
                None  # large, and needed for lowering only
            )
            part = _Part(
                cres.signature, cres.fndesc, cres.environment, library, str(cres.type_annotation)
            )
            unit = library.unit  # finalizes the library
        if not library.has_dynamic_globals:
            self.files.save_part(
                args,
                StoredPart(unit, part.signature, part.fndesc, part.environment, part.annotation),
            )
        return part

    @contextmanager
    def _compiling(self, args: tuple[Any, ...], name: str) -> Iterator[None]:
        """Compile parts inside the block, with function names that are unique among processes."""
        self._cache_misses[args] += 1
        data = {"dispatcher": self, "args": args, "return_type": None}
        first = int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) * 1000
        identity = bytecode.FunctionIdentity
        before, identity._unique_ids = identity._unique_ids, itertools.count(first)
        try:
            with (
                kernel_libraries(self.targetctx.codegen()),
                event.trigger_event("numba:compile", data=data),
            ):
                yield
        finally:
            identity._unique_ids = before

    # Interface for Python

    def compile(self, sig: Any) -> Any:
        """Return the entry for these types of arguments; compile it if necessary."""
        with global_compiler_lock:
            if not self._can_compile:
                raise RuntimeError("compilation disabled")
            args = tuple(sigutils.normalize_signature(sig)[0])
            if args not in self.overloads:
                entry = self._loaded_entry(args)
                if entry is None:
                    with self.files.exclusive(args, ENTRY):
                        entry = self._loaded_entry(args) or self._compiled_entry(args)
                self.add_overload(entry)
            return self.overloads[args].entry_point

    def _loaded_entry(self, args: tuple[Any, ...]) -> Any:
        entry = self.files.load_entry(args)
        if entry is None:
            return None
        # Loading all of Numba's overloads takes 0.2 s, and most entries need none of them.
        rtsys.initialize(self.targetctx)
        if any(binding.address_of_symbol(each) is None for each in entry.needs):
            self.targetctx.refresh()
        for prepare in entry.reload:
            prepare()
        codegen = self.targetctx.codegen()
        library = KernelLibrary.of_object(codegen, entry.name, entry.code, entry.symbols)
        library.set_environments(entry.environments)
        self._cache_hits[args] += 1
        part = _Part(entry.signature, entry.fndesc, entry.environment, library, entry.annotation)
        return self._result(part, library)

    def _compiled_entry(self, args: tuple[Any, ...]) -> Any:
        part, name = self.part(args), self.files.name(args)
        flags = self._compiler.flags()
        context = compiler._make_subtarget(self.targetctx, flags)
        codegen = self.targetctx.codegen()
        with self._compiling(args, name):
            library = codegen.create_library(name)
            library.enable_object_caching()
            library.add_linking_library(part.library)
            context.create_cpython_wrapper(
                library, part.fndesc, part.environment, None, release_gil=flags.release_gil
            )
            result = self._result(part, library)
        if not library.has_dynamic_globals:
            code, symbols, needs = library.machine_code()
            self.files.save_entry(
                args,
                StoredEntry(
                    name,
                    code,
                    symbols,
                    needs,
                    library.unit.reload,
                    library.environments(),
                    part.signature,
                    part.fndesc,
                    part.environment,
                    part.annotation,
                ),
            )
        return result

    def _result(self, part: _Part, library: KernelLibrary) -> Any:
        """Return Numba's compile result of an entry; machine code is generated if there is none."""
        return compiler.compile_result(
            typing_context=self.typingctx,
            target_context=self.targetctx,
            entry_point=self.targetctx.get_executable(library, part.fndesc, part.environment),
            signature=part.signature,
            objectmode=False,
            lifted=(),
            fndesc=part.fndesc,
            library=library,
            environment=part.environment,
            type_annotation=part.annotation,
        )
