"""A run killed by SIGKILL in any stage goes on from its checkpoint and ends bit-equal to an unbroken one."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from wstar.experiments.store import RunFolder

WSTAR = [sys.executable, "-c", "from wstar.cli.main import main; main()"]
# subgradient steps make Stage 2 last for seconds, a tight tolerance Stage 3
RUN = [
    "recover", "--dim", "30", "--width", "120", "--stage2", "subgradient", "--n-epochs", "5", "--seed", "4",
    "--tolerance", "0.01",
]  # fmt: skip


def start(folder):
    return subprocess.Popen([*WSTAR, *RUN, "--out", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    process = start(folder)
    assert process.wait(timeout=300) == 0, process.stderr.read()
    return folder


def stage_on_disk(folder):
    """1 before any checkpoint, then 2 or 3 by what the checkpoint holds."""
    state = folder / "checkpoint" / "state.npz"
    if not state.exists():
        return 1 if (folder / "config.toml").exists() else 0
    with np.load(state) as stored:
        return 3 if "step" in stored.files else 2


def contents(folder):
    arrays = {}
    with np.load(folder / "student.npz") as stored:
        arrays |= {name: stored[name] for name in stored.files}
    trajectory = RunFolder.open(folder).read_trajectory()
    arrays |= {f"trajectory {name}": trajectory[name].values for name in trajectory.variables}
    return arrays


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_killed_and_resumed_is_bit_equal(unbroken, tmp_path, stage):
    folder = tmp_path / "run"
    process = start(folder)
    deadline = time.monotonic() + 200
    while stage_on_disk(folder) != stage:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert stage_on_disk(folder) == stage
    assert not (folder / "result.json").exists()

    resumed = subprocess.run([*WSTAR, "resume", str(folder)], capture_output=True, text=True, timeout=300, check=False)
    assert resumed.returncode == 0, resumed.stderr
    expected, found = contents(unbroken), contents(folder)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
