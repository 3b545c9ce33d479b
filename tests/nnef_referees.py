"""Independent readers of NNEF: the parser of Khronos, nnef-tools, and onnxruntime behind both."""

from __future__ import annotations

import warnings
from pathlib import Path

import nnef
import numpy as np
import onnxruntime
import torch
from nnef_tools.conversion.nnef_to_onnx import Converter
from nnef_tools.interpreter.pytorch import NNEFModule
from nnef_tools.io.nnef import Reader
from nnef_tools.io.onnx import Writer

from comity.core.running import BATCH_NORM


def parsed(directory: Path) -> nnef.Graph:
    """The graph with its tensors, all shapes inferred by Khronos' parser."""
    graph = nnef.load_graph(str(directory))
    nnef.infer_shapes(graph)
    return graph


def interpreted(directory: Path, inputs: np.ndarray) -> np.ndarray:
    """Outputs of one sample by nnef-tools' interpreter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it indexes by a list of slices, as in 2020
        (outputs,) = NNEFModule(str(directory))(torch.from_numpy(inputs))
    return outputs.detach().numpy()


def run_as_onnx(directory: Path, file: Path, inputs: np.ndarray) -> np.ndarray:
    """Outputs of one sample by onnxruntime, of what nnef-tools converts to ONNX."""
    reader = Reader(custom_shapes=Converter.defined_shapes())
    Writer()(Converter()(reader(str(directory))), str(file))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # nnef-tools lists tensors among the inputs, which is warned of
    session = onnxruntime.InferenceSession(file, options)
    (outputs,) = session.run(None, {session.get_inputs()[0].name: inputs})
    return outputs


def assert_same_everywhere(directory: Path, model: torch.nn.Module, inputs: torch.Tensor) -> None:
    """All readers agree with PyTorch on one sample, to 1e-6 of the largest output."""
    with torch.inference_mode():
        expected = model(inputs).numpy()
    graph, numbers = parsed(directory), inputs.float().numpy()
    assert list(graph.tensors["outputs"].shape) == list(expected.shape)
    tolerance = 1e-6 * max(1.0, np.abs(expected).max())
    answers = [interpreted(directory, numbers)]
    if not any(isinstance(layer, BATCH_NORM) for layer in model.modules()):
        # nnef-tools gives ONNX's batch normalisation an attribute that it no longer has
        answers.append(run_as_onnx(directory, directory.with_suffix(".onnx"), numbers))
    for outputs in answers:
        assert outputs.shape == expected.shape
        np.testing.assert_allclose(outputs, expected, rtol=0, atol=tolerance)
