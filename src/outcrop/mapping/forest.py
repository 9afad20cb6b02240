"""Forest of extremely randomised trees, which scikit-learn grows; it is stored as plain arrays, without pickle."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from outcrop.parallel import n_cores

N_TREES = 150
SMALLEST_LEAF = 4  # grid points
TRIED = 0.2  # share of the features that are tried at each split


class Forest(NamedTuple):
    """Forest of decision trees, stored as arrays of the nodes of all trees, tree after tree.

    The left child of a leaf is -1.
    """

    roots: npt.NDArray[np.int32]  # (n_trees,): first node of every tree
    left: npt.NDArray[np.int32]  # (n_nodes,)
    right: npt.NDArray[np.int32]
    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float64]  # rows of features with at most this value go left
    share: npt.NDArray[np.float32]  # (n_nodes, n_classes)

    def shares(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the share of every class in the leaves that each row of features reaches, averaged over the trees.

        Parameters
        ----------
        features : array, shape (n, n_features)

        Returns
        -------
        array, shape (n, n_classes)
        """
        total = np.zeros((len(features), self.share.shape[1]), np.float32)
        samples = np.arange(len(features))
        for root in self.roots:
            node, moving = np.full(len(features), root), samples
            while len(moving):
                at = node[moving]
                moving, at = moving[self.left[at] >= 0], at[self.left[at] >= 0]
                goes_left = features[moving, self.feature[at]] <= self.threshold[at]
                node[moving] = np.where(goes_left, self.left[at], self.right[at])
            total += self.share[node]
        return total / np.float32(len(self.roots))


def grow_forest(
    features: npt.NDArray[np.float32], labels: npt.NDArray[np.intp], n_classes: int, *, random_state: int = 0
) -> Forest:
    """Grow trees on features with known classes; all classes have equal weight, however many rows they have.

    Parameters
    ----------
    features : array, shape (n, n_features)
    labels : array, shape (n,)
        Class of each row, from 0 to n_classes - 1; a class without a row gets share 0.
    n_classes : int
    random_state : int

    Examples
    --------
    >>> features = np.random.default_rng(0).random((200, 2), dtype=np.float32)
    >>> forest = grow_forest(features, (features[:, 0] > 0.5).astype(int), 3)
    >>> forest.shares(np.array([[0.1, 0.5], [0.9, 0.5]], np.float32)).argmax(axis=1)
    array([0, 1])
    """
    from sklearn.ensemble import ExtraTreesClassifier

    model = ExtraTreesClassifier(
        N_TREES,
        min_samples_leaf=SMALLEST_LEAF,
        max_features=TRIED,
        class_weight="balanced",
        random_state=random_state,
        n_jobs=n_cores(),  # threads; the trees are the same for any number
    )
    trees = [one.tree_ for one in model.fit(features, labels).estimators_]
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    share = np.zeros((sum(tree.node_count for tree in trees), n_classes), np.float32)
    values = np.concatenate([tree.value[:, 0] for tree in trees])
    share[:, model.classes_] = values / values.sum(axis=1, keepdims=True)
    tree_root = np.repeat(roots, [tree.node_count for tree in trees])
    left, right, feature, threshold = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("children_left", "children_right", "feature", "threshold")
    )
    left, right = (np.where(child < 0, -1, child + tree_root) for child in (left, right))
    roots, left, right, feature = (part.astype(np.int32) for part in (roots, left, right, feature))
    return Forest(roots, left, right, feature, threshold, share)
