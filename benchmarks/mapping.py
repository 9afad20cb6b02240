"""Time of the label mapping, as ratios to its matrix products and to other packages, measured in the same run.

python benchmarks/mapping.py                  # one iteration at 9801 x 2000 x 1000, k-means and projection
python benchmarks/mapping.py --objective      # time to the objective of 200 plain iterations (minutes)
python benchmarks/mapping.py --growth         # cost per patch from 1,000 to 20,000 patches
python benchmarks/mapping.py --device cuda    # 200 iterations in float32 and TF32, peak memory
"""

import argparse
import time
import warnings
from collections import deque
from itertools import islice

import numpy as np

from outcrop.mapping.factorisation import factorise, prepare_solver, solve_coefficients
from outcrop.mapping.label_mapper import LabelMapper
from outcrop.mapping.sparsity import cluster_means, project_sparsity


def row(name, value, note=""):
    print(f"{name:<58} {value:>12}  {note}", flush=True)


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def best(functions, rounds=3):
    """Return the shortest time of each function, called in turns so that other load affects all alike."""
    times = [[seconds(function) for function in functions.values()] for _ in range(rounds)]
    return dict(zip(functions, np.min(times, axis=0), strict=True))


def textures(n_patches, size=99, seed=0):
    """Return patches like seismic data, of four classes: smoothed noise with layers at four dips."""
    from scipy.ndimage import gaussian_filter, rotate

    rng = np.random.default_rng(seed)
    kinds = []
    for angle in (0, 20, 45, 90):
        noise = gaussian_filter(rng.normal(size=(size * 4, size * 4)), (1.5, 12))
        noise = rotate(noise, angle, reshape=False, mode="wrap")
        starts = rng.integers(0, 3 * size, (n_patches // 4, 2))
        kinds.append(np.stack([noise[i : i + size, j : j + size] for i, j in starts]))
    stack = np.concatenate(kinds)
    return np.clip(0.5 + stack / (6 * stack.std()), 0, 1).astype("f4")


def start(n_patches=2000, atoms_per_class=250, size=99):
    """Return X, sparse W and random H as in `fit`."""
    patches = textures(n_patches, size).reshape(n_patches, -1)
    quarters = np.split(patches, 4)
    atoms = np.concatenate([quarter[:atoms_per_class] for quarter in quarters])
    W = np.ascontiguousarray(project_sparsity(atoms, 0.4).T.astype("f4"))
    H = np.random.default_rng(0).random((W.shape[1], n_patches), dtype="f4")
    return patches.T, W, H


def stepper(X, W, H, **options):
    """Return a function that computes one iteration per call."""
    steps = factorise(X, W + 0, H, **options)
    next(steps)
    return lambda: next(steps)


def plain(X, W, H, *, published_order=False, gamma=5.0, eps=1e-9):
    """Compute the paper's update rules, each as one NumPy expression."""
    model = (W @ H) @ H.T if published_order else W @ (H @ H.T)
    W = W * (X @ H.T + eps) / (model + 0.1 * W + eps)
    model = W.T @ (W @ H) if published_order else (W.T @ W) @ H
    return W, H * (W.T @ X + gamma * H + eps) / (model + 0.5 * H + gamma * (H @ H.T) @ H + eps)


def sklearn_iterations(X, W, H, n):
    from sklearn.decomposition import NMF

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NMF(W.shape[1], solver="mu", init="custom", max_iter=n, tol=0)
        model.fit_transform(X.T, W=np.ascontiguousarray(H.T), H=np.ascontiguousarray(W.T))


def iteration():
    X, W, H = start()
    G, S = H @ H.T, W.T @ W
    products = best(
        {
            "X H^T": lambda: X @ H.T,
            "H H^T": lambda: H @ H.T,
            "W (H H^T)": lambda: W @ G,
            "W^T X": lambda: W.T @ X,
            "W^T W": lambda: W.T @ W,
            "(W^T W) H": lambda: S @ H,
            "(H H^T) H": lambda: G @ H,
        }
    )
    ways = {variant: stepper(X, W, H, variant=variant) for variant in ("paper", "published", "exact")}
    ways["exact, accelerated"] = stepper(X, W, H, variant="exact", accelerate=True)
    ways["plain formula"] = lambda: plain(X, W, H)
    ways["plain formula, published product order"] = lambda: plain(X, W, H, published_order=True)
    ways["scikit-learn, 1 iteration"] = lambda: sklearn_iterations(X, W, H, 1)
    ways["scikit-learn, 3 iterations"] = lambda: sklearn_iterations(X, W, H, 3)
    times = best(ways)
    times["scikit-learn multiplicative"] = (
        times.pop("scikit-learn, 3 iterations") - times["scikit-learn, 1 iteration"]
    ) / 2
    del times["scikit-learn, 1 iteration"]
    floor = sum(products.values())
    row("the seven matrix products", f"{floor:.2f} s", "9801 x 2000 x 1000, float32")
    for name, value in times.items():
        row(
            f"  {name}: against them",
            f"{value / floor:.2f}",
            "aim 1.15" if name in ("paper", "published", "exact") else "",
        )
    return times["paper"]


def initialisation(per_iteration):
    patches = textures(2000).reshape(4, 500, -1)
    parts = best(
        {
            "k-means": lambda: [cluster_means(part, 250, random_state=0) for part in patches],
            "projection": lambda: project_sparsity(patches.reshape(2000, -1)[::2], 0.4),
        },
        rounds=2,
    )
    for name, value in parts.items():
        row(f"{name}: against 200 iterations", f"{value / (200 * per_iteration):.4f}", f"{value:.2f} s")


def time_to_objective(n_patches, atoms_per_class, size):
    X, W, H = start(n_patches, atoms_per_class, size)
    for variant in ("paper", "exact"):
        begin = time.perf_counter()
        *_, (_, _, terms) = islice(factorise(X, W.copy(), H.copy(), variant=variant), 201)
        slow = time.perf_counter() - begin
        begin = time.perf_counter()
        steps = factorise(X, W.copy(), H.copy(), variant=variant, accelerate=True)
        count = next(i for i, (_, _, now) in enumerate(steps) if now[0] <= terms[0])
        fast = time.perf_counter() - begin
        note = f"{count} instead of 200 iterations, {size * size} x {n_patches} x {4 * atoms_per_class}"
        row(f"{variant}, accelerated: share of the time", f"{fast / slow:.2f}", note)


def growth():
    for n_patches in (1000, 2000, 5000, 10_000, 20_000):
        X, W, H = start(n_patches, 50, 49)
        solver = prepare_solver(W.T @ W, penalty=0.5)
        ways = {"fit": stepper(X, W, H), "solve": lambda X=X, W=W, s=solver: solve_coefficients(W.T @ X, s)}
        times = {name: value / n_patches * 1e6 for name, value in best(ways).items()}
        row(f"{n_patches} patches: one iteration, us per patch", f"{times['fit']:.1f}", "2401 pixels, 200 atoms")
        row("  coefficients when unseen, us per patch", f"{times['solve']:.1f}")


def cuda():
    import torch

    def on_device(function, n):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        taken = seconds(lambda: (deque((function() for _ in range(n)), maxlen=0), torch.cuda.synchronize()))
        return f"{taken:.3f} s", f"peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB"

    def products():
        for _ in range(10):
            X @ H.T, W @ G, W.T @ X, W.T @ W, G @ H, H @ H.T

    X, W, H = (torch.asarray(np.ascontiguousarray(a), device="cuda") for a in start())
    G = H @ H.T
    for name, precision in (("float32", "highest"), ("TF32", "high")):
        torch.set_float32_matmul_precision(precision)
        products()
        row(f"matrix products of 200 iterations, {name}", *on_device(products, 20))
        for variant in ("paper", "published", "exact"):
            step = stepper(X, W, H, variant=variant)
            step()
            row(f"{variant}, 200 iterations, {name}", *on_device(step, 200))
    patches = torch.asarray(textures(2000), device="cuda").reshape(4, 500, -1)
    for _ in range(2):
        row("k-means", *on_device(lambda: [cluster_means(part, 250, random_state=0) for part in patches], 1))
        row("projection", *on_device(lambda: project_sparsity(W.T, 0.4), 1))
    classes = np.repeat(["a", "b", "c", "d"], 500)
    for tf32 in (False, True):
        fit = LabelMapper(tf32=tf32).fit
        row(f"fit, tf32={tf32}", *on_device(lambda fit=fit: fit(patches.reshape(2000, 99, 99), classes), 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objective", action="store_true")
    parser.add_argument("--full", action="store_true", help="with --objective: at 9801 x 2000 x 1000")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    if options.device == "cuda":
        cuda()
    elif options.objective:
        time_to_objective(*((2000, 250, 99) if options.full else (1000, 125, 49)))
    elif options.growth:
        growth()
    else:
        initialisation(iteration())


if __name__ == "__main__":
    main()
