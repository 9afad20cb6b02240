"""Write trained weights as the ONNX file: `python -m pretraining.export FOLDER src/outcrop/features/encoder.onnx`.

Batch normalisation is folded into the convolutions and weights are kept as 16-bit floats, which a runtime widens when
it opens the file; the largest change that this makes to an answer is printed. Needs the package `onnx`.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from pretraining.net import Net, balanced
from pretraining.sections import CLASSES, Sections

INPUT, OUTPUTS = "sections", ("answers", "quarter", "half")


def folded(net):
    """Weight and bias of every convolution, batch normalisation included, by the convolution's name."""
    found = {}
    for name, block in net.named_modules():
        if isinstance(block, torch.nn.Sequential):
            for k in range(0, len(block), 3):
                found[f"{name}.{k}"] = torch.nn.utils.fusion.fuse_conv_bn_eval(block[k], block[k + 1])
    head = {"head": net.head} if hasattr(net, "head") else {}
    return found | {"stem.filters": net.stem.filters} | head


class Graph:
    """Nodes and weights of an ONNX graph as it grows; every method adds a node and gives the name of its result."""

    def __init__(self, convolutions):
        self.convolutions, self.nodes, self.weights = convolutions, [], []

    def add(self, kind, *inputs, **attributes):
        """Add a node."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values):
        """Add an array, kept as 16-bit floats and widened when the file is opened."""
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, np.float16), name))
        return self.add("Cast", name, to=TensorProto.FLOAT)

    def whole(self, values):
        """Add an array of whole numbers."""
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, np.int64), name))
        return name

    def convolved(self, name, x):
        """Add a convolution."""
        layer = self.convolutions[name]
        inputs = [x, self.constant(layer.weight.detach().numpy())]
        if layer.bias is not None:
            inputs.append(self.constant(layer.bias.detach().numpy()))
        same = {"pads": [*layer.padding, *layer.padding], "strides": list(layer.stride)}
        return self.add("Conv", *inputs, kernel_shape=list(layer.kernel_size), **same)

    def block(self, name, x):
        """Add two convolutions with their rectifiers."""
        for k in (0, 3):
            x = self.add("Relu", self.convolved(f"{name}.{k}", x))
        return x


def even(graph, x):
    """Add the first filters, whose sizes and products alone go on; see `Even`."""
    first, second = "first", "second"
    graph.nodes.append(
        helper.make_node("Split", [graph.convolved("stem.filters", x)], [first, second], axis=1, num_outputs=2)
    )
    both = [graph.add("Abs", name) for name in (first, second)]
    total = graph.add("Add", graph.add("Add", *both), graph.constant(1e-3))
    product = graph.add("Div", graph.add("Mul", graph.add("Mul", first, second), graph.constant(2.0)), total)
    return graph.add("Concat", *both, product, axis=1)


def to_onnx(net):
    """ONNX model of a net in evaluation mode."""
    graph = Graph(folded(net))
    sizes = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "twice")
    x, levels = even(graph, INPUT), []
    for number in range(len(net.down)):
        x = graph.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]) if number else x
        x = graph.block(f"down.{number}", x)
        levels.append(x)
    features = []
    for number, level in enumerate(levels[-2::-1]):
        x = graph.add(
            "Resize", x, "", "twice", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )
        x = graph.block(f"up.{number}", graph.add("Concat", x, level, axis=1))
        features.append(x)
    results = graph.convolved("head", x), features[1], features[2]
    graph.nodes += [helper.make_node("Identity", [one], [name]) for one, name in zip(results, OUTPUTS, strict=True)]
    described = [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["n", 1, "height", "width"])]
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"{name}_{k}" for k in range(4)]) for name in OUTPUTS
    ]
    made = helper.make_graph(graph.nodes, "encoder", described, given, [*graph.weights, sizes])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def main():
    """Convert, and compare with the net."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="as pretraining.train wrote it")
    parser.add_argument("path", type=Path)
    options = parser.parse_args()
    net = Net().eval()
    net.load_state_dict(torch.load(options.folder / "weights.pt", map_location="cpu", weights_only=True))
    card = json.loads((options.folder / "card.json").read_text())
    model = to_onnx(net)
    helper.set_model_props(model, {"classes": ",".join(CLASSES), "card": json.dumps(card)})
    options.path.write_bytes(model.SerializeToString())
    import onnxruntime

    x = balanced(Sections(4).batch(0, crop=128).sections)[:, None]
    with torch.no_grad():
        wanted = net(x)[0].numpy()
    found = onnxruntime.InferenceSession(options.path).run([OUTPUTS[0]], {INPUT: x.numpy()})[0]
    print(
        f"{options.path}: {options.path.stat().st_size / 1e6:.2f} MB, answers off by {np.abs(found - wanted).max():.3f}"
    )


if __name__ == "__main__":
    main()
