"""Batches of synthetic sections with their truth, made where the net is trained and never stored."""

from typing import NamedTuple

import torch
from torch.nn.functional import max_pool2d

from pretraining.draws import SIZE, Draws
from pretraining.earth import make_earth
from pretraining.recording import record

CLASSES = ("fault", "zone", "salt", "chaos", "edge", "unconformity")
CROPS = (96, 128, 160, 192)  # sides of the crops; a net that sees small ones learns what a rim looks like


class Batch(NamedTuple):
    """Sections and their truth."""

    sections: torch.Tensor  # (n, height, width)
    truth: torch.Tensor  # (n, len(CLASSES), height, width), 0 or 1
    dip: torch.Tensor  # (n, 2, height, width): sine and cosine of twice the angle of the layers
    layered: torch.Tensor  # (n, height, width): where layers have a dip
    live: torch.Tensor  # (n, height, width): where something is recorded


class Sections:
    """Source of batches: the same seed gives the same batch on the same kind of machine.

    On a GPU the thousands of small steps that a batch takes are recorded once and played again as one.

    Parameters
    ----------
    n : int
        Sections drawn at once; where crops are small, several are cut from each.
    device : str
    without : sequence of str
        Families of structures to leave out: fault, salt, chaos.
    """

    def __init__(self, n, *, device="cpu", without=()):
        self.n, self.without = n, tuple(without)
        self.generator = torch.Generator(device)
        self.graph = None
        if torch.device(device).type == "cuda":
            self._record()

    def _record(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            self._draw()  # what is set up on first use must not be recorded
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.generator)
        with torch.cuda.graph(self.graph):
            self.whole = self._draw()

    @torch.no_grad()
    def _draw(self):
        draws = Draws(self.n, self.generator)
        earth = make_earth(draws, self.without)
        sections, live = record(draws, earth)
        edge = max_pool2d(earth.salt[:, None].float(), 3, 1, 1)[:, 0] - earth.salt.float() > 0
        kinds = earth.fault, earth.zone, earth.salt, earth.chaos, edge, earth.unconformity
        dip, layered = _dip(earth)
        return Batch(sections, torch.stack(kinds, 1).float(), dip, layered & live, live)

    def batch(self, seed, *, crop=None):
        """Batch of a seed, with sides of `crop` pixels, drawn from `CROPS` by default."""
        self.generator.manual_seed(seed)
        if self.graph is None:
            whole = self._draw()
        else:
            self.graph.replay()
            whole = self.whole
        corner = torch.randint(2**20, (3,), generator=torch.Generator().manual_seed(seed))
        side = crop or CROPS[int(corner[0]) % len(CROPS)]
        each = 1 if crop else SIZE // side  # small crops lie side by side, so that nothing is made in vain
        top, left = (int(value) % (SIZE - each * side + 1) for value in corner[1:])
        places = [(top + row * side, left + column * side) for row in range(each) for column in range(each)]
        return Batch(*(torch.cat([part[..., i : i + side, j : j + side] for i, j in places]) for part in whole))


def _dip(earth):
    """Sine and cosine of twice the angle between layers and the horizontal, and where layers are layers."""
    age = earth.age
    down = torch.zeros_like(age)
    across = torch.zeros_like(age)
    down[:, 1:-1] = (age[:, 2:] - age[:, :-2]) / 2
    across[..., 1:-1] = (age[..., 2:] - age[..., :-2]) / 2
    angle = 2 * torch.atan2(-across, down.abs() + 0.1)
    smooth = (down > 0.2) & (across.abs() < 3)
    return torch.stack([torch.sin(angle), torch.cos(angle)], 1), smooth & ~earth.salt & ~earth.chaos & ~earth.fault
