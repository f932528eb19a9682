from __future__ import annotations

from pathlib import Path

from anvil_tui.gpus.kernel_log import KernelLog

ERROR = "3,812,{at},-;misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12\n"
OTHERS = (
    "6,813,99,-;misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -22\n"
    "6,814,99,-;misc dxg: dxgk: dxgkio_query_adapter_info: Ioctl failed: -12\n"
    "6,815,99,-;misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -120\n"
)


def test_errors_are_counted_from_the_opening_on(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(ERROR.format(at=1))
    log = KernelLog(path)
    assert (log.fault, log.new_errors()) == (None, 0)
    with path.open("a") as file:
        file.write(OTHERS + ERROR.format(at=2) + ERROR.format(at=3))
    assert log.new_errors() == 2
    assert log.new_errors() == 0
    log.close()
    assert log.new_errors() is None


def test_a_log_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "none")
    assert log.new_errors() is None
    assert log.fault is not None and "cannot be read" in log.fault
