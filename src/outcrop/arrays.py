"""Choose the library that computes, NumPy or torch, from the type of an array; check torch devices."""

from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np
import numpy.typing as npt
import scipy.fft

Array = Any  # an array of NumPy, torch or another library that array-api-compat supports


def array_namespace(x: Any) -> Any:
    """Return the array-API namespace of `x`; NumPy for anything that is not an array of a supported library.

    Examples
    --------
    >>> array_namespace([[0.0, 1.0]]).__name__
    'array_api_compat.numpy'
    """
    return array_api_compat.array_namespace(x) if array_api_compat.is_array_api_obj(x) else array_api_compat.numpy


def as_floats(x: Any) -> tuple[Array, Any]:
    """Return the input as a floating-point array, and its namespace; float64 is kept, other types become float32.

    Examples
    --------
    >>> as_floats(np.zeros(3, "uint8"))[0].dtype
    dtype('float32')
    """
    xp = array_namespace(x)
    if is_numpy(xp):
        x = np.asarray(x)
    return xp.astype(x, xp.float64 if x.dtype == xp.float64 else xp.float32, copy=False), xp


def is_numpy(xp: Any) -> bool:
    """Return whether an array-API namespace is that of NumPy."""
    return bool(xp is array_api_compat.numpy)


def on_cpu(x: Array) -> bool:
    """Return whether an array is in the memory of the CPU."""
    return str(array_api_compat.device(x)) == "cpu"


def fourier(xp: Any) -> Any:
    """Return the FFT module of an array-API namespace; for NumPy it is that of SciPy, up to seven times faster."""
    return scipy.fft if is_numpy(xp) else xp.fft


def constant(xp: Any, values: Any, *, like: Array, dtype: Any = None) -> Array:
    """Convert a NumPy array to the namespace `xp` on the device of `like`; its dtype stays unless `dtype` is given."""
    out = xp.asarray(values, device=array_api_compat.device(like))
    return out if dtype is None else xp.astype(out, dtype, copy=False)


def check_device(name: str | None) -> str | None:
    """Return the name of a torch device after checking that it can be used; None is returned unchanged.

    Examples
    --------
    >>> check_device(None), check_device("cpu")
    (None, 'cpu')
    """
    if name is None:
        return None
    try:
        import torch
    except ImportError:
        raise ValueError(f"Device {name!r} needs torch; install the extra 'torch' of outcrop.") from None
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"Device {name!r} cannot be used ({reason[:120]}); choose cuda, or leave --device out."
        ) from None
    return name


def device_list(names: str | None) -> list[str]:
    """Return a list of the torch devices that a text names, separated by commas.

    ``cuda`` means all visible GPUs, None means no device.

    Examples
    --------
    >>> device_list(None), device_list("cuda:0,cuda:1"), device_list("cpu")
    ([], ['cuda:0', 'cuda:1'], ['cpu'])
    """
    if names == "cuda":
        import torch

        return [f"cuda:{number}" for number in range(torch.cuda.device_count())] or ["cuda"]
    return [name.strip() for name in names.split(",")] if names else []


def to_numpy(x: Any) -> npt.NDArray[Any]:
    """Convert an array of any library, on any device, to a NumPy array."""
    return np.asarray(array_api_compat.to_device(x, "cpu")) if array_api_compat.is_torch_array(x) else np.asarray(x)
