"""Scalar functions as generated machine code over arrays, to compare with jax.numpy."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from llvmlite import ir

from fdsolve.kernels.native._code import POINTER, VOID, Code
from fdsolve.kernels.native._objects import load_function
from fdsolve.kernels.native._scalar import I64, Scalars, stored_type, unsupported

Function = Callable[..., Any]


def jaxpr_of(function: Function, inputs: Sequence[np.ndarray]) -> Any:
    """The jaxpr of a function of scalars."""
    return jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct((), one.dtype) for one in inputs])


def generated(functions: dict[str, tuple[Function, Sequence[np.ndarray]]]) -> dict[str, np.ndarray]:
    """The values of functions at every entry of their inputs, all compiled as one module with vectorised loops."""
    module = ir.Module("scalars")
    closed = {name: jaxpr_of(function, inputs) for name, (function, inputs) in functions.items()}
    for k, made in enumerate(closed.values()):
        assert unsupported(made.jaxpr) is None
        _write_loop(module, f"f{k}", made)
    entry = Code(module, "entry", I64, [I64], internal=False)  # one address for all: number k asks for function k
    _write_switch(entry, [module.globals[f"f{k}"] for k in range(len(closed))])
    find = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(load_function(str(module), "entry"))
    found = {}
    for k, (name, (_, inputs)) in enumerate(functions.items()):
        (aval,) = closed[name].out_avals
        held = [np.ascontiguousarray(one) for one in inputs]
        out = np.zeros(held[0].shape, aval.dtype)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (1 + len(held)), ctypes.c_int64)(find(k))
        call(out.ctypes.data, *[one.ctypes.data for one in held], out.size)
        found[name] = out
    return found


def _write_switch(code: Code, functions: Sequence[Any]) -> None:
    address: Any = 0
    for k, function in enumerate(functions):
        address = code.choose(code.equal(code.arguments[0], k), code.address(function), address)
    code.builder.ret(code.value(address))


def _write_loop(module: Any, name: str, closed: Any) -> None:
    """name(out, inputs …, number of entries)."""
    code = Code(module, name, VOID, [POINTER] * (1 + len(closed.in_avals)) + [I64])
    out, *given, count = code.arguments
    out.add_attribute("noalias")
    builder = code.builder
    with code.loop(0, count, vectorised=True) as j:
        values = []
        for pointer, aval in zip(given, closed.in_avals, strict=True):
            kind = stored_type(aval.dtype)
            value = builder.load(builder.gep(pointer, [j], source_etype=kind), typ=kind)
            values.append(builder.trunc(value, ir.IntType(1)) if aval.dtype == bool else value)
        scalars = Scalars(module, builder)
        held = [ir.Constant(stored_type(np.asarray(c).dtype), np.asarray(c).item()) for c in closed.consts]
        (result,) = scalars.run(closed.jaxpr, held, values)
        kind = stored_type(closed.out_avals[0].dtype)
        if result.type != kind:
            result = builder.zext(result, kind)
        builder.store(result, builder.gep(out, [j], source_etype=kind))
    builder.ret_void()
