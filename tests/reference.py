"""Slow twins of the fast code: the formulas written out, one image at a time."""

from functools import lru_cache
from math import ceil, factorial, floor, log2

import numpy as np
from scipy.signal import hilbert

# curvelet


@lru_cache(maxsize=8)
def curvelet_windows(n1, n2):
    """Return, per scale from the coarsest, (window on the centred spectrum, rectangle) of every stored wedge."""

    def fall(t):
        def g(t):
            if abs(t) < 2.0**-52 or t <= 0:
                return 1.0
            return 0.0 if t >= 1 else np.exp(1 - 1 / (1 - np.exp(1 - 1 / t)))

        with np.errstate(over="ignore", divide="ignore", under="ignore"):
            return g(t) / np.sqrt(g(t) ** 2 + g(1 - t) ** 2)

    fall = np.vectorize(fall, otypes=[float])
    k1, k2 = np.meshgrid(np.arange(n1) - n1 // 2, np.arange(n2) - n2 // 2, indexing="ij")

    def low_pass(m1, m2):
        out = np.ones((n1, n2))
        for k, m in ((k1, m1), (k2, m2)):
            a, b = floor(m), floor(2 * m)
            out *= np.where(abs(k) <= b, fall((abs(k) - a - 1) / (b - a - 1)), 0)
        return out

    n_scales, m1, m2 = ceil(log2(min(n1, n2)) - 3), n1 / 6, n2 / 6
    low = low_pass(m1, m2)
    scales = [[(np.sqrt(1 - low**2), (n1, n2))]]
    for j in range(n_scales - 1, 1, -1):
        m1, m2 = m1 / 2, m2 / 2
        lower = low_pass(m1, m2)
        band, n, wedges = low * np.sqrt(1 - lower**2), 4 * 2 ** ceil((j - 2) / 2), []
        for v, h, mv, mh, north in ((-k1, k2, m1, m2, True), (k2, k1, m2, m1, False)):
            lv, lh = floor(4 * mv), floor(4 * mh)
            left = [floor(i * lh / n + 1 + 0.5) for i in range(n + 1)]
            e = (left + [2 * lh + 2 - t for t in reversed(left)][1:])[1:-1:2]
            f = floor(lv / n + 1 + 0.5)
            above = np.where(v > 0, v, 1)
            t = lh + 1 + lv * h / above
            s = (above / lv - abs(h) / lh) / (above / lv + abs(h) / lh)
            gh, gv = 2 * lh / (e[0] - 1) - 1, 2 * lv / (f - 1) - 1
            corner = fall(1 - (s + 1 / gv) / (1 / gh + 1 / gv))
            for i in range(n):
                u = np.where(v > 0, band, 0.0)
                u = u * (np.where(h < 0, corner, 1) if i == 0 else fall(1 - (t - e[i - 1]) / (e[i] - e[i - 1])))
                u = u * (np.where(h > 0, corner, 1) if i == n - 1 else fall((t - e[i]) / (e[i + 1] - e[i])))
                length = lv - floor(mv) + (ceil(f / 4) if i in (0, n - 1) else 0)
                ends = {0: e[0] + e[1] - 1, n - 1: 4 * lh + 3 - e[-1] - e[-2]}
                width = ends[i] if i in ends else e[i + 1] - e[i - 1] + 1
                wedges.append((u, (length, width) if north else (width, length)))
        scales.append(wedges)
        low = low * lower
    scales.append([(low, (2 * floor(2 * m1) + 1, 2 * floor(2 * m2) + 1))])
    return scales[::-1]


def curvelet(image):
    """Return the curvelet coefficients of one image by centred transforms: a list over scales of lists over angles."""
    n1, n2 = image.shape
    spectrum = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image))) / np.sqrt(n1 * n2)
    k1, k2 = np.meshgrid(np.arange(n1) - n1 // 2, np.arange(n2) - n2 // 2, indexing="ij")
    out = []
    for wedges in curvelet_windows(n1, n2):
        coefficients = []
        for window, (rows, columns) in wedges:
            wrapped = np.zeros((rows, columns), complex)
            here = window != 0
            wrapped[k1[here] % rows, k2[here] % columns] = (spectrum * window)[here]
            coefficients.append(np.fft.fftshift(np.fft.ifft2(wrapped)) * np.sqrt(rows * columns))
        if len(wedges) == 1:
            out.append([coefficients[0].real])
        else:
            out.append([2**0.5 * c.real for c in coefficients] + [2**0.5 * c.imag for c in coefficients])
    return out


# pyramid


def steerable_pyramid(image, levels, orientations, decimate=True):
    """Return high-pass residual, bands by level and orientation, and low-pass residual of one image."""
    n1, n2 = image.shape
    k1, k2 = np.meshgrid(np.arange(n1) - n1 // 2, np.arange(n2) - n2 // 2, indexing="ij")
    rho, theta = np.hypot(k1 / (n1 / 2), k2 / (n2 / 2)), np.arctan2(k1 / (n1 / 2), k2 / (n2 / 2))
    rho[n1 // 2, n2 // 2] = rho[n1 // 2, n2 // 2 - 1]
    order = orientations - 1
    c = 2 ** (2 * order) * factorial(order) ** 2 / (orientations * factorial(2 * order))

    def transition(o):
        return np.pi / 2 * np.clip(np.log2(rho) - o + 1, 0, 1)

    def back(spectrum):
        return np.fft.ifft2(np.fft.ifftshift(spectrum))

    spectrum = np.fft.fftshift(np.fft.fft2(image))
    high = back(spectrum * np.sin(transition(0))).real
    spectrum = spectrum * np.cos(transition(0))
    bands = []
    for level in range(1, levels + 1):
        here = []
        for b in range(orientations):
            away = (theta - np.pi * b / orientations + np.pi) % (2 * np.pi) - np.pi
            steer = np.where(abs(away) < np.pi / 2, 2 * np.sqrt(c) * np.cos(away) ** order, 0)
            here.append(back((-1j) ** order * spectrum * np.sin(transition(-level)) * steer))
        bands.append(here)
        if decimate:
            n1, n2 = spectrum.shape
            m1, m2 = ceil((n1 - 0.5) / 2), ceil((n2 - 0.5) / 2)
            top, left = n1 // 2 - m1 // 2, n2 // 2 - m2 // 2
            keep = np.s_[top : top + m1, left : left + m2]
            spectrum, rho, theta = spectrum[keep], rho[keep], theta[keep]
        spectrum = spectrum * np.cos(transition(-level))
    return high, bands, back(spectrum).real


# measures


def curvelet_svd(image):
    """Return the descriptor of the paper's measure for one image."""
    parts = []
    for scale in curvelet(image):
        for array in scale[: ceil(len(scale) / 2)]:
            s = np.linalg.svd(array, compute_uv=False)
            if s.sum() > 0:
                p = s[s > 0] / s.sum()
                s[floor(np.exp(-np.sum(p * np.log(p))) + 1e-12) :] = 0
            parts.append(s)
    return np.concatenate(parts)


def cw_ssim(x, y, levels=4, orientations=16):
    """Return CW-SSIM of two images, window by window."""
    one, two = (steerable_pyramid(z, levels, orientations)[1][-1] for z in (x, y))
    scores = []
    for c, d in zip(one, two, strict=True):
        rows, columns = c.shape
        score = weight = 0
        for i in range(rows - 6):
            for j in range(columns - 6):
                u, v = c[i : i + 7, j : j + 7], d[i : i + 7, j : j + 7]
                energy = (abs(u) ** 2).sum() + (abs(v) ** 2).sum()
                g = np.exp(-((i - (rows - 7) / 2) ** 2 + (j - (columns - 7) / 2) ** 2) / (2 * (rows / 4) ** 2))
                score += g * (2 * abs((u * v.conj()).sum()) / energy if energy else 1)
                weight += g
        scores.append(score / weight)
    return np.mean(scores)


def band_agreement(x, y, stabilizer):
    """Return (l c c01 c10)^(1/4) of one window of two bands."""

    def covariance(u, v):
        return (u * v.conj()).mean() - u.mean() * v.conj().mean()

    def correlation(u, v):
        deviations = np.sqrt(covariance(u, u).real * covariance(v, v).real)
        return (covariance(u, v) + stabilizer) / (deviations + stabilizer)

    def alike(p, q):
        return (2 * p * q + stabilizer) / (p**2 + q**2 + stabilizer)

    q = alike(abs(x.mean()), abs(y.mean()))
    q *= alike(np.sqrt(covariance(x, x).real), np.sqrt(covariance(y, y).real))
    q *= 1 - abs(correlation(x[:, :-1], x[:, 1:]) - correlation(y[:, :-1], y[:, 1:])) / 2
    q *= 1 - abs(correlation(x[:-1], x[1:]) - correlation(y[:-1], y[1:])) / 2
    return q**0.25


def windows(band, window):
    """Yield the whole band, or every window of 7 x 7 (smaller in a smaller band)."""
    rows, columns = band.shape if window == "global" else (min(7, n) for n in band.shape)
    for i in range(band.shape[0] - rows + 1):
        for j in range(band.shape[1] - columns + 1):
            yield band[i : i + rows, j : j + columns]


def stsim(x, y, window, cross, levels=4, orientations=8):
    """Return STSIM-1 or (with `cross`) STSIM-2 of two images, band by band and window by window."""
    pyramids = [steerable_pyramid(255 * z, levels, orientations) for z in (x, y)]
    one, two = ([high, *(band for level in bands for band in level), low] for high, bands, low in pyramids)
    terms = [
        np.mean([band_agreement(u, v, 1e-3) for u, v in zip(windows(c, window), windows(d, window), strict=True)])
        for c, d in zip(one, two, strict=True)
    ]
    if cross:
        one, two = (steerable_pyramid(255 * z, levels, orientations, decimate=False)[1] for z in (x, y))
        pairs = [((s, i), (s, j)) for s in range(levels) for i in range(orientations) for j in range(i)]
        pairs += [((s, i), (s + 1, i)) for s in range(levels - 1) for i in range(orientations)]

        def correlations(bands, p, q):
            for u, v in zip(*(windows(abs(bands[level][b]), window) for level, b in (p, q)), strict=True):
                yield (np.mean(u * v) - u.mean() * v.mean() + 1e-3) / (u.std() * v.std() + 1e-3)

        for p, q in pairs:
            both = zip(correlations(one, p, q), correlations(two, p, q), strict=True)
            terms.append(np.mean([1 - abs(u - v) / 2 for u, v in both]))
    return np.mean(terms)


def discontinuity(section):
    """Return one minus semblance along the dip, pixel by pixel, with dips from instantaneous wavenumbers."""
    s = section - section.mean()
    signal = hilbert(s, axis=0)
    h = signal.imag
    (s_z, s_x), (h_z, h_x) = np.gradient(s), np.gradient(h)
    dip = np.degrees(np.arctan((s * h_x - h * s_x) / (s * h_z - h * s_z)))
    out = np.empty((s.shape[0] - 4, s.shape[1] - 2))
    for r, c in np.ndindex(out.shape):
        i, j = r + 2, c + 1
        step = 0 if abs(dip[i, j]) <= 22.5 else -np.sign(dip[i, j])
        above = below = 0
        for t in (-1, 0, 1):
            if abs(dip[i, j]) > 67.5:
                line = [signal[i + k, j + t] for k in (-1, 0, 1)]
            else:
                line = [signal[int(i + t + step * k), j + k] for k in (-1, 0, 1)]
            above, below = above + abs(np.mean(line)) ** 2, below + np.mean(np.abs(line) ** 2)
        out[r, c] = 1 - above / below
    return out


def curvelet_histogram(x, y, standardize=True, finest=None):
    """Return the squared-chord distance of curvelet histograms of two images, with MATLAB's automatic bins."""
    if standardize:
        x, y = ((z - z.mean()) / z.std(ddof=1) for z in (x, y))
    one, two = curvelet(x), curvelet(y)
    n_scales = len(one) if finest or (finest is None and len(one) < 4) else len(one) - 1
    total = 0.0
    for scale, other in zip(one[:n_scales], two[:n_scales], strict=True):
        for c, d in zip(scale[: ceil(len(scale) / 2)], other[: ceil(len(scale) / 2)], strict=True):
            both = c + d
            width = 3.5 * both.std(ddof=1) / both.size ** (1 / 3)
            power = 10 ** floor(np.log10(width))
            ratio = width / power
            width = power * next(
                w for limit, w in ((1.5, 1), (2.5, 2), (4, 3), (7.5, 5), (np.inf, 10)) if ratio < limit
            )
            left = width * floor(both.min() / width)
            edges = left + width * np.arange(ceil((both.max() - left) / width) + 1)
            h, k = (np.histogram(z, edges)[0] for z in (c, d))
            total += ((np.sqrt(h) - np.sqrt(k)) ** 2).sum()
    return total


# evaluate


def retrieval(S, classes):
    """Return RA, MAP, AUC and P@M by the sums of Appendix A."""
    n = len(S)
    accuracy, average, precision = [], [], np.zeros(n - 1)
    for i in range(n):
        ranked = sorted((j for j in range(n) if j != i), key=lambda j: -S[i, j])
        same = [classes[j] == classes[i] for j in ranked]
        at = [sum(same[: m + 1]) / (m + 1) for m in range(n - 1)]
        accuracy.append(at[sum(same) - 1])
        average.append(sum(p for p, hit in zip(at, same, strict=True) if hit) / sum(same))
        precision += np.array(at) / n
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    alike = [S[i, j] for i, j in pairs if classes[i] == classes[j]]
    other = [S[i, j] for i, j in pairs if classes[i] != classes[j]]
    wins = sum((a > b) + 0.5 * (a == b) for a in alike for b in other)
    return np.mean(accuracy), np.mean(average), wins / len(alike) / len(other), precision


def pixel_scores(labels, truth):
    """Return PA, MA, MIU, FWIU and coverage, pixel by pixel; code 0 is uncertain in labels, unknown in the truth."""
    pixels = [(f, t) for f, t in zip(np.ravel(labels), np.ravel(truth), strict=True) if t]
    recall, iu, share = [], [], []
    for c in sorted({t for _, t in pixels}):
        both = sum(f == c and t == c for f, t in pixels)
        of_truth = sum(t == c for _, t in pixels)
        recall.append(both / of_truth)
        iu.append(both / sum(c in (f, t) for f, t in pixels))
        share.append(of_truth / len(pixels))
    right = sum(f == t for f, t in pixels)
    return (
        right / len(pixels),
        np.mean(recall),
        np.mean(iu),
        np.dot(iu, share),
        sum(f > 0 for f, _ in pixels) / len(pixels),
    )


def near_boundary(truth, band):
    """Return a mask of the pixels with another known class at most `band` rows and columns away."""
    out = np.zeros(truth.shape, bool)
    for r, c in np.ndindex(truth.shape):
        around = truth[max(r - band, 0) : r + band + 1, max(c - band, 0) : c + band + 1]
        out[r, c] = len(set(around[around > 0])) > 1
    return out


def boundary_distances(found, true):
    """Return the distances in pixels from every boundary pixel of two bodies to the nearest of the other body."""

    def edge(body):
        inside = np.argwhere(body)
        steps = [(0, 1), (0, -1), (1, 0), (-1, 0)]
        near = [[(r + i, c + j) for i, j in steps] for r, c in inside]
        grid = [[q for q in qs if 0 <= q[0] < body.shape[0] and 0 <= q[1] < body.shape[1]] for qs in near]
        return np.array([p for p, qs in zip(inside, grid, strict=True) if not all(body[q] for q in qs)])

    a, b = edge(found), edge(true)
    apart = np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))
    return np.concatenate([apart.min(1), apart.min(0)])


def bray_curtis(a, b):
    """Return the Bray-Curtis similarity of two descriptors by its definition."""
    total = np.abs(a.astype(float) + b).sum()
    return 1 - np.abs(a.astype(float) - b).sum() / total if total else 1.0


# mapping


def hoyer_projection(w, sparsity):
    """Return Hoyer's projection of one vector: alternate L1 hyperplane, L2 sphere, and negatives set to zero."""
    n, l2 = len(w), np.linalg.norm(w)
    l1 = l2 * (np.sqrt(n) - sparsity * (np.sqrt(n) - 1))
    s = w + (l1 - w.sum()) / n
    free = np.ones(n, bool)
    while True:
        middle = np.where(free, l1 / free.sum(), 0)
        d = s - middle
        a, b, c = d @ d, 2 * middle @ d, middle @ middle - l2**2
        s = middle + (-b + np.sqrt(max(b * b - 4 * a * c, 0))) / (2 * a) * d
        if (s >= 0).all():
            return s
        free &= s >= 0
        s = np.where(free, s, 0)
        s = np.where(free, s - (s.sum() - l1) / free.sum(), 0)


def factorisation_objective(X, W, H, gamma, lambda1, lambda2):
    """Return F, its part with W and its part with H, norm by norm."""
    misfit = np.linalg.norm(X - W @ H) ** 2
    atoms = lambda1 * np.linalg.norm(W) ** 2
    coefficients = gamma * np.linalg.norm(H @ H.T - np.eye(len(H))) ** 2 + lambda2 * np.linalg.norm(H) ** 2
    return misfit + atoms + coefficients, misfit + atoms, misfit + coefficients


def factorisation_step(X, W, H, variant, gamma, lambda1, lambda2):
    """Return W and H after one iteration of a variant; `exact` solves its cubic equation element by element."""
    W = W * (X @ H.T) / (W @ H @ H.T + lambda1 * W + 1e-300)
    a, b, c = W.T @ X, W.T @ W @ H + lambda2 * H, gamma * H @ H.T @ H
    if variant == "exact":
        a, c = a + 2 * gamma * H, 2 * c
        cubics = [np.roots([p, 0, q, -s]) for p, q, s in zip(c.flat, b.flat, a.flat, strict=True)]
        return W, H * np.reshape([max(roots.real) for roots in cubics], H.shape)
    H = H * (a + (2 if variant == "published" else 1) * gamma * H) / (b + c)
    if variant == "published":
        W, H = W / np.linalg.norm(W, axis=0), H / np.linalg.norm(H, axis=1, keepdims=True)
    return W, H


def class_evidence(W, H, Q):
    """Return the paper's L_n = W (Q * (h_n 1^T)), patch by patch: (n_patches, n_pixels, n_classes)."""
    return np.stack([W @ (Q * h[:, None]) for h in H.T])


def majority(labels):
    """Return the most frequent of the 3 x 3 labels around each pixel; on a tie, the label of the pixel."""
    padded = np.pad(labels, 1, mode="edge")
    out = labels.copy()
    for i, j in np.ndindex(labels.shape):
        values, counts = np.unique(padded[i : i + 3, j : j + 3], return_counts=True)
        if (counts == counts.max()).sum() == 1:
            out[i, j] = values[counts.argmax()]
    return out


def trace_table(inline, crossline, dead, inlines, crosslines):
    """Return the number of the last live trace at each crossing of a grid, -1 without a live trace."""
    table = np.full((len(inlines), len(crosslines)), -1)
    for number, (a, b) in enumerate(zip(inline, crossline, strict=True)):
        if number not in dead:
            table[list(inlines).index(a), list(crosslines).index(b)] = number
    return table


def bridge(section, live, most):
    """Return the result of `outcrop.patches.gaps.bridge`, trace by trace from the nearest live traces."""
    out = np.full(section.shape, np.nan)
    for trace in range(len(live)):
        left = next((t for t in range(trace, -1, -1) if live[t]), None)
        right = next((t for t in range(trace, len(live)) if live[t]), None)
        if live[trace]:
            out[trace] = section[trace]
        elif left is not None and right is not None and right - left - 1 <= most:
            out[trace] = ((right - trace) * section[left] + (trace - left) * section[right]) / (right - left)
    return out


def shares(features, exemplars, accepted, rejected):
    """Return the share of the first class in the weight that reaches every patch of a graph, by one dense solution.

    Parameters
    ----------
    features : array, shape (n, n_values)
    exemplars : list of arrays, shape (1, n_values)
        Descriptor of the exemplar of each class.
    accepted, rejected : arrays of bool, shape (n,)
        Patches that were accepted and rejected for the first class.
    """
    n = len(features)

    def closeness(values):
        return np.exp((values - values.max()) / (values.max() - values.min()))

    features = np.asarray(features, float)
    similarity = np.array([1 - np.abs(features - one).sum(axis=1) / (features + one).sum(axis=1) for one in features])
    matrix = np.zeros((n, n))
    for row in range(n):
        others = sorted((other for other in range(n) if other != row), key=lambda other: -similarity[row, other])[:30]
        matrix[row, others] = closeness(similarity[row, others])
    matrix = np.maximum(matrix, matrix.T)
    degree = matrix.sum(axis=0)
    matrix /= np.sqrt(np.outer(degree, degree))
    sources = np.zeros((n, len(exemplars) + 2))
    for k, exemplar in enumerate(exemplars):
        near = np.array([bray_curtis(exemplar[0], other) for other in features])
        first = np.argsort(-near)[:20]
        sources[first, k] = closeness(near[first]) / closeness(near[first]).sum()
    sources[accepted, 0] += 0.2
    sources[rejected, -2] = 2
    sources[:, -1] = 0.03 / n
    reached = np.linalg.solve(np.eye(n) - 0.9 * matrix, sources)
    return reached[:, 0] / reached.sum(axis=1)
