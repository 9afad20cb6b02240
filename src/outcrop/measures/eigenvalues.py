"""Eigenvalues of many small symmetric matrices, on a GPU with the fastest batched solver that is installed.

torch solves matrices of up to 32 rows in batches and larger matrices one by one; XLA (jax) and the newest routine of
cuSOLVER (cupy) solve larger matrices in batches too.
"""

import os
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from outcrop.arrays import Array, is_numpy, on_cpu

AT_ONCE = 32  # rows of the largest matrices that torch solves in batches
BATCH = 8192  # matrices per call of torch, which fails on some larger batches


def symmetric_eigenvalues(matrices: Array, xp: Any) -> Array:
    """Return the eigenvalues of a stack of symmetric matrices, ascending.

    Parameters
    ----------
    matrices : array, shape (n, size, size)
    xp : namespace
        Array namespace of the matrices.
    """
    if is_numpy(xp) or on_cpu(matrices):
        return xp.linalg.eigvalsh(matrices)
    if matrices.shape[-1] > AT_ONCE and (solve := batched_solver()):
        return solve(matrices)
    return xp.concat([xp.linalg.eigvalsh(matrices[i : i + BATCH, ...]) for i in range(0, len(matrices), BATCH)])


@lru_cache(maxsize=1)
def batched_solver() -> Callable[[Array], Array] | None:
    """Return a function that computes the eigenvalues of a stack of torch matrices on a GPU at once.

    If neither jax nor cupy is installed, return None and warn.
    """
    for make in (_jax, _cupy):
        try:
            return make()
        except ImportError:
            continue
    warnings.warn(
        "Neither jax nor cupy is installed for the GPU: eigenvalues are computed one by one, about 30 times slower; "
        "install one of them.",
        stacklevel=4,
    )
    return None


def _jax() -> Callable[[Array], Array]:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs memory too
    import jax
    import torch.utils.dlpack

    if jax.default_backend() != "gpu":
        raise ImportError("jax has no GPU")
    solve = jax.jit(jax.numpy.linalg.eigvalsh)

    def solved(matrices: Array) -> Array:
        """Return the eigenvalues of torch matrices; torch and jax wait for each other, because they share memory."""
        stream, matrices = torch.cuda.current_stream(matrices.device), matrices.contiguous()
        stream.synchronize()
        with jax.enable_x64(True):
            values = solve(jax.dlpack.from_dlpack(matrices)).block_until_ready()
        found = torch.utils.dlpack.from_dlpack(values).clone()
        stream.synchronize()
        return found

    return solved


def _cupy() -> Callable[[Array], Array]:
    import cupy
    import torch.utils.dlpack

    def solved(matrices: Array) -> Array:
        with cupy.cuda.Device(matrices.device.index or 0):
            return torch.utils.dlpack.from_dlpack(cupy.linalg.eigvalsh(cupy.from_dlpack(matrices.contiguous())))

    return solved
