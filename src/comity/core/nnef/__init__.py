"""Networks in NNEF 1.0, the neutral exchange format of Khronos: a text, and one file per tensor.

The text holds the structure alone, for one sample; tensors are labelled with their names in the
module. `comity.core.nnef.operators` says what each operator of PyTorch becomes.
"""

from __future__ import annotations

import hashlib
import struct
import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg

from comity.core.nnef.operators import OPERATORS, SHAPING, UnknownOperatorError, name_of, ranked
from comity.core.nnef.text import Graph
from comity.core.typing import AnyArray, NamedArrays
from comity.errors import UserError

_MAGIC, _VERSION = b"\x4e\xef", b"\x01\x00"
_HEADER, _MOST_AXES = 128, 8
_BITS, _FLOAT = 32, 0
_IGNORED = "_assert_tensor_metadata"


class Structure(NamedTuple):
    """A network in NNEF."""

    text: str
    """The graph, the same for all models of one architecture."""
    tensors: NamedArrays
    """Tensors that the graph uses, by label, in the order of their use."""


def structure_of(module: nn.Module, example: Tensor) -> Structure:
    """Return a network in NNEF; the module stays as it is.

    The graph is that of predictions (not of training), for one sample. A cast of the inputs from
    bytes is left out, because NNEF has only numbers.

    Args:
        module: The network, from one tensor to one tensor.
        example: Inputs of one sample or more; only type and shape count.

    Raises:
        UserError: the network cannot be written; the text names the operator.
    """
    program = _exported(deepcopy(module).eval(), torch.zeros_like(example[:1]))
    signature, graph = program.graph_signature, Graph()
    labels = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    values: dict[Node, Any] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            shape, label = tuple(node.meta["val"].shape), labels.get(node.name)
            values[node] = graph.variable(label, shape) if label else graph.external(shape)
        elif node.op == "call_function":
            values[node] = _call(graph, node, values)
    (results,) = program.graph.output_node().args
    if len(results) != 1:
        raise UserError(f"NNEF: the network has {len(results)} outputs; only one can be written.")
    outputs = values[results[0]]
    text = graph.text(ranked(graph, outputs, len(outputs.shape)))
    held, tensors = {**program.state_dict, **program.constants}, {}
    for value in graph.variables:
        tensor = held[value.label].detach()
        if tensor.dtype != torch.float32:
            raise UserError(f"NNEF: tensor {value.label} is {tensor.dtype}, not torch.float32.")
        tensors[value.label] = tensor.reshape(value.written).numpy()
    return Structure(text, tensors)


def structure_hash(module: nn.Module, example: Tensor) -> str:
    """Return the SHA-256 of a network's graph in NNEF, in hexadecimal; weights do not count.

    Args:
        module: The network.
        example: Inputs of one sample or more.
    """
    return hashlib.sha256(structure_of(module, example).text.encode()).hexdigest()


def tensor_bytes(array: AnyArray) -> bytes:
    """Return the content of a tensor's file: a header of 128 bytes, then float32, little-endian."""
    numbers = np.ascontiguousarray(array, dtype="<f4")
    sizes = [*numbers.shape, *[0] * (_MOST_AXES - numbers.ndim)]
    fields = struct.pack(f"<2I{_MOST_AXES}I2I", numbers.nbytes, numbers.ndim, *sizes, _BITS, _FLOAT)
    return (_MAGIC + _VERSION + fields).ljust(_HEADER, b"\0") + numbers.tobytes()


def _exported(module: nn.Module, example: Tensor) -> ExportedProgram:
    """Return a network as a program of operators in the table, or of what PyTorch makes of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks of PyTorch on itself
            program = torch.export.export(module, (example,), strict=False)
            unknown = _unknown(program)
            if unknown:
                rules: Any = torch.export.default_decompositions()
                parts = {op: rule for op, rule in rules.items() if name_of(op) not in OPERATORS}
                program = program.run_decompositions(parts)
    except Exception as error:  # anything can be in a network that a user brings
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise UserError(
            f"the network cannot be read by torch.export ({reason}), so it cannot be written as "
            "NNEF; use run.model from Python."
        ) from None
    if _unknown(program):
        raise _refusal(", ".join(unknown))
    return program


def _unknown(program: ExportedProgram) -> list[str]:
    """Return the names of operators that are not in the table."""
    names = [name_of(node.target) for node in program.graph.nodes if node.op == "call_function"]
    return sorted({name for name in names if name not in OPERATORS and name != _IGNORED})


def _refusal(operator: object) -> UserError:
    return UserError(
        f"the network uses the operator {operator}, which cannot be written as NNEF; export to "
        ".onnx."
    )


def _call(graph: Graph, node: Node, values: Mapping[Node, Any]) -> Any:
    """Return the result of an operator's call, after writing it."""
    name = name_of(node.target)
    if name == _IGNORED:
        return None
    result = node.meta["val"]
    shape: tuple[int, ...] = ()
    if isinstance(result, Tensor):
        shape = tuple(result.shape)
        if result.dtype not in (torch.float32, torch.bool) and name not in (*SHAPING, "getitem"):
            raise _refusal(f"{name} of {result.dtype}")
    args, options = map_arg((node.args, node.kwargs), lambda item: values[item])
    try:
        return OPERATORS[name](graph, shape, *args, **options)
    except UnknownOperatorError as error:
        raise _refusal(error) from None
