"""When the next sample is due."""

from __future__ import annotations

_WEIGHT = 0.02
"""Of the newest call in the mean: about 50 samples decide."""
_OUTLIER = 4.0
"""One slow call counts at most as this many budgets, so that a hiccup does not slow the sampler down."""


class Schedule:
    """Ticks on an absolute grid of `period_us`, so that errors of one sleep do not add up.

    Driver calls may take `share` of the time on average. Where they need more, every second, third … tick is used, up
    to one sample in `slowest_us`; ticks that were missed are left out, never made up for.
    """

    def __init__(self, start_us: int, period_us: int, *, share: float = 0.02, slowest_us: int = 1_000_000) -> None:
        self._start_us = start_us
        self._period_us = period_us
        self._share = share
        self._widest = max(1, slowest_us // period_us)
        self._mean_call_us = 0.0
        self.stride = 1
        """Ticks from one sample to the next."""

    def spent(self, call_us: int) -> None:
        """Account for the driver time of one sample and choose the stride that keeps it within its share."""
        most = _OUTLIER * self._share * self._period_us * self.stride
        self._mean_call_us += _WEIGHT * (min(call_us, most) - self._mean_call_us)
        needed = self._mean_call_us / (self._share * self._period_us)
        self.stride = min(self._widest, max(1, -int(-needed // 1)))

    def next_us(self, now_us: int) -> int:
        """The first tick after `now_us` that may be used."""
        step = self._period_us * self.stride
        return self._start_us + ((now_us - self._start_us) // step + 1) * step
