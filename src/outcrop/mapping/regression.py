"""Ridge regression of class indicators that takes new rows without being fitted again."""

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from outcrop.arrays import Array

PENALTY = 1e-2  # of the ridge, as a share of the mean of the diagonal


def ridge_factor(gram: np.ndarray, penalty: float) -> tuple[np.ndarray, bool]:
    """Cholesky factor of a Gram matrix with a ridge, a share of the mean of its diagonal, as `cho_solve` takes it."""
    gram = np.array(gram, np.float64)
    gram[np.diag_indices_from(gram)] += penalty * np.trace(gram) / len(gram)
    factor: tuple[np.ndarray, bool] = cho_factor(gram, overwrite_a=True)
    return factor


class NormalEquations:
    """Sums over weighted rows from which a ridge regression is solved; more rows are added in milliseconds.

    Parameters
    ----------
    gram : array, shape (n_features, n_features)
        Sum of the weighted products of each row with itself.
    products : array, shape (n_features, n_classes)
        Sum of the weighted products of each row with its targets.
    penalty : float
        Added to the diagonal, as a share of its mean.

    Examples
    --------
    >>> rows, targets = np.eye(2), np.eye(2)
    >>> empty = NormalEquations(np.zeros((2, 2)), np.zeros((2, 2)), penalty=0)
    >>> empty.plus(rows, targets, np.array([1, 3])).solve()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    def __init__(self, gram: np.ndarray, products: np.ndarray, penalty: float = PENALTY) -> None:
        self.gram, self.products, self.penalty = gram, products, penalty

    def plus(self, rows: np.ndarray, targets: np.ndarray, weights: npt.ArrayLike) -> "NormalEquations":
        """The same with more rows; targets may have more classes than before, the new ones last.

        Parameters
        ----------
        rows : array, shape (n, n_features)
        targets : array, shape (n, n_classes)
        weights : array, shape (n,)
        """
        rows = np.asarray(rows, np.float64)
        weighted = rows * np.asarray(weights, np.float64)[:, None]
        known = np.asarray(self.products, np.float64)
        known = np.pad(known, [(0, 0), (0, targets.shape[1] - known.shape[1])])
        return NormalEquations(self.gram + weighted.T @ rows, known + weighted.T @ targets, self.penalty)

    def solve(self) -> Array:
        """Weights of the features, float32, shape (n_features, n_classes)."""
        return cho_solve(ridge_factor(self.gram, self.penalty), np.asarray(self.products, np.float64)).astype(
            np.float32
        )

    def packed(self) -> dict[str, np.ndarray]:
        """Arrays to save: one triangle of the Gram matrix, and the products, as float32."""
        triangle = self.gram[np.triu_indices(len(self.gram))]
        return {"gram": triangle.astype(np.float32), "products": self.products.astype(np.float32)}

    @classmethod
    def unpacked(cls, gram: np.ndarray, products: np.ndarray) -> "NormalEquations":
        """The equations of which `packed` gave the arrays."""
        upper = np.zeros((len(products),) * 2, np.float32)
        upper[np.triu_indices(len(products))] = gram
        return cls(upper + np.triu(upper, 1).T, products)
