"""The reserve: what each GPU kept free while each run measured."""

from __future__ import annotations

from collections.abc import Sequence

from anvil_tui.evidence.report import figures
from anvil_tui.evidence.report.contents import Contents
from anvil_tui.evidence.report.markup import Cell, Column, Html, joined, said, source, table, tag, verdict


def reserves(contents: Contents) -> Html:
    """Verdict, least free memory and margin of each GPU over the request window of each run."""
    rows: list[Sequence[Cell]] = []
    for one in contents.runs:
        judged = one.record.reserve
        if judged is None:
            continue
        for gpu in judged.gpus:
            rows.append(
                (
                    tag("span", one.record.run, class_="run", title=one.path),
                    _gpu(contents, gpu.uuid),
                    verdict(gpu.verdict),
                    figures.mib(gpu.min_free_bytes),
                    figures.mib(gpu.margin_bytes, signed=True),
                    figures.measured(gpu.below_seconds),
                    figures.mib(gpu.reserved_bytes),
                    figures.mib(gpu.total_bytes),
                    figures.whole(judged.samples),
                    figures.measured(judged.hz),
                    figures.measured(judged.max_gap_ms),
                    judged.spill,
                )
            )
    if not rows:
        return tag("p", "No run has a verdict on the reserve: GPU memory is unknown.", class_="quiet")
    columns = (
        Column("Run"),
        Column("GPU"),
        Column("Verdict"),
        Column("Least free MiB", figure=True),
        Column("Margin MiB", figure=True),
        Column("Below s", figure=True),
        Column("Driver-reserved MiB", figure=True),
        Column("Total MiB", figure=True),
        Column("Samples", figure=True),
        Column("Hz", figure=True),
        Column("Longest gap ms", figure=True),
        Column("Spill"),
    )
    return table(columns, rows, _caption(contents))


def _caption(contents: Contents) -> Html:
    judged = [one.record.reserve for one in contents.runs if one.record.reserve is not None]
    policies = sorted(
        {
            f"{one.reserve_mib:,} MiB, {one.policy}" + (f" ({said(one.policy_reason)})" if one.policy_reason else "")
            for one in judged
        }
    )
    witnesses = sorted({said(one.spill_witness) for one in judged if one.spill_witness})
    return joined(
        [
            "Minimum of NVML free over the window from the first request sent to the last one ended, from ",
            source("runs/<run>.json", *sorted({trace.path for trace in contents.traces})),
            f". Reserve a GPU: {'; '.join(policies)}.",
            f" Witnesses: {'; '.join(witnesses)}." if witnesses else "",
        ]
    )


def _gpu(contents: Contents, uuid: str) -> Html:
    """Its index of then, the UUID beside it."""
    known = next((trace.known[uuid] for trace in contents.traces if uuid in trace.known), None)
    if known is None:
        return tag("code", uuid)
    return tag("span", f"GPU{known.index}", title=f"{known.name}, {uuid}")


def gpus(contents: Contents) -> Html:
    """Which GPUs were sampled."""
    known = {uuid: (gpu, trace.path) for trace in contents.traces for uuid, gpu in trace.known.items()}
    if not known:
        return Html("")
    columns = (Column("GPU"), Column("Name"), Column("UUID"), Column("Bus"), Column("Source"))
    rows = [
        (f"GPU{gpu.index}", gpu.name, tag("code", uuid), gpu.bus_id, source(path))
        for uuid, (gpu, path) in sorted(known.items(), key=lambda item: item[1][0].index)
    ]
    return table(columns, rows)
