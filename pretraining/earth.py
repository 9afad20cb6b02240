"""The earth of a synthetic section: layers, and everything that bent, broke, cut or pierced them.

Every pixel is carried back in time, the youngest event first: salt, faults of two generations, folds. What is left is
the age of the layer it lies in, from which the impedance is read. Lengths are pixels, derived from a physical scale:
sampling of 1 to 8 ms, bins of 6 to 50 m, velocities of 1.6 to 4.5 km/s, wavelets of 14 to 80 Hz.
"""

from typing import NamedTuple

import torch
from torch.nn.functional import interpolate, pad

from pretraining.draws import SIZE

N_FAULTS = 7  # of a generation, at most
N_SMALL = 10  # faults of a polygonal system, at most
PLANE, ZONE = 1.5, 9.0  # pixels on either side that count as the fault plane and the fault zone
FAMILIES = ("fault", "salt", "chaos")  # that can be left out


class Scale(NamedTuple):
    """What a pixel is, in each section."""

    aspect: torch.Tensor  # metres a sample over metres a trace
    period: torch.Tensor  # samples of the dominant period


class Earth(NamedTuple):
    """Impedance and truth of a batch, each of shape (n, SIZE, SIZE)."""

    impedance: torch.Tensor
    age: torch.Tensor
    fault: torch.Tensor
    zone: torch.Tensor
    salt: torch.Tensor
    chaos: torch.Tensor
    unconformity: torch.Tensor
    scale: Scale


def make_scale(draws):
    """Sampling, bin, velocity and frequency, as pixels see them."""
    ms, metres = draws.log_uniform(1, 8), draws.log_uniform(6, 50)
    sample = draws.uniform(1.6, 4.5) * ms / 2  # metres, for two-way time
    period = 1000 / (draws.log_uniform(14, 80) * ms)
    return Scale((sample / metres).clamp(0.06, 1.5), period.clamp(4.5, 20))


def make_earth(draws, without=()):
    """Draw a batch of earths, without the families of structures named."""
    for name in without:
        if name not in FAMILIES:
            raise ValueError(f"Family {name!r} is unknown; leave out some of {', '.join(FAMILIES)}.")
    scale = make_scale(draws)
    z = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, :, None].expand(draws.n, SIZE, SIZE)
    x = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, None].expand(draws.n, SIZE, SIZE)
    salt, z_now = _salt(draws, x, z, "salt" not in without)
    broken = _faults(draws, scale, x, z_now, "fault" not in without)
    layers = _layers(draws, scale, broken.x, broken.z)
    chaos, age = _chaos(draws, scale, broken.x, broken.z, layers.age, "chaos" not in without)
    chaos &= ~salt
    rough = draws.field(draws.uniform(2, 6), draws.uniform(3, 10))
    age = age + rough * (draws.uniform(0, 0.5) + broken.zone * draws.uniform(0, 1.2))
    impedance = _impedance(draws, age + layers.offset, chaos)
    impedance = impedance + _channels(draws, broken.x, broken.z)
    inside = draws.field(draws.uniform(1.5, 5), draws.uniform(2, 12)) * draws.uniform(0, 0.8)
    impedance = torch.where(salt, draws.uniform(0.3, 3.5) * draws.sign(0.8) + inside, impedance)
    clear = ~salt & ~chaos
    planes = (broken.plane & clear, broken.zone & clear)
    return Earth(impedance, age, *planes, salt, chaos, layers.boundary & clear, scale)


# ---- salt -----------------------------------------------------------------------------------------------------------


