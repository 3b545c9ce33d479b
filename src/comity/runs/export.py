"""Use of trained models: predictions for new rows, and files for other programs.

An exported file holds a plain network and, in its header, what is needed to use it: its layers,
its inputs and their scaling, and the meaning of its outputs.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from comity.core.storage import load_values, save_values, write_whole
from comity.datasets.columns import Source
from comity.errors import UserError
from comity.problems import DataProblem, EnvironmentProblem, Problem
from comity.problems.answers import logit_of_yes
from comity.problems.networks import ActorCritic
from comity.runs.directory import Run
from comity.runs.model_files import about
from comity.runs.nnef import write_nnef
from comity.runs.rows import read_inputs

_POINTWISE: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "identity": nn.Identity,
}


# -- predictions ---------------------------------------------------------------------------


class Answer(NamedTuple):
    """A model's prediction for one row."""

    row: int
    """Number of the row in the file, where the header is row 1."""
    probability: float
    """Probability of yes."""
    answer: int
    """1 for yes, 0 for no."""


def predict(
    run: Run, source: Source, client: int | str, preference: Sequence[float] | None = None
) -> list[Answer]:
    """Return a client's predictions for new rows.

    Args:
        run: A finished run of a problem with data.
        source: A CSV file, a mapping of columns or a data frame.
        client: Number or name of the client whose model is used.
        preference: One weight per objective, for models that take any preference; default: the
            client's own.
    """
    module, inputs = model_at(run, client, preference), read_inputs(run, source)
    with torch.inference_mode():
        yes = _evidence(module(inputs), run.configuration.get_problem()).double()
    chances = torch.sigmoid(yes).tolist()
    return [
        Answer(row, round(chance, 6), int(answer))
        for row, (chance, answer) in enumerate(zip(chances, (yes > 0).tolist(), strict=True), 2)
    ]


def _evidence(outputs: Tensor, problem: Problem) -> Tensor:
    """Return the logit of yes; outputs that are no answers are refused."""
    if (logit := logit_of_yes(outputs)) is not None:
        return logit
    raise UserError(
        f"problem {problem.name}: outputs of shape {list(outputs.shape[1:])} are no answer of yes "
        "or no; use run.model from Python."
    )


def as_csv(answers: Sequence[Answer]) -> str:
    """Return a CSV text: a header, then one line per row."""
    lines = (f"{a.row},{a.probability:.6f},{a.answer}\n" for a in answers)
    return f"{','.join(Answer._fields)}\n{''.join(lines)}"


def model_at(run: Run, client: int | str, preference: Sequence[float] | None) -> nn.Module:
    """Return a client's model, at a preference if one is given."""
    return run.model(client) if preference is None else run.model_for(client, preference)


def preference_at(run: Run, client: int | str, preference: Sequence[float] | None) -> list[float]:
    """Return the given preference, or the client's own."""
    weights = preference
    if weights is None:
        weights = run.configuration.get_preferences()[run.client(client)]
    return [float(weight) for weight in weights]


# -- files ---------------------------------------------------------------------------------


def export_model(
    run: Run,
    target: str | Path,
    client: int | str,
    preference: Sequence[float] | None = None,
    *,
    force: bool = False,
) -> Path:
    """Write a client's model to a file for use without Comity, and return the file.

    Args:
        run: A finished run.
        target: The file to write; its name ends in .safetensors or .onnx. A name that ends in .nnef
            is a directory.
        client: Number or name of the client.
        preference: One weight per objective, for models that take any preference; default: the
            client's own.
        force: Overwrite an existing file.
    """
    target = check_target(Path(target), force=force)
    module, problem = model_at(run, client, preference), run.configuration.get_problem()
    number = run.client(client)
    header = {
        **about(run.configuration),
        "client": number,
        "name": run.configuration.get_names()[number],
        "objectives": [objective.name for objective in problem.objectives],
        "preference": preference_at(run, client, preference),
        "features": _features(problem),
        "scaling": _scaling(problem),
        "outputs": _meaning(module, problem),
    }
    if target.suffix == ".onnx":
        content = _onnx(module, problem, header)
        with writing(target):
            write_whole(target, content)
    elif target.suffix == ".nnef":
        with writing(target):
            write_nnef(target, module, _example(problem), header)
    else:
        layers = list(_flat(module))
        header["layers"] = [_described(layer) for layer in layers]
        tensors = nn.Sequential(*layers).state_dict()
        with writing(target):
            save_values(target, {name: value.numpy() for name, value in tensors.items()}, header)
    return target


def check_target(target: Path, *, force: bool) -> Path:
    """Return the file to write; one of another kind, or an existing one, is refused.

    Args:
        target: The file.
        force: Whether an existing file may be overwritten.
    """
    if target.suffix not in (".safetensors", ".onnx", ".nnef"):
        raise UserError(f"{target}: the name must end in .safetensors, .onnx or .nnef.")
    if target.exists() and not force:
        raise UserError(f"{target} exists already; choose another name, or overwrite it: --force.")
    return target


