"""Watching a long prefill from the engine's own KV usage, since nothing else moves until the first token."""

from __future__ import annotations

import asyncio

from anvil_tui import clock
from anvil_tui.engines import metrics
from anvil_tui.engines.endpoint import EndpointClient, EndpointError
from anvil_tui.probes.prefill import KvReading, Prefill, estimate, share_per_token

_PERIOD_SECONDS = 0.5


class PrefillWatch:
    """Readings of the open rung; what one token takes of the cache is learnt from the rung before."""

    def __init__(self, endpoint: EndpointClient) -> None:
        self._endpoint = endpoint
        self._readings: list[KvReading] = []
        self._per_token: float | None = None

    async def read_on(self) -> None:
        """Read the engine's KV usage twice a second until cancelled."""
        self._readings.clear()
        while True:
            try:
                text = await self._endpoint.metrics()
            except EndpointError:
                return
            now = metrics.gauges(text)
            self._readings.append(
                KvReading(clock.mono_us(), now.kv_usage, now.running, now.waiting),
            )
            if self._per_token is None and (pool := metrics.kv_pool_tokens(text)):
                self._per_token = 1 / pool
            await asyncio.sleep(_PERIOD_SECONDS)

    def estimate(self, target_tokens: int) -> Prefill:
        """Where the prefill of the open rung stands now."""
        return estimate(self._readings, target_tokens, self._per_token, clock.mono_us())

    def learn(self, prompt_tokens: int | None, first_output_us: int | None) -> None:
        """Take what a finished rung shows: usage before it, and when its first output came."""
        before = [one.usage for one in self._readings[:1] if one.usage is not None]
        full = [one.usage for one in self._readings if one.usage is not None and one.at_us <= (first_output_us or 0)]
        if before and full and prompt_tokens:
            self._per_token = share_per_token(before[0], full[-1], prompt_tokens) or self._per_token