def _salt(draws, x, z, wanted):
    """Where salt is, and the depth that every layer had before the salt lifted it."""
    on = draws.chance(0.45) & wanted
    centre, top = draws.uniform(-20, SIZE + 20), draws.uniform(10, SIZE * 0.9)
    rough = 0.15 * draws.uniform(0.2, 1.2) * draws.field(draws.uniform(5, 25), draws.uniform(5, 25))
    # a stock: a stem, a bulb with overhangs at its top, a base that widens
    lean = draws.uniform(-0.5, 0.5)
    stem, bulb, height = draws.uniform(8, 50), draws.uniform(0, 60), draws.uniform(15, 60)
    below = (z - top - height).clamp(min=0)
    width = (
        stem + bulb * torch.exp(-((below / height) ** 2)) + draws.uniform(0, 0.6) * (z - top - 2 * height).clamp(min=0)
    )
    across = (x - centre - lean * (z - top)).abs() / width
    stock = torch.sqrt(across**2 + ((top + height - z).clamp(min=0) / height) ** 2 + 1e-6)
    # an ellipse, whole or half below the section
    ellipse = torch.sqrt(
        ((x - centre) / draws.uniform(25, 95)) ** 2 + ((z - top - 60) / draws.uniform(20, 110)) ** 2 + 1e-6
    )
    # pillows on one layer, with welds where they touch nothing
    thick = (draws.curve(draws.uniform(12, 40)) * draws.uniform(5, 25) + draws.uniform(-5, 20)).clamp(min=0.8)
    bed = top + draws.curve(draws.uniform(30, 80)) * draws.uniform(2, 20)
    pillow = (z - bed).abs() / thick
    kind = draws.uniform()
    rho = torch.where(kind < 0.5, stock, torch.where(kind < 0.85, ellipse, pillow))
    salt = on & (rho + rough < 1)
    lifted = draws.uniform(0, 50) * torch.exp(-((rho - 1).clamp(min=0) ** 2) / draws.uniform(0.2, 2.5))
    rim = draws.uniform(0, 8) * torch.exp(-((rho - 2) ** 2) / 0.5)  # the syncline that the salt flowed out of
    return salt, z + torch.where(on & (kind < 0.85), lifted - rim, torch.zeros_like(z))


# ---- faults ---------------------------------------------------------------------------------------------------------


class Broken(NamedTuple):
    """Coordinates before faulting, and where the planes and zones are now."""

    x: torch.Tensor
    z: torch.Tensor
    plane: torch.Tensor
    zone: torch.Tensor


def _faults(draws, scale, x, z, wanted):
    """Two generations of faults, the younger one first, and small ones in a polygonal system."""
    plane = torch.zeros_like(z, dtype=torch.bool)
    state = Broken(x, z, plane, plane.clone())
    on = draws.chance(0.7) & wanted
    for share in (1.0, 0.3):
        generation = draws.chance(share) & on
        lean, reverse = draws.sign(), draws.chance(0.15)
        listric, growth = draws.chance(0.3), draws.chance(0.3)
        number = draws.uniform(0, N_FAULTS + 1).floor()
        for k in range(N_FAULTS):
            throw = draws.uniform(0.2, 1.6) * scale.period * torch.where(reverse, -1.0, 1.0)
            throw = throw.clamp(-24, 24) * (generation & (k < number))
            side = torch.where(draws.chance(0.8), lean, -lean)
            steep = torch.tan(torch.deg2rad(draws.uniform(35, 86)))
            slope = side * (scale.aspect / steep).clamp(max=1.4)
            bend = torch.where(listric, draws.uniform(0, 0.008), draws.uniform(-0.002, 0.002))
            height = draws.uniform(30, 260)
            centre = draws.uniform(-20, SIZE + 20), draws.uniform(0, SIZE)
            reach = draws.uniform(20, 200)
            grown = torch.where(growth, draws.uniform(0.2, 1) / 60, torch.zeros_like(throw))
            state = _slip(state, scale, centre, slope, bend, throw, height, reach, grown)
    polygonal = draws.chance(0.15) & on
    top, thick = draws.uniform(0, SIZE), draws.uniform(15, 50)
    for _ in range(N_SMALL):
        throw = draws.uniform(0.12, 0.5) * scale.period * draws.sign() * polygonal
        slope = draws.sign() * (scale.aspect / torch.tan(torch.deg2rad(draws.uniform(40, 75)))).clamp(max=1.4)
        centre = draws.uniform(0, SIZE), top + draws.uniform(-10, 10)
        still = torch.zeros_like(throw)
        state = _slip(state, scale, centre, slope, still, throw, thick, draws.uniform(6, 25), still)
    return state


