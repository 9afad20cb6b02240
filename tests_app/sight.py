"""The perceived difference of two colours."""

import numpy as np

XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])


def lab(rgb):
    """Return CIE L*a*b* (D65) of sRGB colours, 0 to 255; shape (..., 3)."""
    share = np.asarray(rgb, float) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    ratio = linear @ XYZ.T / XYZ.sum(axis=1)
    x, y, z = np.moveaxis(np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def difference(one, other):
    """Return the CIEDE2000 difference of two colours in L*a*b*.

    Notes
    -----
    The formula of CIE 142-2001, with all three weights equal to 1.

    Examples
    --------
    >>> round(difference((50, 2.6772, -79.7751), (50, 0, -82.7485)), 4)
    2.0425
    >>> round(difference((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514)), 4)
    0.9082
    """
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean_chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1 + 0.5 * (1 - np.sqrt(mean_chroma**7 / (mean_chroma**7 + 25.0**7)))
    c1, c2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, stretch * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    light, chroma, hue = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    mean_light, mean_c = (l1 + l2) / 2, (c1 + c2) / 2
    mean_hue = h1 + turn / 2 if c1 * c2 else h1 + h2
    cosines = [np.cos(np.radians(k * mean_hue - shift)) for k, shift in ((1, 30), (2, 0), (3, -6), (4, 63))]
    t = 1 - 0.17 * cosines[0] + 0.24 * cosines[1] + 0.32 * cosines[2] - 0.2 * cosines[3]
    s_light = 1 + 0.015 * (mean_light - 50) ** 2 / np.sqrt(20 + (mean_light - 50) ** 2)
    s_chroma, s_hue = 1 + 0.045 * mean_c, 1 + 0.015 * mean_c * t
    rotation = 2 * np.sqrt(mean_c**7 / (mean_c**7 + 25.0**7))
    rotation *= -np.sin(np.radians(60 * np.exp(-(((mean_hue % 360 - 275) / 25) ** 2))))
    parts = light / s_light, chroma / s_chroma, hue / s_hue
    return float(np.sqrt(sum(part**2 for part in parts) + rotation * parts[1] * parts[2]))
