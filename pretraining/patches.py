"""Train the net that describes whole patches for retrieval, on synthetic sections.

python -m pretraining.patches out/patches --steps 6000 --seed 0
python -m pretraining.patches out/patches --export src/outcrop/features/patches.onnx  # writes the weights; needs `onnx`

Two views of one place (shifted, stretched, mirrored, noisy, clipped, of another phase) must be described alike, and so
must places of one section that show the same structure; places with other structures, and other sections, must not.
"""

import argparse
import copy
import json
import math
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, cross_entropy, grid_sample, relu

from pretraining.net import Even, balanced
from pretraining.sections import CLASSES, Sections
from pretraining.train import RATE, WARM, device_name, follow, repeatable, seed_of

WIDTHS = (32, 64, 64, 128, 128)  # channels of the convolutions; resolution is halved before the 2nd and the 4th
HALVED = (1, 3)
LENGTH = 128  # numbers of a description
SIDE = 96  # pixels of a view
PLACES = 6  # of a section
SECTIONS = 96  # of a step
TEMPERATURE = 0.05
SHOWN = {"zone": 0.25, "salt": 0.2, "chaos": 0.35}  # share of a view from which it shows a structure
LAYERED = 0.05  # share of all structures up to which it shows layers alone


class PatchNet(nn.Module):
    """Description of patches: means and spreads of filters over the patch, as `LENGTH` numbers from 0 on with sum one.

    Takes balanced patches, shape (n, 1, height, width), of any size from 32 x 32.
    """

    def __init__(self):
        super().__init__()
        self.stem = Even()
        sizes = zip((3 * self.stem.filters.out_channels // 2, *WIDTHS), WIDTHS, strict=False)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()) for a, b in sizes
        )
        self.last = nn.Linear(2 * WIDTHS[-1], LENGTH)
        self.shares = nn.Linear(LENGTH, len(CLASSES))

    def maps(self, x):
        """Filters at an eighth of the resolution."""
        x = self.stem(x)
        for number, layer in enumerate(self.layers):
            x = layer(avg_pool2d(x, 2) if number in HALVED else x)
        return x

    def forward(self, x):
        """Descriptions, shape (n, LENGTH)."""
        x = self.maps(x).float()
        mean = x.mean((2, 3))
        spread = (((x - mean[:, :, None, None]) ** 2).mean((2, 3)) + 1e-4).sqrt()
        found = relu(self.last(torch.cat([mean, spread], 1)))
        return found / (found.sum(1, keepdim=True) + 1e-3)


def overlap(a, b):
    """Similarity of every pair of descriptions: one less half the sum of their differences, from 0 to 1."""
    return 1 - (a[:, None] - b[None]).abs().sum(-1) / 2


class Views:
    """Two views of several places of sections, and what they show.

    Parameters
    ----------
    generator : torch.Generator
        Of the device of the sections.
    """

    def __init__(self, generator):
        self.generator = generator

    def uniform(self, low, high, *shape):
        """Numbers between two limits."""
        drawn = torch.rand(shape, generator=self.generator, device=self.generator.device)
        return low + (high - low) * drawn

    def pairs(self, batch):
        """Views, shape (2, n, SIDE, SIDE), and the shares of `CLASSES` in the first, for PLACES of every section."""
        n, size = len(batch.sections) * PLACES, batch.sections.shape[-1]
        which = torch.arange(len(batch.sections), device=batch.sections.device).repeat_interleave(PLACES)
        centre = self.uniform(60, size - 60, n, 2)
        side = torch.exp(self.uniform(math.log(60), math.log(130), n, 1))
        views, shares = [], None
        for number in range(2):
            moved = centre + self.uniform(-16, 16, n, 2) * number
            ratio = torch.exp(self.uniform(-0.7, 0.7, n, 1) * number + self.uniform(-0.15, 0.15, n, 2))
            grid = self.grid(moved, (side * ratio).clamp(44, 160), size)
            sampled = grid_sample(
                batch.sections[which][:, None], grid, mode="bilinear", padding_mode="reflection", align_corners=False
            )[:, 0]
            views.append(self.recorded(sampled))
            if shares is None:
                truth = avg_pool2d(batch.truth, 4)[which]
                shares = grid_sample(truth, grid[:, ::4, ::4], padding_mode="border", align_corners=False).mean((2, 3))
        return torch.stack(views), shares, which

    def grid(self, centre, side, size):
        """Where the pixels of views lie, mirrored or not, as `grid_sample` takes it."""
        n = len(centre)
        steps = (torch.arange(SIDE, device=centre.device) + 0.5) / SIDE - 0.5
        mirrored = torch.where(self.uniform(0, 1, n) < 0.5, -1.0, 1.0)
        rows = centre[:, :1] + side[:, :1] * steps
        columns = centre[:, 1:] + side[:, 1:] * steps * mirrored[:, None]
        rows, columns = (2 * part / size - 1 for part in (rows, columns))
        return torch.stack([columns[:, None, :].expand(-1, SIDE, -1), rows[:, :, None].expand(-1, -1, SIDE)], -1)

    def recorded(self, x):
        """Views with another phase, noise and clip."""
        n = len(x)
        angle = self.uniform(-1, 1, n)[:, None, None] * torch.pi * (self.uniform(0, 1, n) < 0.3)[:, None, None]
        spectrum = torch.fft.rfft(x, dim=1)
        x = torch.fft.irfft(spectrum * torch.exp(1j * angle), n=SIDE, dim=1)
        x = x / (x.square().mean((1, 2), keepdim=True).sqrt() + 1e-3)
        noise = torch.randn(x.shape, generator=self.generator, device=x.device)
        smooth = avg_pool2d(noise[:, None], 3, 1, 1)[:, 0] * 3
        noise = torch.where((self.uniform(0, 1, n) < 0.5)[:, None, None], noise, smooth)
        level = self.uniform(0, 0.6, n) * (self.uniform(0, 1, n) < 0.7)
        x = x + level[:, None, None] * noise
        limit = torch.exp(self.uniform(math.log(1.2), math.log(6), n))[:, None, None]
        return torch.minimum(torch.maximum(x, -limit), limit)


def kinds_of(shares):
    """What each view shows: 0 nothing clear, 1 layers, 2 and on one of `SHOWN`, the largest above its limit."""
    columns = [CLASSES.index(name) for name in SHOWN]
    over = shares[:, columns] / torch.tensor(list(SHOWN.values()), device=shares.device)
    best, which = over.max(1)
    kinds = torch.where(best >= 1, which + 2, 0)
    return torch.where(shares[:, columns].sum(1) <= LAYERED, torch.ones_like(kinds), kinds)


def loss_of(found, shares, which, net):
    """Contrast of the two views of every place, of places of one section by what they show, and error of the shares."""
    first, second = found.chunk(2)
    kinds = kinds_of(shares)
    same = which[:, None] == which[None, :]
    alike = kinds[:, None] == kinds[None, :]
    clear = (kinds[:, None] > 0) & (kinds[None, :] > 0)
    itself = torch.eye(len(which), dtype=torch.bool, device=which.device)
    structure = alike & same & clear & (kinds[:, None] > 1) & ~itself
    hidden = same & ~itself & ~structure & (alike | ~clear)  # neither alike nor different for sure
    logits = (overlap(first, second) / TEMPERATURE).masked_fill(hidden, -1e4)
    wanted = itself + 0.5 * structure
    wanted = wanted / wanted.sum(1, keepdim=True)
    contrast = (cross_entropy(logits, wanted) + cross_entropy(logits.T, wanted)) / 2
    return contrast + 2 * (torch.sigmoid(net.shares(LENGTH * first)) - shares).square().mean()


def train(folder, *, steps, seed=0, device=None, report=print):
    """Train, and keep the running mean of the weights with a card."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    repeatable()
    torch.manual_seed(seed)
    net = PatchNet().to(device, memory_format=torch.channels_last)
    mean = copy.deepcopy(net)
    optimizer = torch.optim.AdamW(net.parameters(), RATE, weight_decay=1e-3)
    source, views = Sections(SECTIONS, device=device), Views(torch.Generator(device))
    begin = time.monotonic()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / WARM) * (0.5 + 0.5 * math.cos(math.pi * step / steps)) + 1e-6
        views.generator.manual_seed(seed_of(seed, step))
        with torch.no_grad():
            pairs, shares, which = views.pairs(source.batch(seed_of(seed, step), crop=224))
            x = balanced(pairs.flatten(0, 1))[:, None].contiguous(memory_format=torch.channels_last)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            found = net(x)
        loss = loss_of(found.float(), shares, which, net)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        follow(mean, net, step)
        if (step + 1) % 500 == 0:
            report(f"{step + 1} steps, {time.monotonic() - begin:.0f} s, loss {loss.item():.3f}", flush=True)
    torch.save(mean.state_dict(), folder / "weights.pt")
    card = {"steps": steps, "seed": seed, "seconds": round(time.monotonic() - begin), "device": device_name(device)}
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    report(json.dumps(card))
    return mean.eval()


def export(folder, path):
    """Write trained weights as the ONNX file that ships; the largest change that 16-bit weights make."""
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    from pretraining.export import Graph, even, folded

    net = PatchNet().eval()
    net.load_state_dict(torch.load(Path(folder) / "weights.pt", map_location="cpu", weights_only=True))
    graph = Graph(folded(net))
    x = even(graph, "patches")
    for number in range(len(net.layers)):
        x = graph.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]) if number in HALVED else x
        x = graph.add("Relu", graph.convolved(f"layers.{number}.0", x))
    mean = graph.add("GlobalAveragePool", x)
    square = graph.add("GlobalAveragePool", graph.add("Mul", *[graph.add("Sub", x, mean)] * 2))
    spread = graph.add("Sqrt", graph.add("Add", square, graph.constant(1e-4)))
    both = graph.add("Flatten", graph.add("Concat", mean, spread, axis=1))
    weights = [graph.constant(part.detach().numpy()) for part in (net.last.weight.T, net.last.bias)]
    found = graph.add("Relu", graph.add("Add", graph.add("MatMul", both, weights[0]), weights[1]))
    total = graph.add("Add", graph.add("ReduceSum", found, graph.whole([1])), graph.constant(1e-3))
    graph.nodes.append(helper.make_node("Div", [found, total], ["descriptions"]))
    given = helper.make_tensor_value_info("patches", TensorProto.FLOAT, ["n", 1, "height", "width"])
    wanted = helper.make_tensor_value_info("descriptions", TensorProto.FLOAT, ["n", LENGTH])
    made = helper.make_graph(graph.nodes, "patches", [given], [wanted], graph.weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    helper.set_model_props(model, {"card": (Path(folder) / "card.json").read_text()})
    Path(path).write_bytes(model.SerializeToString())
    x = balanced(Sections(4).batch(0, crop=99).sections)[:, None]
    with torch.no_grad():
        expected = net(x).numpy()
    shipped = onnxruntime.InferenceSession(path).run(None, {"patches": x.numpy()})[0]
    return float(np.abs(shipped - expected).max())


def main():
    """Train, or export, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("out/patches"))
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", type=Path)
    options = parser.parse_args()
    if options.export:
        off = export(options.folder, options.export)
        print(f"{options.export}: {options.export.stat().st_size / 1e6:.2f} MB, descriptions off by {off:.5f}")
    else:
        train(options.folder, steps=options.steps, seed=options.seed)


if __name__ == "__main__":
    main()
