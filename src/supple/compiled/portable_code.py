"""Machine code of compiled functions for any target, in object files that need no Python.

A function's LLVM code is generated for the data layout of the target: offsets of fields depend on
the size of pointers. As Numba generates code for one target in a process, `object_code` starts one
for it, with a folder of parts for each target.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from supple.compiled.program import KernelCall, entry_function, table_type
from supple.compiled.shipped_code import X86_64_V3
from supple.compiled.tables import FUNCTION_SYMBOL, FUNCTION_TABLE
from supple.errors import SuppleError
from supple.user_cache import cache_folder


@dataclass(frozen=True)
class Target:
    """Processor and system that code is generated for."""

    name: str
    triple: str
    cpu: str
    features: str
    #: Bytes of a pointer.
    pointer: int
    #: Data layout of LLVM.
    layout: str


_ELF = "m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
TARGETS = {
    each.name: each
    for each in (
        Target(
            "linux-x86_64",
            "x86_64-unknown-linux-gnu",
            X86_64_V3["NUMBA_CPU_NAME"],
            X86_64_V3["NUMBA_CPU_FEATURES"],
            8,
            f"e-{_ELF}",
        ),
        Target(
            "web",
            "wasm32-unknown-unknown",
            "generic",
            "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext,+mutable-globals",
            4,
            "e-m:e-p:32:32-p10:8:8-p20:8:8-i64:64-i128:128-n32:64-S128-ni:1:10:20",
        ),
    )
}
#: Symbols of an object file: a list of functions with their names, and its length.
TABLE, COUNT = "supple_kernels", "supple_kernel_count"


@dataclass(frozen=True)
class _Function:
    """Compiled function by the module that defines it, and types of its arguments."""

    module: str
    name: str
    types: tuple[Any, ...]
    symbol: str

    @classmethod
    def of(cls, call: KernelCall) -> _Function:
        function = call.kernel.py_func
        return cls(function.__module__, function.__qualname__, call.argument_types, call.name)

    def kernel(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)


def object_code(calls: Iterable[KernelCall], target: Target) -> bytes:
    """Return an object file with the functions of some calls, in a table by their names.

    Its symbols are `supple_kernels`, an array of records of a name and a function ``int64_t
    (*)(void *)``, which takes a table of arguments, and `supple_kernel_count`, an ``int32_t``.
    """
    functions = {each.name: _Function.of(each) for each in calls}
    listed = [functions[name] for name in sorted(functions)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            kernels = cache_folder() / "kernels" / target.name
        except RuntimeError:  # there is no home folder
            kernels = Path(folder) / "kernels"
        environment = os.environ | {
            "NUMBA_CACHE_DIR": str(kernels),
            "NUMBA_CPU_NAME": target.cpu,
            "NUMBA_CPU_FEATURES": target.features,
        }
        request, result = Path(folder) / "request", Path(folder) / "code.o"
        request.write_bytes(pickle.dumps((listed, target)))
        # -P: no module of the current folder is imported.
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", __name__]
        command += [str(request), str(result)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not result.is_file():
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise SuppleError(f"compiling for {target.name} failed: {last}")
        return result.read_bytes()


def _main() -> None:
    request, result = sys.argv[1:]
    listed, target = pickle.loads(Path(request).read_bytes())
    Path(result).write_bytes(_compiled(listed, target))


def _compiled(listed: list[_Function], target: Target) -> bytes:
    """Compile functions in this process, whose Numba then generates code for the target only."""
    machine = _generate_for(target)
    entries = [entry_function(each.kernel()).part((table_type(each.types),)) for each in listed]
    units = {unit.name: unit for each in entries for unit in each.library.unit.closure()}
    module = binding.parse_assembly("")
    module.triple, module.data_layout = target.triple, target.layout
    for unit in units.values():
        module.link_in(binding.parse_bitcode(unit.bitcode))
    names = [each.fndesc.llvm_func_name for each in entries]
    module.link_in(binding.parse_assembly(_table_text([each.symbol for each in listed], names)))
    _close(module)
    builder = binding.create_pass_builder(machine, _tuning())
    for _ in range(2):  # functions that the first pass inlines are optimised by the second
        builder.getModulePassManager().run(module, builder)
    module.verify()
    needed = [each.name for each in module.functions if each.is_declaration]
    foreign = [name for name in needed if name.startswith(("NRT_", "Py", "numba_gil"))]
    if foreign:
        raise SuppleError(f"a function allocates or calls Python: it needs {foreign[0]}")
    return bytes(machine.emit_object(module))


def _generate_for(target: Target) -> Any:
    """Let Numba generate code for a target; return LLVM's machine."""
    context = cpu_target.target_context
    context.refresh()  # runs code on this machine
    rtsys.initialize(context)
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )
    codegen = context.codegen()
    codegen._tm, codegen._target_data = machine, machine.target_data
    codegen._data_layout = target.layout
    codegen.magic_tuple = lambda: (target.triple, target.cpu, target.features)
    return machine


def _tuning() -> Any:
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    return options


def _table_text(symbols: list[str], functions: list[str]) -> str:
    """Return LLVM code of the table, and of a function for each that takes a table alone."""
    lines = [
        "define void @NRT_incref(ptr %0) { ret void }",  # hosts hold all memory
        "define void @NRT_decref(ptr %0) { ret void }",
        _function_table(),
    ]
    rows = []
    for i, (symbol, function) in enumerate(zip(symbols, functions, strict=True)):
        name = symbol.encode() + b"\0"
        text = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02x}" for b in name)
        lines += [
            f'@supple_name_{i} = internal constant [{len(name)} x i8] c"{text}"',
            f'declare i32 @"{function}"(ptr, ptr, ptr)',
            f"define internal i64 @supple_run_{i}(ptr %table) {{",
            "  %result = alloca i64",
            "  %error = alloca ptr",
            f'  %status = call i32 @"{function}"(ptr %result, ptr %error, ptr %table)',
            "  %failed = icmp ne i32 %status, 0",
            "  %value = load i64, ptr %result",
            "  %chosen = select i1 %failed, i64 -1, i64 %value",
            "  ret i64 %chosen",
            "}",
        ]
        rows.append(f"{{ptr, ptr}} {{ptr @supple_name_{i}, ptr @supple_run_{i}}}")
    joined = ", ".join(rows)
    lines += [
        f"@{TABLE} = constant [{len(rows)} x {{ptr, ptr}}] [{joined}]",
        f"@{COUNT} = constant i32 {len(rows)}",
    ]
    return "\n".join(lines)


def _function_table() -> str:
    """Return LLVM code of the table of materials, without those that a program registers."""
    rows, columns = FUNCTION_TABLE.shape
    numbers = (", ".join(f"i64 {value}" for value in row) for row in FUNCTION_TABLE.tolist())
    listed = ", ".join(f"[{columns} x i64] [{row}]" for row in numbers)
    return f"@{FUNCTION_SYMBOL} = constant [{rows} x [{columns} x i64]] [{listed}]"


def _close(module: Any) -> None:
    """Make everything but the table internal."""
    for each in [*module.functions, *module.global_variables]:
        if not each.is_declaration and each.name not in (TABLE, COUNT):
            each.linkage = "internal"


if __name__ == "__main__":
    _main()
