"""The text of a graph in NNEF: values, statements, and the names that they get."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

INPUTS, OUTPUTS = "inputs", "outputs"
"""Names of a network's inputs and outputs in the text."""
Shape = tuple[int, ...]


@dataclass(eq=False)
class Value:
    """A tensor of the graph.

    NNEF fills up missing axes at the end, PyTorch at the front. So a tensor may be written with
    ones in front of its shape, and tensors of a module have at least two axes: a vector of n
    entries is a row (1, n), as NNEF wants it for biases.
    """

    shape: Shape
    """Shape in PyTorch."""
    written: Shape
    """Shape in NNEF: the same, with any number of ones in front."""
    label: str = ""
    """Name in the module, if it is one of its tensors."""
    name: str = ""
    """Name in the text."""

    @property
    def extra(self) -> int:
        """Number of ones in front."""
        return len(self.written) - len(self.shape)

    def axis(self, dim: int) -> int:
        """Return the axis in NNEF of an axis in PyTorch, which may count from the end."""
        return dim % max(len(self.shape), 1) + self.extra


Operand = Value | float | Sequence[Value]


@dataclass
class Graph:
    """A graph that is being written, one statement after the other."""

    variables: list[Value] = field(default_factory=list)
    """Tensors of the module that are used."""
    _statements: list[tuple[list[Value], str]] = field(default_factory=list)
    _inputs: list[Value] = field(default_factory=list)
    _values: int = 0

    def external(self, shape: Shape) -> Value:
        """Return the network's inputs."""
        value = Value(shape, shape, name=INPUTS)
        self._inputs.append(value)
        return value

    def variable(self, label: str, shape: Shape) -> Value:
        """Return a tensor of the module; it is declared when it is used."""
        return Value(shape, (1,) * (2 - len(shape)) + shape, label=label)

    def write(
        self, operator: str, *operands: Operand, result: Shape, rank: int = 0, **attributes: Any
    ) -> Value:
        """Add a statement with one result, and return the result.

        Args:
            operator: Name of the operator in NNEF.
            operands: Tensors and numbers.
            result: Shape of the result in PyTorch.
            rank: Number of axes of the result in NNEF, if it has more.
            attributes: Named arguments.
        """
        written = (1,) * (rank - len(result)) + result
        (value,) = self._add(operator, operands, [Value(result, written)], attributes)
        return value

    def split(self, value: Value, axis: int, count: int) -> list[Value]:
        """Add a statement that cuts a tensor into equal parts, and return these.

        Args:
            value: The tensor.
            axis: The axis in NNEF.
            count: Number of parts.
        """
        size = value.written[axis] // count
        part = (*value.written[:axis], size, *value.written[axis + 1 :])
        parts = [Value(part, part) for _ in range(count)]
        return self._add("split", (value,), parts, {"axis": axis, "ratios": [1] * count})

    def _add(
        self,
        operator: str,
        operands: Sequence[Operand],
        results: list[Value],
        attributes: Mapping[str, Any],
    ) -> list[Value]:
        arguments = [self._operand(operand) for operand in operands]
        arguments += [f"{name} = {_literal(value)}" for name, value in attributes.items()]
        for value in results:
            self._values += 1
            value.name = f"v{self._values}"
        self._statements.append((results, f"{operator}({', '.join(arguments)})"))
        return results

    def text(self, outputs: Value) -> str:
        """Return the whole text.

        Args:
            outputs: The value that is the network's outputs.
        """
        if not self._statements or outputs not in self._statements[-1][0]:
            outputs = self.write("copy", outputs, result=outputs.written)
        outputs.name = OUTPUTS
        declared = [_declared(value, "external") for value in self._inputs]
        declared += [_declared(value, "variable", label=value.label) for value in self.variables]
        lines = [*declared, *(f"{_results(values)} = {call}" for values, call in self._statements)]
        body = "".join(f"    {line};\n" for line in lines)
        return f"version 1.0;\n\ngraph network({INPUTS}) -> ({OUTPUTS})\n{{\n{body}}}\n"

    def _operand(self, operand: Operand) -> str:
        if isinstance(operand, Value):
            if operand.label and operand not in self.variables:
                self._declare(operand)
            return operand.name
        if isinstance(operand, Sequence):
            return f"[{', '.join(map(self._operand, operand))}]"
        return _literal(float(operand))

    def _declare(self, value: Value) -> None:
        """Give a tensor of the module a name, and list it."""
        names = {other.name for other in self.variables}
        name = "t_" + re.sub(r"\W", "_", value.label, flags=re.ASCII)
        while name in names:
            name += "_"
        value.name = name
        self.variables.append(value)


def _declared(value: Value, kind: str, **attributes: str) -> str:
    named = {"shape": list(value.written), **attributes}
    listed = ", ".join(f"{name} = {_literal(item)}" for name, item in named.items())
    return f"{value.name} = {kind}<scalar>({listed})"


def _results(values: Sequence[Value]) -> str:
    names = [value.name for value in values]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _literal(value: Any) -> str:
    """Return a number, truth value, text, list or pair as NNEF writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))})"
    return repr(value)