def _slip(state, scale, centre, slope, bend, throw, height, reach, grown):
    """Undo one fault: both walls go back along the plane by half of the throw, less and less away from it."""
    dz = state.z - centre[1]
    flattened = dz + bend * dz * dz.abs()
    plane = centre[0] + slope * flattened
    local = slope * (1 + 2 * bend * dz.abs())
    distance = (state.x - plane) * torch.rsqrt(1 + local**2)  # at right angles to the plane
    amount = throw * (1 - (dz / height) ** 2).clamp(min=0)
    amount = amount * torch.where(grown > 0, (0.3 + grown * (dz + 60)).clamp(0, 1), 1.0)
    slip = 0.5 * amount * torch.exp(-distance.abs() / reach) * torch.sign(distance) * torch.sign(slope)
    seen = amount.abs() > (0.12 * scale.period).clamp(min=1)
    return Broken(
        state.x - slip * local,
        state.z - slip,
        state.plane | ((distance.abs() < PLANE) & seen),
        state.zone | ((distance.abs() < ZONE) & seen),
    )


# ---- layers ---------------------------------------------------------------------------------------------------------


class Layers(NamedTuple):
    """Age of the layers, what separates the units in the log, and the boundaries between units."""

    age: torch.Tensor
    offset: torch.Tensor
    boundary: torch.Tensor


def _layers(draws, scale, x, z):
    """Units of folded layers one above the other, cut by unconformities; in one of them clinoforms."""
    age, offset, boundary = z + _fold(draws, scale, x), torch.zeros_like(z), torch.zeros_like(z, dtype=torch.bool)
    for number, share in enumerate((0.45, 0.25), 1):
        on = draws.chance(share)
        surface = draws.uniform(0, SIZE) + _fold(draws, scale, x) * draws.uniform(0, 0.7)
        below = on & (z > surface)
        folded = z + _fold(draws, scale, x)
        boundary = (boundary & ~below) | (on & ((z - surface).abs() < 1.5))
        age, offset = torch.where(below, folded, age), torch.where(below, 300.0 * number, offset)
    on = draws.chance(0.15)
    top, thick = draws.uniform(0, SIZE * 0.8) + _fold(draws, scale, x) * 0.3, draws.uniform(20, 70)
    depth = ((z - top) / thick).clamp(0.02, 0.98)
    inclined = (x * draws.sign() * draws.uniform(0.1, 0.6) + thick * torch.logit(depth) * draws.uniform(0.2, 0.5)) + 100
    inside = on & (z > top) & (z < top + thick)
    return Layers(torch.where(inside, inclined, age), torch.where(inside, 900.0, offset), boundary & ~inside)


def _fold(draws, scale, x):
    """Folds and a regional dip, in samples; drawn for the present section, read at the places given."""
    shape = draws.smooth(draws.uniform(40, 120), draws.uniform(20, 110)) * draws.uniform(0, 12)
    slope = torch.tan(torch.deg2rad(4 * draws.normal(1, 1))) / scale.aspect
    return shape + (x - SIZE / 2) * slope.clamp(-0.6, 0.6)


