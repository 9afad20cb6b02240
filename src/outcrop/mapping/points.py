"""Label mapping from points: learn classes from clicks, strokes and confirmed samples at the grid points of a survey.

A class spreads from its points over a graph that links similar grid points (`landmarks`). If there is a background
class, the share of the survey that belongs to each other class is unknown: the votes are averaged over all possible
shares, weighted by how sharp the edges of the class are at each share, and the background gets the grid points that no
class reaches. Without a background, every sample of a layered survey belongs to one of an ordered sequence of layers
(`layers`). A random forest on features and position is fitted to confirmed lines (`forest`), and the labels of these
lines are carried to the lines around them (`carry`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt, gaussian_filter
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from outcrop.features.encoder import weights_digest
from outcrop.features.energies import KEPT
from outcrop.mapping.carry import LINE, ConfirmedLine, carry, confirmed_line
from outcrop.mapping.correction import ALIKE, Correction, fit_correction, with_places
from outcrop.mapping.forest import Forest, grow_forest
from outcrop.mapping.landmarks import LandmarkGraph, interpolated, landmark_graphs, nearest_weights
from outcrop.mapping.layers import LAYERED, layer_shares, layered_share, ordered_layers, profile_of
from outcrop.mapping.pixels import along_reflectors, upsample
from outcrop.mapping.saved import Saved, part, prefixed
from outcrop.mapping.survey_sample import Floats, Nodes, SurveySample, nodes_of, relative_time
from outcrop.storage.kept import content

STRIDE = 4  # samples and traces between grid points
FIRST = 2.5  # sample and trace of the first grid point
NEAR = 10.0  # samples and traces around a click: radius of its seeds, and standard deviation of its effect on labels
OPPOSED = 2.0  # reach of excluding points, as a multiple of its mean, above which they lower the votes for a class
MOST_IN_FOREST = 10_000  # grid points of one confirmed line to which the forest is fitted, at most
MOST_IN_FOREST_TOGETHER = 30_000  # grid points of all confirmed lines to which the forest is fitted, at most
LEAST_IN_FOREST = 200  # grid points of one class on a line, at least (all grid points of the class if fewer)
MOST_SEEDS = 30  # seeds on a confirmed line for a class without any other point
POWER = 4  # exponent of the votes before they are averaged along reflectors; confident votes gain weight

LEARNT = (
    "mean_",
    "scale_",
    "landmarks_",
    "landmark_votes_",
    "layers_",
    "strokes_",
)  # array attributes that are saved unchanged


class Point(NamedTuple):
    """A sample of the survey, with a class that it shows or, if `excluded` is True, does not show."""

    line: float
    trace: float  # position on the line, 0 at the first trace
    sample: float  # position on the trace, 0 at the first sample
    name: str  # of the class
    weight: float = 1.0
    excluded: bool = False  # the sample does not have this class
    kind: str = "click"  # click, stroke, verdict, confirmed


class ConfirmedSamples(NamedTuple):
    """Labels of the samples of confirmed lines, and the names of the classes."""

    names: Sequence[str] = ()  # class names, starting with code 1
    lines: Mapping[float, npt.NDArray[np.uint8]] = {}  # line -> codes, (n_samples, n_traces); 0 is not confirmed


class PointMapper(BaseEstimator, Saved):
    """Mapper that learns classes from points and from a random sample of the survey's grid points.

    Parameters
    ----------
    background : str, optional
        Class of all samples that no other class reaches; it needs no points. Without a background, every sample
        belongs to one of the classes of the points.

    Attributes
    ----------
    classes_ : array of str
        Names of the classes in the order of their first point; a background without points is last.
    shares_ : dict
        Class -> its expected share of the survey.
    layered_ : bool
        Whether the classes are ordered layers.
    survey_layered_ : bool
        Whether position along the reflectors (relative time) explains most of the variance of the features.
    contradicted_ : list of (str, str)
        For each click whose features are more similar to another class: its class and this other class.
    unlike_ : float
        Expected share of the survey that is unlike all classes; 0 with a background, with confirmed lines, with a
        single class, and if `layered_`.

    Examples
    --------
    >>> from outcrop.mapping.survey_sample import sample_survey
    >>> lines = np.random.default_rng(0).random((2, 64, 64), dtype=np.float32)
    >>> lines[:, 32:] = np.sin(np.arange(32) / 2)[:, None] / 2 + 0.5
    >>> points = [Point(0, 30, 10, "rough"), Point(0, 30, 50, "layered")]
    >>> mapper = PointMapper("rough").fit(sample_survey(enumerate(lines), n_landmarks=100), points, lines.__getitem__)
    >>> mapper.classes_[mapper.votes(lines[1], 1)[30, [8, 55]].argmax(axis=-1)]
    array(['rough', 'layered'], dtype='<U7')
    """

    def __init__(self, background: str | None = None):
        self.background = background

    def fit(
        self,
        survey: SurveySample,
        points: Sequence[Point],
        read: Callable[[float], npt.ArrayLike],
        *,
        graphs: Sequence[LandmarkGraph] | None = None,
        confirmed: ConfirmedSamples | None = None,
        metres: npt.ArrayLike | None = None,
    ) -> "PointMapper":
        """Learn from points and from confirmed lines.

        Parameters
        ----------
        survey : SurveySample
            From `sample_survey`.
        points : sequence of Point
        read : callable
            ``read(line)`` returns the section of a line, shape (n_samples, n_traces), in [0, 1]. It is called for lines
            with points and for confirmed lines.
        graphs : sequence of LandmarkGraph, optional
            From `landmark_graphs` of this survey, if they were computed before.
        confirmed : ConfirmedSamples, optional
            Labels of confirmed lines.
        metres : array, shape (n_lines,), optional
            Positions of the lines 0, 1, ... along the survey; by default, lines are 25 m apart.
        """
        confirmed = confirmed or ConfirmedSamples()
        shown_here = list(points)
        points = [*points, *_points_of(confirmed, {point.name for point in points if not point.excluded})]
        if not any(not point.excluded for point in points):
            raise ValueError("No point shows a class; give at least one point with excluded=False.")
        graphs = graphs or landmark_graphs(survey)
        names = dict.fromkeys([point.name for point in points] + ([self.background] if self.background else []))
        self.classes_ = np.array(list(names))
        self.mean_, self.scale_ = graphs[0].mean, graphs[0].scale
        self.width_ = float(np.mean([graph.width for graph in graphs]))
        nodes = {line: nodes_of(read(line)) for line in sorted({p.line for p in points} | confirmed.lines.keys())}
        self.points_ = [
            (p.line, p.trace, p.sample, self._code(p.name), p.excluded) for p in shown_here if p.kind != "stroke"
        ]
        clicked = {p.name for p in points if p.kind != "stroke" and not p.excluded}
        shown = [p for p in points if p.kind != "stroke" or (p.name not in clicked and not p.excluded)]
        alone = self.background is None and len(names) > 1 and not confirmed.lines
        self.survey_layered_ = layered_share(survey) > LAYERED
        self.layered_ = alone and self.survey_layered_
        self.layers_ = (
            self._fit_layers(survey, nodes, shown) if self.layered_ else np.empty((0, len(names)), np.float32)
        )
        size = min(len(graph.points) for graph in graphs)  # graphs of one survey differ by one landmark at most
        self.landmarks_ = np.stack([graph.points[:size] for graph in graphs])
        found = [self._landmark_votes(graph, nodes, shown) for graph in graphs]
        self.landmark_votes_ = np.stack([votes[:size] for votes, _ in found])
        self.unlike_ = float(np.mean([unlike for _, unlike in found])) if alone and not self.layered_ else 0.0
        self.contradicted_ = self._unlike_their_class(nodes, [point for point in shown if not point.excluded])
        self.forest_ = self._fit_forest(nodes, confirmed)
        self.metres_ = None if metres is None else np.asarray(metres, np.float64)
        table = np.maximum(self._table(confirmed) + 1, 0).astype(np.uint8)
        self.confirmed_ = {
            float(line): confirmed_line(read(line), nodes[line], table[codes])
            for line, codes in confirmed.lines.items()
        }
        self.strokes_ = np.array([p[:3] for p in points if p.kind == "stroke"], np.float64).reshape(-1, 3)
        self.correction_ = self._fit_strokes(nodes, [p for p in points if p.kind == "stroke"])
        self.shares_ = dict(zip(self.classes_.tolist(), self.landmark_votes_.mean(axis=(0, 1)).tolist(), strict=True))
        return self

    def votes(self, section: npt.ArrayLike, line: float | None = None, *, device: str | None = None) -> Floats:
        """Return the votes for every class at every sample of a section, scaled to shares.

        Parameters
        ----------
        section : array, shape (n_samples, n_traces)
            In [0, 1].
        line : float, optional
            Position of the section's line (0, 1, ...) in the survey of the fit; None for a section of another survey,
            where positions have no effect.
        device : str, optional
            A torch device such as ``cuda`` that computes the features of the section.

        Returns
        -------
        array, shape (n_traces, n_samples, n_classes)
            At each sample the shares of the classes sum to 1. For a single class without background, the share is
            instead the probability of the class.
        """
        check_is_fitted(self, "landmark_votes_")
        confirmed = None if line is None else self.confirmed_.get(line)
        if confirmed is not None and confirmed.codes.all():
            return np.eye(len(self.classes_), dtype=np.float32)[confirmed.codes.T - 1]
        nodes = nodes_of(section, device)
        votes = self._votes_before_strokes(nodes, line)
        if self.correction_:
            alike = self._kernel_features(nodes, line, *np.ogrid[: votes.shape[0] : 2, : votes.shape[1] : 2])
            added = self.correction_.at(alike.reshape(-1, alike.shape[-1])).reshape(*alike.shape[:2], -1)
            votes = (votes + _interpolated_nodes(added, votes.shape[:2])).clip(0, 1)
        found: Floats = upsample(votes[None], np.shape(section))[0].swapaxes(0, 1)
        if len(self.classes_) == 1:
            return found.clip(0, 1)
        shares = _normalised(found)
        if self.confirmed_ and line is not None:
            shares = self._with_carried(shares, section, nodes, line)
        if confirmed is not None:
            shares = np.where(
                confirmed.codes.T[..., None] > 0, np.eye(len(self.classes_) + 1)[confirmed.codes.T, 1:], shares
            )
        return shares.astype(np.float32)

    def forget_places(self) -> None:
        """Remove all positions, so that the mapper labels another survey by features alone."""
        self.points_, self.layered_, self.forest_, self.confirmed_ = [], False, None, {}
        self.correction_ = self.correction_ and self.correction_.without_places()
        self.strokes_ = np.empty((0, 3))

    def scores(self, sections: npt.ArrayLike) -> Floats:
        """Return the votes for sections of any survey, shape (n, n_samples, n_traces, n_classes)."""
        return np.stack([self.votes(section).swapaxes(0, 1) for section in np.asarray(sections)])

    def saved(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the data of the fitted mapper to save: a dict for JSON and a dict of arrays."""
        check_is_fitted(self, "landmark_votes_")
        about = {"kind": type(self).__name__, "parameters": self.get_params(), "classes": self.classes_.tolist()}
        arrays = {name: getattr(self, name) for name in LEARNT} | {"points": np.array(self.points_, np.float64)}
        if self.forest_:
            arrays |= prefixed("forest", self.forest_._asdict())
        for line, kept in self.confirmed_.items():
            arrays |= prefixed(f"confirmed/{line}", kept._asdict())
        if self.metres_ is not None:
            arrays["metres"] = self.metres_
        if self.correction_:
            arrays |= prefixed("correction", self.correction_._asdict())
        return about | {
            "layered": self.layered_,
            "survey_layered": self.survey_layered_,
            "width": self.width_,
            "contradicted": self.contradicted_,
            "unlike": self.unlike_,
            "shares": self.shares_,
            "encoder": weights_digest(),
        }, arrays

    @classmethod
    def restored(cls, about: dict[str, Any], arrays: dict[str, Any]) -> "PointMapper":
        """Rebuild the mapper from the results of `saved`.

        Raise a ValueError if the mapper was fitted with another version of the encoder.
        """
        if about["encoder"] != weights_digest():
            raise ValueError("The mapper was fitted with another version of the encoder; fit it again.")
        mapper = cls(**about["parameters"])
        mapper.classes_, mapper.layered_, mapper.shares_ = np.array(about["classes"]), about["layered"], about["shares"]
        points = arrays["points"].reshape(-1, 5).tolist()
        mapper.points_ = [(line, trace, sample, int(code), bool(out)) for line, trace, sample, code, out in points]
        forest = part("forest", arrays)
        mapper.forest_ = Forest(**forest) if forest else None
        lines = dict.fromkeys(name.rpartition("/")[0] for name in part("confirmed", arrays))
        mapper.confirmed_ = {float(line): ConfirmedLine(**part(f"confirmed/{line}", arrays)) for line in lines}
        mapper.metres_ = arrays.get("metres")
        correction = part("correction", arrays)
        mapper.correction_ = Correction(**correction) if correction else None
        mapper.width_, mapper.contradicted_ = about["width"], about["contradicted"]
        mapper.unlike_, mapper.survey_layered_ = about["unlike"], about["survey_layered"]
        for name in LEARNT:
            setattr(mapper, name, arrays[name])
        return mapper

    def _code(self, name: str) -> int:
        return int(np.flatnonzero(self.classes_ == name)[0])

    def _seeds(self, graph: LandmarkGraph, nodes: dict[float, Nodes], points: Sequence[Point]) -> Floats:
        """Return the weight of every landmark as a seed of each class, shape (n_landmarks, n_classes).

        Seeds are landmarks that resemble the points of a class; the class spreads from them. The weights of a class
        sum to 1, or are all 0 if the class has no points.
        """
        seeds = np.zeros((len(graph.points), len(self.classes_)), np.float32)
        for code, name in enumerate(self.classes_):
            chosen = [_seed_nodes(graph, nodes[point.line].features, point) for point in points if point.name == name]
            if chosen:
                nearest, weight = graph.weights(np.concatenate([embedded for embedded, _ in chosen]))
                weight *= np.concatenate([weights for _, weights in chosen])[:, None]
                np.add.at(seeds[:, code], nearest.ravel(), weight.ravel())
        seeds /= np.maximum(seeds.sum(axis=0), np.float32(1e-12))
        return seeds

    def _fit_layers(self, survey: SurveySample, nodes: dict[float, Nodes], points: Sequence[Point]) -> Floats:
        """Return the probability of every class at every relative time of a layered survey, shape (n_rows, n_classes).

        The relative time of a grid point is the row at which its reflector crosses the middle trace of its line.
        """
        shown = [point for point in points if not point.excluded]
        times = {line: relative_time(node.dips) for line, node in nodes.items()}
        rows = [times[p.line][_node((p.trace, p.sample), times[p.line].shape)] for p in shown]
        labels = [self._code(point.name) for point in shown]
        return layer_shares(ordered_layers(profile_of(survey), rows, labels), rows, labels, len(self.classes_))

    def _landmark_votes(
        self, graph: LandmarkGraph, nodes: dict[float, Nodes], points: Sequence[Point]
    ) -> tuple[Floats, float]:
        """Return the votes for every class at every landmark, and the share of the survey that is unlike all classes.

        With two classes or more, the votes at a landmark sum to 1.
        """
        n_classes = len(self.classes_)
        seeds = self._seeds(graph, nodes, [p for p in points if not p.excluded])
        against = self._seeds(graph, nodes, [p for p in points if p.excluded])
        reach: Floats = np.where(seeds.any(axis=0), graph.reach(seeds), np.float32(0))
        is_background = self.classes_ == self.background
        opposed = np.where(against.any(axis=0), graph.reach(against), np.float32(0))
        opposed[:, ~is_background] += reach[:, is_background].sum(axis=1, keepdims=True)
        support, doubt = np.maximum(reach - 1, 1e-3), np.maximum(opposed / OPPOSED - 1, 0)
        member = [graph.membership(one) if one.any() else np.zeros_like(one) for one in reach.T]
        held = support / (support + doubt)
        votes = np.stack(member, axis=1) * held
        unlike = (1 - votes[:, ~is_background]).prod(axis=1, keepdims=True)
        if self.background is None and n_classes > 1:
            votes = reach * held
        votes[:, is_background] = unlike
        if n_classes > 1:
            votes /= np.maximum(votes.sum(axis=1, keepdims=True), np.float32(1e-9))
        return votes, float(unlike.mean())

    def _votes_before_strokes(self, nodes: Nodes, line: float | None) -> Floats:
        """Return the votes at the grid points of a section, without the correction by strokes."""
        if self.layered_ and line is not None:
            rows = np.clip(np.rint(relative_time(nodes.dips)), 0, len(self.layers_) - 1).astype(int)
            votes: Floats = self.layers_[rows]
        else:
            votes = self._node_votes(nodes)
            if self.forest_ and line is not None:
                votes = self._with_forest(votes, nodes, line)
            if len(self.classes_) > 1:
                votes = votes**POWER
        votes = self._with_shown(votes, line)
        features = self._scaled(nodes.features) / np.float32(self.width_)
        votes = along_reflectors(votes[None], nodes.dips[None], features[None])[0]
        votes = self._with_excluded(votes, line)  # last, because averaging would bring the class back
        return votes if len(self.classes_) == 1 else _normalised(votes)

    def _scaled(self, features: Floats) -> Floats:
        """Return features in the scale of the landmarks, in which distances are measured."""
        scaled: Floats = (features - self.mean_) * self.scale_
        return scaled

    def _kernel_features(self, nodes: Nodes, line: float | None, rows: Any, columns: Any) -> Floats:
        """Return the input of `Correction.at` and `fit_correction`: scaled features and positions of grid points.

        Features are divided by the width of the correction's kernel.
        """
        features = self._scaled(nodes.features[rows, columns]) / np.float32(ALIKE * self.width_)
        return with_places(features, line, STRIDE * rows, STRIDE * columns)

    def _fit_strokes(self, nodes: dict[float, Nodes], points: Sequence[Point]) -> Correction | None:
        """Fit a correction of votes, so that they agree better with the strokes; return None if `points` is empty."""
        alike, residuals = [], []
        for line in sorted({point.line for point in points}):
            prior = self._votes_before_strokes(nodes[line], line)
            for point in points:
                if point.line == line:
                    at = _node((point.trace, point.sample), prior.shape)
                    target = np.eye(len(self.classes_), dtype=np.float32)[self._code(point.name)]
                    if point.excluded:  # its share goes to the other classes in proportion
                        target = _normalised(prior[at] * (1 - target))
                    alike.append(self._kernel_features(nodes[line], line, *at))
                    residuals.append(target - prior[at])
        return fit_correction(np.stack(alike), np.stack(residuals)) if alike else None

    def _node_votes(self, nodes: Nodes) -> Floats:
        """Return the votes at the grid points of a section from their features alone."""
        coarse = nodes.features[::2, ::2]  # every second grid point; votes change slowly
        key = "votes", content(self.landmarks_, self.landmark_votes_, coarse)
        votes = KEPT.get(key, lambda: self._nearest_votes(coarse.reshape(-1, coarse.shape[-1])))
        votes = _interpolated_nodes(votes.reshape(*coarse.shape[:2], -1), nodes.dips.shape)
        smooth: Floats = gaussian_filter(votes, (1, 1, 0))
        return smooth

    def _unlike_their_class(self, nodes: dict[float, Nodes], points: Sequence[Point]) -> list[tuple[str, str]]:
        """Return (class, other class) for each point whose features are more similar to this other class.

        The list is empty if there is a single class, or if the classes are ordered layers.
        """
        if self.layered_ or len(self.classes_) < 2:
            return []
        features = [nodes[p.line].features[_node((p.trace, p.sample), nodes[p.line].dips.shape)] for p in points]
        likely = self.classes_[self._nearest_votes(np.stack(features)).argmax(axis=1)].tolist()
        return [(point.name, name) for point, name in zip(points, likely, strict=True) if point.name != name]

    def _nearest_votes(self, features: Floats) -> Floats:
        """Return the votes at grid points with the given features, interpolated from landmarks.

        They are averaged over all graphs.
        """
        points = self._scaled(features)
        votes = np.zeros((len(points), len(self.classes_)), np.float32)
        for landmarks, landmark_votes in zip(self.landmarks_, self.landmark_votes_, strict=True):
            search = NearestNeighbors(algorithm="brute").fit(landmarks)
            votes += interpolated(landmark_votes, *nearest_weights(search, points))
        return votes / np.float32(len(self.landmarks_))

    def _fit_forest(self, nodes: dict[float, Nodes], confirmed: ConfirmedSamples) -> Forest | None:
        """Fit a forest to features and positions of confirmed lines; None with fewer than two confirmed classes."""
        parts = []
        most = min(MOST_IN_FOREST, MOST_IN_FOREST_TOGETHER // max(1, len(confirmed.lines)))
        for line, codes in confirmed.lines.items():
            rows, columns, code = _drawn_nodes(codes, nodes[line].dips.shape, most, LEAST_IN_FOREST)
            parts.append((_with_position(nodes[line], line)[rows, columns], code))
        if len({code for _, codes in parts for code in codes.tolist()}) < 2:
            return None
        features, labels = (np.concatenate(some) for some in zip(*parts, strict=True))
        return grow_forest(features, self._table(confirmed)[labels], len(self.classes_))

    def _table(self, confirmed: ConfirmedSamples) -> npt.NDArray[np.intp]:
        """Return an array that converts codes of confirmed lines to positions in `classes_`.

        It gives -1 for code 0 and for class names that are not in `classes_`.
        """
        return np.array([-1, *(self._code(name) if name in self.classes_ else -1 for name in confirmed.names)])

    def _with_carried(self, shares: Floats, section: npt.ArrayLike, nodes: Nodes, line: float) -> Floats:
        """Combine the votes at samples with the labels carried from confirmed lines.

        Votes stay unchanged for classes without a confirmed sample, and close to points on this line.
        """
        places = {self._place(at): kept for at, kept in self.confirmed_.items() if at != line}
        found = carry(places, section, nodes, self._place(line), len(self.classes_), layered=self.survey_layered_)
        if found is None:
            return shares
        marked = [(p[1], p[2]) for p in self.points_ if p[0] == line]
        marked += [(trace, sample) for at, trace, sample in self.strokes_.tolist() if at == line]
        if marked:
            close = upsample(_closeness(marked, nodes.dips.shape)[None, ..., None], np.shape(section))[0, ..., 0]
            found = found._replace(known=found.known * (1 - close))
        shown = np.unique(np.concatenate([np.unique(kept.codes) for kept in self.confirmed_.values()]))
        shown = shown[shown > 0].astype(int) - 1
        shares = shares.swapaxes(0, 1)
        total = shares[..., shown].sum(axis=-1, keepdims=True)
        found = found._replace(distance=found.distance[..., shown])
        result = shares.copy()
        result[..., shown] = total * found.pooled(shares[..., shown] / np.maximum(total, np.float32(1e-9)))
        return result.swapaxes(0, 1)

    def _place(self, line: float) -> float:
        """Return the position of a line along the survey in metres."""
        return LINE * line if self.metres_ is None else float(self.metres_[int(line)])

    def _with_forest(self, votes: Floats, nodes: Nodes, line: float) -> Floats:
        """Replace votes by the votes of the random forest; classes without a confirmed sample keep their votes."""
        assert self.forest_ is not None
        coarse = _with_position(nodes, line)[::2, ::2]
        shares = self.forest_.shares(coarse.reshape(-1, coarse.shape[-1])).reshape(*coarse.shape[:2], -1)
        unseen = np.where(self.forest_.share.any(axis=0), np.float32(0), votes)
        taught: Floats = unseen + (1 - unseen.sum(axis=-1, keepdims=True)) * _interpolated_nodes(
            shares, nodes.dips.shape
        )
        return taught

    def _with_shown(self, votes: Floats, line: float | None) -> Floats:
        """Return the votes of a line, changed near its points in favour of the class of the nearest point."""
        here = [point for point in self.points_ if point[0] == line and not point[4]]
        if not here:
            return votes
        codes = np.full(votes.shape[:2], -1)
        for _, trace, sample, code, _ in here:
            codes[_node((trace, sample), votes.shape)] = code
        nearest = distance_transform_edt(codes < 0, return_distances=False, return_indices=True)
        close = _closeness([(point[1], point[2]) for point in here], votes.shape)[..., None]
        shown: Floats = (1 - close) * votes + close * np.eye(len(self.classes_), dtype=np.float32)[codes[*nearest]]
        return shown

    def _with_excluded(self, votes: Floats, line: float | None) -> Floats:
        """Return the votes of a line, in which the votes for a class fall to 0 near points that exclude this class."""
        for code in {point[3] for point in self.points_ if point[0] == line and point[4]}:
            here = [(p[1], p[2]) for p in self.points_ if p[0] == line and p[3:] == (code, True)]
            close = _closeness(here, votes.shape)[..., None]
            votes = votes * (1 - close * np.eye(len(self.classes_), dtype=np.float32)[code])
        return votes


def _closeness(places: Sequence[tuple[float, float]], shape: tuple[int, ...]) -> Floats:
    """Return how close each grid point is to the nearest given (trace, sample) position: 1 there, 0 far away."""
    free = np.ones(shape[:2], bool)
    for trace, sample in places:
        free[_node((trace, sample), shape)] = False
    close: Floats = np.exp(-0.5 * (STRIDE * distance_transform_edt(free) / NEAR) ** 2).astype(np.float32)
    return close


def _drawn_nodes(
    codes: npt.NDArray[np.uint8], shape: tuple[int, ...], most: int, least: int
) -> tuple[npt.NDArray[np.intp], ...]:
    """Draw random confirmed grid points of a section and return their rows, columns and codes.

    Parameters
    ----------
    codes : uint8 array, shape (n_samples, n_traces)
        0 is not confirmed.
    shape : (int, int)
        Number of rows and columns of grid points.
    most : int
        Number of grid points to draw, divided among the classes in proportion to their confirmed grid points.
    least : int
        Minimum number of grid points for each class, or all grid points of the class if it has fewer.

    Examples
    --------
    >>> codes = np.ones((16, 16), np.uint8)
    >>> codes[:, 12:] = 2
    >>> rows, columns, found = _drawn_nodes(codes, (4, 4), most=8, least=3)
    >>> found.tolist(), bool((columns[:6] < 3).all())
    ([1, 1, 1, 1, 1, 1, 2, 2, 2], True)
    """
    at = (np.minimum(STRIDE * np.arange(n) + int(FIRST), size - 1) for n, size in zip(shape, codes.shape, strict=True))
    grid = codes[np.ix_(*at)]
    share = min(1.0, most / max(1, int(np.count_nonzero(grid))))
    rng, drawn = np.random.default_rng(0), []
    for code in np.unique(grid[grid > 0]).tolist():
        places = np.argwhere(grid == code)
        drawn.append(places[rng.permutation(len(places))[: max(least, round(share * len(places)))]])
    rows, columns = np.concatenate([*drawn, np.zeros((0, 2), np.intp)]).T
    return rows, columns, grid[rows, columns]


def _points_of(confirmed: ConfirmedSamples, shown: set[str]) -> list[Point]:
    """Return points at random confirmed grid points: up to 30 of each line for each class that is not in `shown`.

    `shown` holds the classes that have points already.
    """
    points = []
    for line, codes in confirmed.lines.items():
        shape = tuple(-(-n // STRIDE) for n in codes.shape)
        rows, columns, found = _drawn_nodes(codes, shape, 0, MOST_SEEDS)
        for row, column, code in zip(rows.tolist(), columns.tolist(), found.tolist(), strict=True):
            name = confirmed.names[code - 1]
            if name not in shown:
                at = FIRST + STRIDE * column, FIRST + STRIDE * row
                points.append(Point(line, *at, name, kind="confirmed"))
    return points


def _normalised(votes: Floats) -> Floats:
    """Scale the votes at each position so that they sum to 1; where all are 0, give every class the same share."""
    total = votes.sum(axis=-1, keepdims=True)
    shares: Floats = np.where(total > 1e-9, votes / np.maximum(total, 1e-9), np.float32(1 / votes.shape[-1]))
    return shares


def _node(place: tuple[float, float], shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the row and column of the grid point that is nearest to a position (trace, sample)."""
    trace, sample = place
    row, column = (round((at - FIRST) / STRIDE) for at in (sample, trace))
    return min(max(row, 0), shape[0] - 1), min(max(column, 0), shape[1] - 1)


def _with_position(nodes: Nodes, line: float) -> Floats:
    """Return the input of the random forest for a line: features, predictions and position of each grid point.

    The position is repeated three times, so that trees use it more often.
    """
    rows, columns = np.indices(nodes.dips.shape, np.float32)
    position = np.stack([rows, columns, np.full_like(rows, line)], axis=-1)
    return np.concatenate([nodes.features, nodes.predictions, position, position, position], axis=-1)


def _seed_nodes(graph: LandmarkGraph, features: Floats, point: Point) -> tuple[Floats, Floats]:
    """Return the features of the seeds of a point, and their weights, which sum to the weight of the point.

    Seeds are the grid points from which a class spreads. A click has as seeds all grid points around it, weighted by
    their similarity to the grid point nearest to the click. Any other point has one seed, the grid point nearest to it.
    """
    row, column = _node((point.trace, point.sample), features.shape)
    if point.kind != "click":
        return graph.embedded(features[row : row + 1, column]), np.array([point.weight], np.float32)
    rows, columns = np.ogrid[: features.shape[0], : features.shape[1]]
    distance = np.hypot(FIRST + STRIDE * rows - point.sample, FIRST + STRIDE * columns - point.trace)
    near = distance <= NEAR
    near[row, column] = True
    embedded, centre = graph.embedded(features[near]), graph.embedded(features[row, column])
    weight = np.exp(-((np.linalg.norm(embedded - centre, axis=1) / graph.width) ** 2))
    return embedded, (point.weight * weight / weight.sum()).astype(np.float32)


def _interpolated_nodes(votes: Floats, shape: tuple[int, ...]) -> Floats:
    """Interpolate votes at every second grid point linearly to all grid points."""
    for axis in (0, 1):
        twice = votes.repeat(2, axis).take(range(shape[axis]), axis)
        following = np.minimum(np.arange(1, votes.shape[axis] + 1), votes.shape[axis] - 1)
        odd = [slice(None)] * 3
        odd[axis] = slice(1, None, 2)
        middle = (votes + votes.take(following, axis)) / 2
        twice[tuple(odd)] = middle.take(range(twice[tuple(odd)].shape[axis]), axis)
        votes = twice
    return votes
