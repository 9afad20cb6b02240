"""Train the nets of `outcrop reproduce training` on a machine with NumPy, torch and monai only.

python benchmarks/training.py examples OUT/examples.npz --seeds 3              # on a machine with data and package
PYTHONPATH=src python benchmarks/training.py nets OUT/examples.npz OUT/training-nets.npz --device cuda

`outcrop reproduce training --seeds 3 -o OUT` then reads OUT/training-nets.npz.
"""

import argparse
import json
import runpy
import time
from hashlib import sha256
from pathlib import Path

import numpy as np

import outcrop

# Loaded by its path, because the package of experiments imports pandas and other packages.
NETS = runpy.run_path(str(Path(__file__).parents[1] / "src" / "outcrop" / "experiments" / "training_nets.py"))


def write_examples(path, sources, lines, tasks, classes):
    """Write the examples of all nets into one file; `tasks` maps (labels, scored line, seed) to examples."""
    arrays = {f"values/{name}": values for name, values in sources.items()}
    about: dict = {"lines": [int(line) for line in lines], "classes": list(classes), "tasks": []}
    for number, ((labels, line, seed), examples) in enumerate(tasks.items()):
        about["tasks"].append([labels, line, seed, examples.source])
        arrays[f"{number}/codes"], arrays[f"{number}/starts"] = examples.codes, examples.starts.astype(np.int16)
        if examples.weights is not None:
            arrays[f"{number}/weights"] = examples.weights
    np.savez_compressed(path, about=json.dumps(about), **arrays)


def read_examples(path):
    """Read sources, lines, tasks and classes from a file of `write_examples`."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(str(arrays["about"]))
    tasks = {}
    for number, (labels, line, seed, source) in enumerate(about["tasks"]):
        codes, starts = arrays[f"{number}/codes"], arrays[f"{number}/starts"]
        tasks[labels, line, seed] = NETS["Examples"](source, codes, arrays.get(f"{number}/weights"), starts)
    sources = {name: arrays[f"values/{name}"] for name in ("patches", "sections")}
    return sources, about["lines"], tasks, about["classes"]


def write_nets(path, found, made):
    """Write the codes of nets, (labels, scored line, seed) -> section, with the options of the nets."""
    about = {"made": made, "nets": [list(key) for key in found]}
    np.savez_compressed(path, about=json.dumps(about), **{str(i): codes for i, codes in enumerate(found.values())})


def make_examples(options):
    """Write training labels of all kinds to one file."""
    from outcrop.datasets.section import CLASSES
    from outcrop.experiments import training
    from outcrop.experiments.expert import opened

    tasks = {}
    with opened(options.data, options.quick) as survey:
        for seed in range(options.seeds):
            for name, make in training.LABELS.items():
                for line in training.OTHER_LINE:
                    begin = time.perf_counter()
                    tasks[name, line, seed] = make(survey, line, seed, options.device)
                    print(f"{name}, line {line}, seed {seed}: {time.perf_counter() - begin:.0f} s", flush=True)
        lines = survey.clean["inline"].values
        write_examples(options.path, training.amplitudes(survey), lines, tasks, CLASSES)
    print(f"{options.path.stat().st_size / 1e6:.0f} MB")


def train_nets(options):
    """Train a net on each example; the file is written after each, so that an interrupted run can be resumed."""
    sources, lines, tasks, classes = read_examples(options.path)
    sizes = {"patches": options.patches or NETS["PATCHES"], "epochs": options.epochs or NETS["EPOCHS"]}
    made = {"version": outcrop.__version__, **sizes, "examples": sha256(options.path.read_bytes()).hexdigest()}
    found = NETS["read_nets"](options.output, made)
    for (name, line, seed), examples in tasks.items():
        if (name, line, seed) in found:
            continue
        begin = time.perf_counter()
        section, values = sources["sections"][lines.index(line)], sources[examples.source]
        found[name, line, seed] = NETS["labels_of_net"](
            values, examples, section, classes, **sizes, seed=seed, device=options.device
        )
        write_nets(options.output, found, made)
        print(f"net on {name}, line {line}, seed {seed}: {time.perf_counter() - begin:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    examples = commands.add_parser("examples")
    examples.add_argument("path", type=Path)
    examples.add_argument("--data", type=Path, help="folder of the real data; default: OUTCROP_DATA")
    examples.add_argument("--seeds", type=int, default=1)
    examples.add_argument("--quick", action="store_true")
    examples.set_defaults(work=make_examples)
    nets = commands.add_parser("nets")
    nets.add_argument("path", type=Path)
    nets.add_argument("output", type=Path)
    nets.add_argument("--patches", type=int, help="of every net, to try it out")
    nets.add_argument("--epochs", type=int)
    nets.set_defaults(work=train_nets)
    for command in (examples, nets):
        command.add_argument("--device", help="a torch device, for instance cuda")
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
