"""Train a small U-Net on a training set that Outcrop exported, and score it on the test split.

    pip install torch monai
    outcrop export JOB.outcrop patches
    python examples/train_unet.py patches --epochs 20

Labels count by their confidence, `uncertain` pixels not at all. The weights that do best on the split `val`, where
there is one, are scored on the split `test`, whose lines the net has not seen, nor their neighbours.
"""

import argparse
import time

import torch
from torch.nn.functional import cross_entropy, pad
from torch.utils.data import DataLoader

from outcrop.evaluate import pixel_scores
from outcrop.export import TrainingSet


def main():
    """Train, keep the best, score, and save the weights where asked."""
    options = parse()
    torch.manual_seed(options.seed)
    data = {"train": TrainingSet(options.folder, "train"), "test": TrainingSet(options.folder, "test")}
    try:
        data["val"] = TrainingSet(options.folder, "val")
    except ValueError:  # no such split: the last epoch is kept
        data["val"] = None
    classes = data["train"].classes
    net = make_net(len(classes)).to(options.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.rate)
    loader = DataLoader(data["train"], batch_size=options.batch, shuffle=True)
    print(f"{len(data['train'])} patches to train on, {sum(p.numel() for p in net.parameters())} weights")
    best, weights = -1.0, None
    for epoch in range(1, options.epochs + 1):
        begin = time.perf_counter()
        loss = train(net, loader, optimizer, options.device)
        score = test(net, data["val"], classes, options)["MIU"] if data["val"] else epoch
        if score > best:
            best, weights = score, {name: value.clone() for name, value in net.state_dict().items()}
        print(f"epoch {epoch}: loss {loss:.3f}, score {score:.3f}, {time.perf_counter() - begin:.1f} s")
    net.load_state_dict(weights)
    scores = test(net, data["test"], classes, options)
    print(f"test: {len(data['test'])} patches, mean IoU {scores['MIU']:.3f}, accuracy {scores['PA']:.3f}")
    for name, value in scores["IU"].items():
        print(f"  IoU of {name}: {value:.3f}")
    if options.output:
        torch.save(net.state_dict(), options.output)


def parse():
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="training set that 'outcrop export JOB.outcrop FOLDER' wrote")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8, help="patches a step")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("-o", "--output", help="file for the weights, for instance unet.pt")
    return parser.parse_args()


def make_net(n_classes):
    """Make a U-Net of three scales that takes patches of one channel."""
    try:
        from monai.networks.nets import UNet
    except ImportError:
        raise SystemExit("This example needs MONAI; install it with: pip install monai") from None
    return UNet(
        spatial_dims=2,
        in_channels=1,
        out_channels=n_classes,
        channels=(16, 32, 64, 128),
        strides=(2, 2, 2),
        num_res_units=1,
    )


def scores_of(net, images):
    """Scores of every class; the net halves the size three times, so patches are padded to a multiple of eight."""
    height, width = images.shape[-2:]
    return net(pad(images, (0, -width % 8, 0, -height % 8), mode="replicate"))[..., :height, :width]


def train(net, loader, optimizer, device):
    """One epoch; returns the mean loss."""
    net.train()
    total = weight_sum = 0.0
    for images, masks, weights in loader:
        images, masks, weights = images.to(device), masks.to(device), weights.to(device)
        loss = cross_entropy(scores_of(net, images), masks - 1, ignore_index=-1, reduction="none")
        optimizer.zero_grad()
        (torch.sum(loss * weights) / weights.sum().clamp(min=1e-6)).backward()
        optimizer.step()
        total += float(torch.sum(loss.detach() * weights))
        weight_sum += float(weights.sum())
    return total / weight_sum


@torch.no_grad()
def test(net, data, classes, options):
    """Pixel scores of the net's labels against the masks of a split."""
    net.eval()
    labels, truth = [], []
    for images, masks, _ in DataLoader(data, batch_size=options.batch):
        labels.append(1 + scores_of(net, images.to(options.device)).argmax(1).cpu())
        truth.append(masks)
    return pixel_scores(torch.cat(labels).numpy(), torch.cat(truth).numpy(), classes)


if __name__ == "__main__":
    main()
