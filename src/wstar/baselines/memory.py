"""How much memory there is, asked before a large array is made."""

from pathlib import Path

_CONTROL_GROUP = Path("/sys/fs/cgroup")


def available_bytes() -> float:
    """Bytes that this process can still take: of the machine, or of its control group; infinite where no one says."""
    return min(_machine(), _control_group())


def require_bytes(needed: float, limit: float | None, what: str, advice: str) -> None:
    """Refuse ``what`` before it is allocated.

    Raises:
        ValueError: ``needed`` exceeds ``limit``, or what is free when ``limit`` is None; ends with ``advice``.
    """
    free = available_bytes() if limit is None else limit
    if needed > free:
        whose = "are free" if limit is None else "are allowed by memory_limit"
        raise ValueError(f"{what} needs {needed / 1e9:.3g} GB and {free / 1e9:.3g} GB {whose}: {advice}")


def _machine() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return 1024.0 * int(fields["MemAvailable"][0]) if "MemAvailable" in fields else float("inf")


def _control_group() -> float:
    try:
        limit = (_CONTROL_GROUP / "memory.max").read_text().strip()
        used = int((_CONTROL_GROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")
    return float("inf") if limit == "max" else max(0.0, float(limit) - used)