def load_exported(path: str | Path) -> nn.Module:
    """Return the network in a .safetensors file that `export` wrote, from the file alone."""
    tensors, header = load_values(Path(path))
    if "layers" not in header:
        raise UserError(
            f"{path} does not say its layers; write it with comity export, or use run.model."
        )
    try:
        with torch.device("meta"):  # weights are loaded, so none are drawn
            network = nn.Sequential(*map(_layer, header["layers"]))
        state = {name: torch.from_numpy(value) for name, value in tensors.items()}
        network.load_state_dict(state, assign=True)
    except (KeyError, TypeError, RuntimeError) as error:
        raise UserError(f"{path} is damaged: its layers and tensors do not fit: {error}.") from None
    return network.eval()


def write_new(path: Path, text: str) -> None:
    """Write a new file; an existing one is refused."""
    if path.exists():
        raise UserError(f"{path} exists already; choose another name or remove it.")
    with writing(path):
        write_whole(path, text.encode())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Refuse a file that cannot be written in one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"cannot write {path}: {why}.") from None


# -- headers of files ----------------------------------------------------------------------


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of a chain; chains inside it are opened."""
    if isinstance(module, nn.Sequential):
        for part in module:
            yield from _flat(part)
    else:
        yield module


def _described(layer: nn.Module) -> dict[str, Any]:
    """Return the description of a layer as plain values."""
    if type(layer) is nn.Linear:
        bias = layer.bias is not None
        return {"type": "linear", "in": layer.in_features, "out": layer.out_features, "bias": bias}
    for name, kind in _POINTWISE.items():
        if type(layer) is kind:
            return {"type": name}
    raise UserError(
        f"a .safetensors file can describe chains of linear, {', '.join(_POINTWISE)} layers, not "
        f"{type(layer).__name__}, which this model has; export to .onnx, or use run.model."
    )


def _layer(description: Mapping[str, Any]) -> nn.Module:
    """Return the layer that `_described` described."""
    if description["type"] == "linear":
        return nn.Linear(description["in"], description["out"], bias=description["bias"])
    return _POINTWISE[description["type"]]()


def _features(problem: Problem) -> list[str] | None:
    """Return the names of the inputs, if they come from a table."""
    features = problem.features() if isinstance(problem, DataProblem) else ()
    return list(features) or None


def _scaling(problem: Problem) -> dict[str, list[float]] | None:
    """Return what to subtract from each raw input and by what to divide it then.

    None if scaling needs more than that.
    """
    if not isinstance(problem, DataProblem) or not problem.features():
        return None
    raw, learned = problem.samples().columns["inputs"].double(), problem.columns()["inputs"]
    ends = torch.stack([torch.zeros(raw.shape[1]), torch.ones(raw.shape[1])]).double()
    zero, one = problem.prepared(ends)
    divide = 1 / (one - zero)
    subtract = 0.0 - zero * divide
    if not torch.allclose(((raw - subtract) / divide).float(), learned, rtol=1e-3, atol=1e-3):
        return None
    return {"subtract": subtract.tolist(), "divide": divide.tolist()}


def _meaning(module: nn.Module, problem: Problem) -> str:
    """Return the meaning of a model's outputs, in words."""
    if isinstance(module, ActorCritic):
        return "the action, within the environment's bounds"
    if isinstance(problem, EnvironmentProblem):
        return "one value an action; take the action with the largest"
    assert isinstance(problem, DataProblem)
    with torch.inference_mode():
        shape = module(problem.columns()["inputs"][:1]).shape[1:]
    if shape == (1,):
        return "the logit of yes; its sigmoid is the probability of yes"
    if shape == (2,):
        return "the logits of no and yes; their softmax is the probabilities"
    return f"outputs of shape {list(shape)}, as the losses of {problem.name} take them"


def _example(problem: Problem) -> Tensor:
    """Return inputs of two samples, which only show type and shape."""
    if isinstance(problem, DataProblem):
        example = problem.columns()["inputs"][:2]
        if len(example) == 2:
            return example
        return example.new_zeros((2, *example.shape[1:]))  # the user's rows are not here
    assert isinstance(problem, EnvironmentProblem)
    shape = problem.environment().observation_space.shape
    return torch.zeros(2, int(np.prod(shape)))


def _onnx(module: nn.Module, problem: Problem, header: Mapping[str, Any]) -> bytes:
    """Return the model in ONNX for any number of rows, with the header in its metadata."""
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        raise UserError(
            "a .onnx file needs two packages more: pip install 'comity[onnx]'; a .safetensors file "
            "needs none."
        )
    with _quiet():
        try:
            program = torch.onnx.export(
                module,
                (_example(problem),),
                dynamo=True,
                verbose=False,
                input_names=["inputs"],
                output_names=["outputs"],
                dynamic_shapes=({0: torch.export.Dim("rows")},),
            )
        except torch.onnx.errors.OnnxExporterError as error:
            raise UserError(
                f"a model of {header['algorithm']} on {problem.name} cannot be written as ONNX "
                f"({str(error).splitlines()[0]}); use run.model from Python."
            ) from None
    assert program is not None
    program.model.metadata_props["comity"] = json.dumps(dict(header))
    return bytes(program.model_proto.SerializeToString())


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's remarks on optional packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
