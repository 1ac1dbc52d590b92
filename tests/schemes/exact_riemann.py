"""Exact solutions of Riemann problems, as references: an ideal gas (Toro 2009, chapter 4) and shallow water."""

import numpy as np
from scipy.optimize import brentq


class GasRiemann:
    """The similarity solution of the Euler equations between two states (density, velocity, pressure)."""

    def __init__(self, left, right, gamma=1.4):
        self.left, self.right, self.gamma = left, right, gamma

        def drop(p):
            return self._velocity_change(p, left) + self._velocity_change(p, right) + right[1] - left[1]

        self.pressure = brentq(drop, 1e-10, 100 * max(left[2], right[2]), xtol=1e-14, rtol=1e-14)
        self.velocity = 0.5 * (left[1] + right[1]) + 0.5 * (
            self._velocity_change(self.pressure, right) - self._velocity_change(self.pressure, left)
        )
        self.densities = tuple(self._star_density(side) for side in (left, right))

    def _velocity_change(self, p, side):
        rho, _, p0 = side
        g = self.gamma
        if p > p0:
            return (p - p0) * np.sqrt(2 / ((g + 1) * rho) / (p + (g - 1) / (g + 1) * p0))
        return 2 * np.sqrt(g * p0 / rho) / (g - 1) * ((p / p0) ** ((g - 1) / (2 * g)) - 1)

    def _star_density(self, side):
        rho, _, p0 = side
        g, ratio = self.gamma, self.pressure / side[2]
        if self.pressure > p0:
            mu = (g - 1) / (g + 1)
            return rho * (ratio + mu) / (mu * ratio + 1)
        return rho * ratio ** (1 / g)

    def sample(self, speed):
        """Density, velocity and pressure on the rays x/t = speed."""
        states = np.array([self._at(s) for s in np.ravel(speed)])
        return states.T.reshape(3, *np.shape(speed))

    def _at(self, s):
        if s <= self.velocity:
            return self._side(s, self.left, self.densities[0], 1)
        rho, u, p = self._side(-s, (self.right[0], -self.right[1], self.right[2]), self.densities[1], -1)
        return rho, -u, p

    def _side(self, s, side, star_density, sign):
        (rho, u, p), g = side, self.gamma
        star = star_density, sign * self.velocity, self.pressure
        c = np.sqrt(g * p / rho)
        if self.pressure > p:
            shock = u - c * np.sqrt((g + 1) / (2 * g) * self.pressure / p + (g - 1) / (2 * g))
            return side if s < shock else star
        if s < u - c:
            return side
        if s > star[1] - np.sqrt(g * self.pressure / star_density):
            return star
        ratio = 2 / (g + 1) + (g - 1) / (g + 1) / c * (u - s)
        return rho * ratio ** (2 / (g - 1)), 2 / (g + 1) * (c + (g - 1) / 2 * u + s), p * ratio ** (2 * g / (g - 1))


class DamBreak:
    """Still water of two depths, deep on the left, g = 1 (Toro 2001, section 6; Stoker 1957)."""

    def __init__(self, deep, shallow):
        self.deep, self.shallow = deep, shallow

        def drop(h):
            rise = (h - shallow) * np.sqrt(0.5 * (h + shallow) / (h * shallow))
            return 2 * (np.sqrt(h) - np.sqrt(deep)) + rise

        self.depth = brentq(drop, shallow, deep, xtol=1e-14)
        self.velocity = 2 * (np.sqrt(deep) - np.sqrt(self.depth))
        self.shock = self.depth * self.velocity / (self.depth - shallow)

    def sample(self, speed):
        """Depth and velocity on the rays x/t = speed."""
        s, c = np.asarray(speed), np.sqrt(self.deep)
        fan = (s > -c) & (s < self.velocity - np.sqrt(self.depth))
        depth = np.where(s <= -c, self.deep, np.where(fan, (2 * c - s) ** 2 / 9, self.depth))
        velocity = np.where(s <= -c, 0.0, np.where(fan, 2 * (c + s) / 3, self.velocity))
        ahead = s > self.shock
        return np.where(ahead, self.shallow, depth), np.where(ahead, 0.0, velocity)
