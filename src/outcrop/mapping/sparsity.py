"""Initial atoms of the factorisation: cluster means of patches, changed to a given sparsity."""

import numpy as np
from sklearn.cluster import KMeans

from outcrop.arrays import Array, array_namespace, constant, to_numpy
from outcrop.parallel import one_blas_thread


def sparsity(atoms: Array) -> Array:
    """Return Hoyer's sparsity of every row: 0 for a constant row, 1 for a single non-zero entry (the paper's eq. 4).

    Examples
    --------
    >>> sparsity(np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 3.0, 0.0]])).tolist()
    [0.0, 1.0]
    """
    xp = array_namespace(atoms)
    root = atoms.shape[-1] ** 0.5
    norm = xp.linalg.vector_norm(atoms, axis=-1)
    return (root - xp.sum(xp.abs(atoms), axis=-1) / norm) / (root - 1)


def project_sparsity(atoms: Array, sparsity: float) -> Array:
    """Replace each atom by the nearest non-negative atom that has the same Euclidean norm and a given sparsity.

    Parameters
    ----------
    atoms : array, shape (n_atoms, n_pixels)
    sparsity : float
        Between 0 and 1, both excluded.

    Returns
    -------
    projected : float64 array, shape (n_atoms, n_pixels)
        A zero row stays zero. If equal pixels must become different, later pixels become larger.

    Notes
    -----
    For an atom w, Hoyer's alternating projection (JMLR 5, 2004) converges to ``c (w - m)_+`` with a factor c and a
    shift m. For a given set of pixels above the shift, m has a closed form. The set starts with all pixels and shrinks
    until it is stable.

    Examples
    --------
    >>> project_sparsity(np.array([[3.0, 2.0, 1.0, 0.0]]), 0.5).round(2).tolist()
    [[3.19, 1.87, 0.55, 0.0]]
    """
    if not 0 < sparsity < 1:
        raise ValueError(f"sparsity is {sparsity}; choose a value between 0 and 1.")
    xp = array_namespace(atoms)
    atoms = xp.astype(atoms, xp.float64)
    n_pixels = atoms.shape[1]
    ratio = n_pixels**0.5 - sparsity * (n_pixels**0.5 - 1)  # wanted ratio of L1 norm and L2 norm
    top = xp.max(xp.abs(atoms), axis=1, keepdims=True)
    scale = xp.where(top > 0, top, xp.ones_like(top))
    norm = scale * xp.linalg.vector_norm(atoms / scale, axis=1, keepdims=True)
    ramp = constant(xp, np.linspace(0, 1e-9, n_pixels), like=atoms)
    # The largest entry of each row is shifted to 0, so that rounding does not remove the ramp between equal entries.
    atoms = (atoms - xp.max(atoms, axis=1, keepdims=True)) / scale + ramp
    above = xp.ones_like(atoms)
    while True:
        count = xp.sum(above, axis=1, keepdims=True)
        mean = xp.sum(atoms * above, axis=1, keepdims=True) / count
        scatter = xp.sum((atoms - mean) ** 2 * above, axis=1, keepdims=True)
        excess = atoms - mean + ratio * xp.sqrt(scatter / (count * (count - ratio**2)))
        still = xp.astype(excess > 0, xp.float64) * above
        if xp.all(still == above):
            break
        above = still
    excess = xp.where(above > 0, excess, xp.zeros_like(excess))
    return excess * norm / xp.linalg.vector_norm(excess, axis=1, keepdims=True)


def cluster_means(patches: Array, n_clusters: int, *, random_state: int) -> Array:
    """Return the mean patches of the k-means clusters of one class.

    Parameters
    ----------
    patches : array, shape (n_patches, n_pixels)
    n_clusters : int
    random_state : int

    Returns
    -------
    means : array, shape (n_clusters, n_pixels)
        If there are no more patches than clusters, the patches themselves.

    Notes
    -----
    k-means depends on distances alone, so it runs on the Cholesky factor of the Gram matrix, a rotation of the patches
    into n_patches dimensions. This gives the same clusters in much less time.
    """
    xp = array_namespace(patches)
    n_patches, n_pixels = patches.shape
    if n_patches <= n_clusters:
        return patches
    points = xp.astype(patches, xp.float64)
    points = points - xp.mean(points, axis=0)
    if n_patches <= n_pixels:
        gram = to_numpy(points @ points.T)
        # Equal patches make the Gram matrix singular; a small diagonal term makes it positive definite.
        points = np.linalg.cholesky(gram + np.eye(n_patches) * (1e-9 * np.trace(gram) or 1.0))
    # One thread: more threads take fifteen times as long on such small matrices, and their sums vary in order.
    with one_blas_thread():
        clusters = KMeans(n_clusters, n_init=1, random_state=random_state).fit(to_numpy(points)).labels_
    _, clusters, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    members = (clusters == np.arange(len(counts))[:, None]) / counts[:, None]
    return constant(xp, members, like=patches, dtype=patches.dtype) @ patches
