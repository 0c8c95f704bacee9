"""The command line as a user types it: real processes, real folders, wrong input in one line."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import wstar
from wstar.cli.main import main
from wstar.experiments.config import RecoverConfig
from wstar.experiments.store import RunFolder

WSTAR = [sys.executable, "-c", "from wstar.cli.main import main; main()"]
SMALL = ["--dim", "10", "--rank", "2", "--teacher-width", "3", "--width", "60", "--n-epochs", "4", "--seed", "1"]


def call(*arguments, cwd, **kwargs):
    return subprocess.run(
        [*WSTAR, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300, check=False, **kwargs
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One small finished run, shared by the tests that only read."""
    folder = tmp_path_factory.mktemp("cli")
    done = call("recover", *SMALL, "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run", done


def test_recover_writes_the_folder_and_prints_the_table(finished):
    run, done = finished
    assert {p.name for p in run.iterdir()} >= {
        "config.toml", "result.json", "trajectory.zarr", "student.npz", "teacher.npz", "report.html",
    }  # fmt: skip
    result = json.loads((run / "result.json").read_text())
    assert len(result["recovery"]["neurons"]) == 3
    assert "hidden directions found" in done.stdout
    assert "nearest angle" in done.stdout
    assert str(Path("run") / "report.html") in done.stdout
    trajectory = RunFolder.open(run).read_trajectory()
    assert {"step", "epoch", "neuron", "order"} <= set(trajectory.sizes)
    with np.load(run / "student.npz") as stored:
        student = wstar.Student.from_arrays(stored)
    with np.load(run / "teacher.npz") as stored:
        teacher = wstar.Teacher.from_arrays(stored)
    assert wstar.PopulationRisk(teacher).value(student) == pytest.approx(result["loss"], rel=1e-12)
    assert float(trajectory.loss[-1]) == pytest.approx(result["loss"], rel=1e-9)


def test_the_stored_config_gives_the_same_run_again(finished, tmp_path):
    run, _ = finished
    again = call("recover", "--config", run / "config.toml", "--json", "--out", tmp_path / "again", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    first, second = json.loads((run / "result.json").read_text()), json.loads(again.stdout)
    first.pop("seconds"), second.pop("seconds")
    assert first == second
    with np.load(run / "student.npz") as a, np.load(tmp_path / "again" / "student.npz") as b:
        assert all(np.array_equal(a[name], b[name]) for name in a.files)


def test_report_writes_the_page_again(finished):
    run, _ = finished
    page = run / "report.html"
    before = page.read_bytes()
    page.unlink()
    done = call("report", run, cwd=run.parent)
    assert done.returncode == 0, done.stderr
    assert page.read_bytes() == before


def test_without_out_runs_are_numbered(tmp_path):
    (tmp_path / "runs" / "recover-1").mkdir(parents=True)
    done = call("recover", *SMALL, "--n-epochs", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "recover-2" / "result.json").is_file()


def test_samples_switch_to_the_empirical_risk(tmp_path):
    done = call(
        "recover", *SMALL, "--samples", 2000, "--noise", 0.1, "--max-steps", 500, "--json", "--out", "s", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    samples = json.loads(done.stdout)["samples"]
    assert samples["n"] == 2000
    assert samples["test_error_over_variance"] < 0.02


def test_a_teacher_file_is_recovered(tmp_path):
    (tmp_path / "teacher.toml").write_text(
        "outputs = [1.0, -0.7]\nweights = [[1, 0, 0, 0], [0.5, 0.8, 0, 0]]\nbias = 2.0\n"
    )
    done = call("recover", "--teacher", "teacher.toml", "--width", 60, "--json", "--out", "t", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["recovery"]["recovered"]
    assert result["teacher"]["dim"] == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["recover", "--width", "0"], "width=0"),
        (["recover", "--width", "7"], "width=7 must be even"),
        (["recover", "--width", "2"], "width=2 is below the teacher's 4 neurons"),
        (["recover", "--rank", "60"], "rank=60 is above dim"),
        (["recover", "--rank", "5", "--teacher-width", "4"], "rank=5 is above width"),
        (["recover", "--weight-decay", "-1"], "weight_decay=-1"),
        (["recover", "--weight-decay", "nan"], "weight_decay=nan"),
        (["recover", "--weight-decay", "10"], "weight_decay=10 leaves no neuron"),
        (["recover", "--noise", "-0.1", "--samples", "500"], "noise=-0.1"),
        (["recover", "--noise", "0.1"], "needs samples"),
        (["recover", "--samples", "20"], "samples=20 is below dim + 2"),
        (["recover", "--rank", "2", "--teacher-width", "30"], "min_angle=0.3 cannot be met"),
        (["recover", "--widht", "10"], "--width"),
        (["recover", "--width", "ten"], "'ten' is not a valid integer"),
        (["recover", "--stage2", "magic"], "magic"),
        (["recover", "--config", "absent.toml"], "absent.toml does not exist"),
        (["recover", "--config", "typo.toml"], "unknown key 'weight_decai'; did you mean 'weight_decay'?"),
        (["recover", "--config", "broken.toml"], "broken.toml is not valid TOML"),
        (["recover", "--config", "type.toml"], "width='many'"),
        (["recover", "--teacher", "absent.npz"], "absent.npz does not exist"),
        (["recover", "--teacher", "nan.toml"], "NaN or infinite"),
        (["report", "nowhere"], "not a run folder"),
        (["resume", "nowhere"], "not a run folder"),
        (["recovr"], "recovr"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_two_and_leaves_nothing(
    tmp_path, arguments, says, monkeypatch, capsys, as_shipped
):
    """In this process, since the imports would take most of the time; the next test sees to the real ones."""
    (tmp_path / "typo.toml").write_text("weight_decai = 0.1\n")
    (tmp_path / "broken.toml").write_text("width = = 3\n")
    (tmp_path / "type.toml").write_text('width = "many"\n')
    (tmp_path / "nan.toml").write_text("outputs = [nan]\nweights = [[1.0, 0.0]]\n")
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["wstar", *arguments])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("wstar: error: ")
    assert says in lines[0]
    assert [p for p in sorted(tmp_path.iterdir()) if p not in before and p.name != "runs"] == []
    assert not list((tmp_path / "runs").glob("*"))


def test_bad_input_ends_a_real_process_with_code_two(tmp_path):
    done = call("recover", "--rank", "60", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("wstar: error: rank=60")
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_kept_unless_forced(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished[0], run)
    before = (run / "result.json").read_bytes()
    refused = call("recover", *SMALL, "--out", "run", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert "resume" in refused.stderr
    assert (run / "result.json").read_bytes() == before
    forced = call("recover", *SMALL, "--n-epochs", 1, "--out", "run", "--force", cwd=tmp_path)
    assert forced.returncode == 0, forced.stderr
    assert (run / "result.json").read_bytes() != before
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    other = call("recover", *SMALL, "--out", "precious", "--force", cwd=tmp_path)
    assert other.returncode == 2
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years of work"


def test_a_finished_run_is_not_resumed(finished):
    done = call("resume", finished[0], cwd=finished[0].parent)
    assert done.returncode == 2
    assert "finished" in done.stderr


@pytest.mark.parametrize("damage", ["cut short", "other version", "not a zip"])
def test_a_damaged_or_foreign_checkpoint_is_refused(tmp_path, damage):
    run = RunFolder.create(
        tmp_path / "run", "recover", RecoverConfig.build({"dim": 10, "width": 60, "rank": 2, "teacher_width": 3})
    )
    run.checkpoint().save(lambda: {"x": np.zeros(1000)})
    state = run.path / "checkpoint" / "state.npz"
    if damage == "cut short":
        state.write_bytes(state.read_bytes()[:1500])
    elif damage == "not a zip":
        state.write_text("hello")
    else:
        np.savez(state, x=np.zeros(2), wstar=np.array("99.0"), format=np.array(7))
    done = call("resume", run.path, cwd=tmp_path)
    assert done.returncode == 2
    assert ("99.0" if damage == "other version" else "damaged") in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_full_disk_is_one_line_and_the_run_can_go_on(tmp_path):
    """Files may not grow beyond 4 kB: the first one that would stands for a disk that is full."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = call("recover", *SMALL, "--out", "run", cwd=tmp_path, preexec_fn=limit, env=environment)
    assert done.returncode == 2, done.stderr
    assert "resume" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run" / "result.json").exists()
    assert not list((tmp_path / "run").glob(".*"))
    resumed = call("resume", "run", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr


def test_help_answers_at_once():
    times = []
    for _ in range(5):
        began = time.perf_counter()
        done = subprocess.run([*WSTAR, "--help"], capture_output=True, text=True, check=True)
        times.append(time.perf_counter() - began)
        assert "recover" in done.stdout
    imported = subprocess.run(
        [sys.executable, "-X", "importtime", *WSTAR[1:], "--help"], capture_output=True, text=True, check=True
    ).stderr
    assert not any(f" {heavy}\n" in imported for heavy in ("jax", "numpy", "pandas", "pydantic", "plotly", "xarray"))
    assert min(times) < 0.6  # a machine may be busy; that nothing heavy is imported is the real claim