def _chaos(draws, scale, x, z, age, wanted):
    """Where layers are disordered, and their ages there: displaced, broken into blocks, or gone."""
    on = draws.chance(0.5) & wanted
    outline = draws.field(draws.uniform(6, 25), draws.uniform(6, 40))
    band = (age - draws.uniform(0, SIZE) + outline * draws.uniform(0, 6)).abs() < draws.uniform(10, 60)
    across, down = (
        (x - draws.uniform(0, SIZE)) / draws.uniform(20, 110),
        (z - draws.uniform(0, SIZE)) / draws.uniform(12, 70),
    )
    body = torch.sqrt(across**2 + down**2 + 1e-6) + 0.2 * outline < 1
    chaos = on & torch.where(draws.chance(0.55), band & (draws.chance(0.5) | (across.abs() < 1)), body)
    displaced = draws.field(draws.uniform(1.5, 6), draws.uniform(2.5, 12)) * draws.uniform(0.2, 0.7)
    blocks = (draws.field(draws.uniform(5, 14), draws.uniform(6, 20)) * 1.5).round() * draws.uniform(0.2, 0.8)
    tilted = draws.field(draws.uniform(8, 20), draws.uniform(8, 25)) * draws.uniform(0.2, 1)
    kind = draws.uniform()
    mess = displaced + torch.where(kind < 0.4, blocks, torch.where(kind < 0.7, tilted, torch.zeros_like(z)))
    return chaos, age + mess * scale.period * chaos


# ---- impedance ------------------------------------------------------------------------------------------------------


def _impedance(draws, age, chaos):
    """Impedance of layers of random thickness and contrast, which changes along them; dim zones and gas."""
    n = 1536
    units = torch.exp(0.7 * interpolate(draws.normal(1, n // 32), n, mode="linear"))[:, 0]
    beds = (draws.uniform(shape=(n,)) < draws.uniform(0.1, 1)[:, 0]).float()
    sums = torch.ones(n, n, device=draws.device).triu()  # cumsum itself is not repeatable on a GPU
    log = (draws.normal(n) * units * beds) @ sums
    log = log - torch.nn.functional.avg_pool1d(pad(log[:, None], (20, 20), mode="replicate"), 41, 1)[:, 0]
    log = log / (log.std(1, keepdim=True) + 1e-6)
    place = (age + 150).clamp(0, n - 2)
    below = place.floor().long()
    share = place - below
    flat = below.reshape(draws.n, -1)
    values = [log.gather(1, flat + k).reshape(age.shape) for k in (0, 1)]
    impedance = values[0] + share * (values[1] - values[0])
    along = 1 + 0.5 * draws.smooth(draws.uniform(15, 60), draws.uniform(25, 110)) * draws.uniform(0, 1)
    dim = 1 - draws.uniform(0, 0.9) * (draws.smooth(draws.uniform(15, 50), draws.uniform(15, 50)) > 1.2) * draws.chance(
        0.3
    )
    quiet = torch.where(chaos, draws.log_uniform(0.25, 1.3), 1.0)
    lost = draws.field(draws.uniform(1, 3), draws.uniform(1.5, 5)) * draws.uniform(0, 0.8) * chaos  # no layers at all
    return impedance * along * dim * quiet + lost + _gas(draws, age)


def _gas(draws, age):
    """A layer of low impedance in the middle of a closure."""
    where = draws.smooth(draws.uniform(20, 50), draws.uniform(20, 50)) > 1.5
    bed = (age - draws.uniform(0, SIZE)).abs() < draws.uniform(2, 7)
    return torch.where(draws.chance(0.15) & where & bed, -draws.uniform(1, 4), torch.zeros_like(age))


def _channels(draws, x, z):
    """Impedance of a few channels: cut from above, filled with layers of their own."""
    total, on = torch.zeros_like(z), draws.chance(0.25)
    for _ in range(3):
        across = (x - draws.uniform(0, SIZE)) / draws.uniform(6, 40)
        depth, top = draws.uniform(4, 22), draws.uniform(0, SIZE)
        inside = (z > top) & (z < top + depth * (1 - across**2)) & on
        fill = draws.uniform(-1.5, 1.5) + draws.uniform(0, 0.8) * torch.sin((z - top) * draws.uniform(0.3, 1.2))
        total = torch.where(inside, fill, total)
    return total
