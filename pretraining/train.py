"""Train the encoder's net on synthetic sections.

python -m pretraining.train out/encoder --steps 12000 --seed 0 --resume      # goes on where it was stopped
python -m pretraining.train out/encoder --steps 12000 --minutes 8 --resume   # at most eight minutes at a time
python -m pretraining.train out/nofault --steps 2000 --without fault         # a family of structures left out

Deterministic: every batch is drawn from the seed and the number of the step, so that training in pieces, or twice,
gives the same weights to the bit on one machine. Validation sections are drawn from seeds that training never uses.
"""

import argparse
import copy
import json
import math
import os
import time
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from pretraining.net import Net, balanced
from pretraining.sections import CLASSES, Sections

BATCH = 96  # sections a step
RATE = 2e-3  # highest learning rate
WARM = 200  # steps until it is reached
MEAN = 0.999  # of the running mean of the weights, which is what is kept
RARITY = (6.0, 3.0, 1.5, 1.5, 4.0, 4.0)  # weight of a positive pixel of each class
VALIDATION = 2**40  # first seed of the validation sections
N_VALIDATION = 8  # batches


def seed_of(seed, step):
    """Seed of the batch of a step."""
    return seed * 2**32 + step


def loss_of(answers, batch):
    """Logistic loss of the classes and squared error of the dip, at half the resolution of the sections."""
    truth, live = halved(batch.truth), halved(batch.live[:, None].float())
    layered, dip = halved(batch.layered[:, None].float()), halved(batch.dip)
    n = len(CLASSES)
    weight = torch.tensor(RARITY, device=answers.device)[None, :, None, None]
    logistic = binary_cross_entropy_with_logits(answers[:, :n], truth, pos_weight=weight, reduction="none")
    squared = ((answers[:, n:] - dip) ** 2).sum(1, keepdim=True)
    return (logistic * live).mean() + 0.5 * (squared * layered).mean()


def halved(values):
    """Means of 2 x 2 pixels."""
    return torch.nn.functional.avg_pool2d(values, 2)


def train(folder, *, steps, seed=0, minutes=None, resume=False, without=(), batch=BATCH, device=None, report=print):
    """Train, or go on training, until the steps or the minutes are over.

    Returns
    -------
    bool
        Whether all steps are done.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    repeatable()
    torch.manual_seed(seed)
    net = Net().to(device, memory_format=torch.channels_last)
    mean = copy.deepcopy(net)
    optimizer = torch.optim.AdamW(net.parameters(), RATE, weight_decay=1e-3)
    done, seconds, state = 0, 0.0, folder / "state.pt"
    about = {"steps": steps, "seed": seed, "without": sorted(without), "batch": batch}
    if resume and state.exists():
        saved = torch.load(state, map_location=device, weights_only=True)
        if saved["about"] != about:
            raise ValueError(f"{state} holds a training of {saved['about']}, not {about}; choose another folder.")
        net.load_state_dict(saved["net"])
        mean.load_state_dict(saved["mean"])
        optimizer.load_state_dict(saved["optimizer"])
        done, seconds = saved["done"], saved["seconds"]
    source = Sections(batch, device=device, without=without)
    begin = time.monotonic()
    while done < steps and (minutes is None or time.monotonic() - begin < 60 * minutes):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (done + 1) / WARM) * (0.5 + 0.5 * math.cos(math.pi * done / steps)) + 1e-6
        sections = source.batch(seed_of(seed, done))
        with torch.no_grad():
            x = balanced(sections.sections)[:, None].contiguous(memory_format=torch.channels_last)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            answers = net(x)[0]
        loss = loss_of(answers.float(), sections)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        follow(mean, net, done)
        done += 1
        if done % 500 == 0:
            report(f"{done} steps, {seconds + time.monotonic() - begin:.0f} s, loss {loss.item():.3f}", flush=True)
    seconds += time.monotonic() - begin
    states = {"net": net.state_dict(), "mean": mean.state_dict(), "optimizer": optimizer.state_dict()}
    part = state.with_suffix(".part")
    torch.save({**states, "done": done, "seconds": seconds, "about": about}, part)
    os.replace(part, state)
    if done == steps:
        torch.save(mean.state_dict(), folder / "weights.pt")
        figures = validate(mean, device=device)
        card = about | {"seconds": round(seconds), "device": device_name(device), "validation": figures}
        (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n")
        report(json.dumps(card))
    return done == steps


@torch.no_grad()
def follow(mean, net, step):
    """Move a running mean of the weights on: of all steps at first, then of about the last thousand."""
    pairs = zip(mean.state_dict().values(), net.state_dict().values(), strict=True)
    means, now = zip(*(pair for pair in pairs if pair[0].is_floating_point()), strict=True)
    torch._foreach_lerp_(means, now, max(1 - MEAN, 9 / (step + 10)))


def repeatable():
    """Let torch use only what gives the same bits twice."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads what it has not written
    torch.backends.cudnn.benchmark = False


def device_name(device):
    """Name of the device, as the card states it."""
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


@torch.no_grad()
def validate(net, *, device, batches=N_VALIDATION, batch=BATCH):
    """Intersection over union of every class at probability 1 / 2, and median error of the dip in samples a trace."""
    net = net.eval()
    both, either, errors = 0, 0, []
    source = Sections(batch, device=device)
    for number in range(batches):
        sections = source.batch(VALIDATION + number, crop=160)
        answers = net(balanced(sections.sections)[:, None])[0].float()
        found, truth = answers[:, : len(CLASSES)] > 0, halved(sections.truth) > 0.5
        live = halved(sections.live[:, None].float()) > 0.5
        both = both + (found & truth & live).sum((0, 2, 3))
        either = either + ((found | truth) & live).sum((0, 2, 3))
        slopes = [
            torch.tan(torch.atan2(v[:, 0], v[:, 1]) / 2) for v in (answers[:, len(CLASSES) :], halved(sections.dip))
        ]
        errors.append((slopes[0] - slopes[1]).abs()[halved(sections.layered[:, None].float())[:, 0] > 0.5].median())
    iou = {name: round(float(b / e), 3) for name, b, e in zip(CLASSES, both, either, strict=True)}
    return iou | {"dip": round(float(torch.stack(errors).mean()), 3)}


def main():
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("out/encoder"))
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="stop after so long; --resume goes on")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--without", nargs="*", default=[], help="families left out: fault, salt, chaos")
    parser.add_argument("--batch", type=int, default=BATCH)
    train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
