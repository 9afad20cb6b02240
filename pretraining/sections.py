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


def make_sections(n, *, seed, device="cpu", crop=None, without=()):
    """Draw a batch; the same seed gives the same batch on the same kind of machine.

    Parameters
    ----------
    n : int
        Sections.
    seed : int
    device : str
    crop : int, optional
        Side of the sections; drawn from `CROPS` by default.
    without : sequence of str
        Families of structures to leave out: fault, salt, chaos.
    """
    draws = Draws(n, seed, device)
    earth = make_earth(draws, without)
    sections, live = record(draws, earth)
    edge = max_pool2d(earth.salt[:, None].float(), 3, 1, 1)[:, 0] - earth.salt.float() > 0
    kinds = earth.fault, earth.zone, earth.salt, earth.chaos, edge, earth.unconformity
    dip, layered = _dip(earth)
    whole = Batch(sections, torch.stack(kinds, 1).float(), dip, layered & live, live)
    corner = torch.randint(2**20, (3,), generator=torch.Generator().manual_seed(seed))
    side = crop or CROPS[int(corner[0]) % len(CROPS)]
    top, left = (int(value) % (SIZE - side + 1) for value in corner[1:])
    return Batch(*(part[..., top : top + side, left : left + side] for part in whole))


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
