"""Sweeps: every run once, whatever is killed; what fails is set aside; the tables hold what single runs give."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from plotly.graph_objects import Figure
from sweep_tasks import deadly, failing, marking, reciprocal, same_rate, seeds, threads, together

import wstar
from wstar.cli.main import main
from wstar.experiments import registry
from wstar.experiments.local_pool import LocalPool
from wstar.experiments.pool import Ended, Pool
from wstar.experiments.study import cluster as cluster_module
from wstar.experiments.study.cluster import ClusterPool
from wstar.experiments.study.line_log import LineLog, read_lines
from wstar.experiments.study.store import SweepFolder
from wstar.experiments.study.study import Study
from wstar.experiments.study.sweep import run_sweep
from wstar.experiments.study.tables import collect
from wstar.experiments.study.worker import Chunk, Task, Work
from wstar.report.page import write_report

TESTS = Path(__file__).parent
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    "PYTHONDONTWRITEBYTECODE": "1",
}
TINY = {"dim": 2, "width": 4, "n_steps": 10}


class Here(Pool):
    """Workers that are this process: for what has nothing to do with processes."""

    def __init__(self, work, size=1):
        self.work, self.size, self.items = work, size, []

    def __enter__(self):  # noqa: D105
        return self

    def __exit__(self, *_):  # noqa: D105
        pass

    @property
    def busy(self):
        return len(self.items)

    @property
    def room(self):
        return self.size - len(self.items)

    def submit(self, item):
        self.items.append(item)

    def wait(self, timeout):
        items, self.items = self.items, []
        return [Ended(item, self.work(item)) for item in items]


def marked(marks):
    """How often each run was made."""
    return Counter(int(line) for line in marks.read_text().split()) if marks.exists() else Counter()


def wait_for(what, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


# ---------------------------------------------------------------------- every run, and what it found


def test_a_grid_becomes_an_array_over_its_axes(tmp_path):
    study = Study.build(
        {
            "experiment": "truncate",
            "repeats": 3,
            "base": {"seed": 5, **TINY},
            "grid": {
                "learning_rate": {"start": 0.01, "stop": 0.09, "num": 3, "spacing": "log"},
                "remove_linear": [False, True],
            },
        }
    )
    folder = SweepFolder.start(tmp_path / "s", study)
    said = run_sweep(folder, Here)
    assert (said["done"], said["failed"], said["pending"]) == (18, 0, 0)
    found = xr.open_zarr(tmp_path / "s" / "results.zarr")
    assert dict(found.sizes) == {"learning_rate": 3, "remove_linear": 2, "repeat": 3}
    np.testing.assert_allclose(found.learning_rate, [0.01, 0.03, 0.09], rtol=1e-14)
    table = pd.read_parquet(tmp_path / "s" / "summaries.parquet")
    assert table.run.tolist() == list(range(18))
    assert table.seed.tolist() == [5, 6, 7] * 6
    for run, rate, removed, repeat in ((0, 0, False, 0), (10, 1, True, 1), (17, 2, True, 2)):
        swept = {"learning_rate": float(found.learning_rate[rate]), "remove_linear": removed, "seed": 5 + repeat}
        config = registry.experiment("truncate").config.build(TINY | swept)
        # the batch of three seeds against one run by itself
        (alone,) = registry.experiment("truncate").measure([config])
        there = found.isel(learning_rate=rate, remove_linear=int(removed), repeat=repeat)
        row = table.iloc[run]
        for name, value in alone.items():
            np.testing.assert_allclose(float(there[name]), value, rtol=1e-12, atol=1e-300, err_msg=name)
            np.testing.assert_allclose(row[name], value, rtol=1e-12, atol=1e-300, err_msg=name)
    assert json.loads(found.attrs["study"])["repeats"] == 3
    assert json.loads(found.attrs["versions"])["wstar"] == wstar.__version__
    page = write_report(tmp_path / "s").read_text()
    assert "18 runs of truncate" in page
    assert "loss against learning_rate" in page
    assert "loss over both fields" in page
    drawn = json.loads(re.search(r'id="page-data">(.*?)</script>', page, flags=re.DOTALL)[1])["figures"]
    for figure in drawn.values():
        Figure(figure)
    assert {"loss-learning_rate", "loss-remove_linear", "loss-map", "seconds-learning_rate"} <= set(drawn)


@pytest.mark.parametrize("kind", registry.sweepable())
def test_numbers_of_a_run_are_named_unlike_its_settings(kind, tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 2))
    pd.DataFrame(X, columns=["a", "b"]).assign(y=np.abs(X[:, 0])).to_csv(tmp_path / "table.csv", index=False)
    small = {
        "recover": {"dim": 6, "rank": 1, "teacher_width": 1, "width": 20, "n_epochs": 1},
        "fit": {"table": str(tmp_path / "table.csv"), "target": "y", "resamples": 0, "folds": 2},
        "truncate": TINY,
    }
    experiment = registry.experiment(kind)
    (numbers,) = experiment.measure([experiment.config.build(small[kind])])
    assert not set(numbers) & {*experiment.config.model_fields, "run", "point", "repeat", "status", "seconds", "error"}
    assert all(isinstance(value, float) for value in numbers.values())
    assert np.isfinite(numbers["r2_test" if kind == "fit" else "loss"])


def test_a_list_and_draws_become_rows_of_runs(tmp_path):
    study = Study.build({"experiment": "truncate", "base": TINY, "runs": [{"dim": 3}, {"directions": "rotated"}]})
    task = Task(partial(marking, tmp_path / "marks", 0.0))
    run_sweep(SweepFolder.start(tmp_path / "list", study), Here, task=task)
    found = xr.open_zarr(tmp_path / "list" / "results.zarr")
    assert found.dim.values.tolist() == [3, 2]
    assert found.directions.values.tolist() == ["axes", "rotated"]
    draws = {"n": 4, "learning_rate": {"low": 0.01, "high": 0.1, "spacing": "log"}, "activation": ["abs", "relu"]}
    study = Study.build({"experiment": "truncate", "base": TINY, "random": draws})
    run_sweep(SweepFolder.start(tmp_path / "random", study), Here, task=task)
    found = xr.open_zarr(tmp_path / "random" / "results.zarr")
    assert found.sizes["run"] == 4
    assert found.twice.notnull().all()
    assert write_report(tmp_path / "random").is_file()


def test_runs_that_are_alike_come_together_and_others_alone(tmp_path):
    study = Study.build({"experiment": "truncate", "repeats": 4, "grid": {"learning_rate": [0.1, 0.2]}})
    folder = SweepFolder.start(tmp_path / "s", study)
    run_sweep(folder, Here, task=Task(together, same_rate))
    assert [record["summary"]["together"] for record in folder.records().values()] == [4.0] * 8
    folder = SweepFolder.start(tmp_path / "alone", study)
    run_sweep(folder, Here, task=Task(together))
    assert [record["summary"]["together"] for record in folder.records().values()] == [1.0] * 8


def test_only_seeds_of_the_start_alone_are_alike():
    experiment = registry.experiment("truncate")

    def key(**fields):
        return experiment.alike(experiment.config.build(TINY | fields))

    assert key(seed=1) == key(seed=2) is not None
    assert key(seed=1) != key(seed=1, learning_rate=0.2)
    # with these the seed draws the target or the rows too, or decides when Stage 1 ends
    for fields in ({"kappa": 2.0}, {"directions": "rotated"}, {"samples": 20}, {"stage_one": "detect"}):
        assert key(**fields) is None


# ---------------------------------------------------------------------- what fails, and what is refused


def test_a_run_that_fails_is_set_aside_and_made_again_only_on_demand(tmp_path):
    marks, study = tmp_path / "marks", Study.build(seeds(6) | {"grid": {"learning_rate": [0.1]}})
    folder = SweepFolder.start(tmp_path / "s", study)
    said = run_sweep(folder, Here, task=Task(partial(failing, marks, 3), same_rate))
    assert (said["done"], said["failed"]) == (5, 1)
    assert said["failures"] == [{"run": 3, "error": "ArithmeticError: no good at seed 3"}]
    text = (tmp_path / "s" / "failures" / "3.txt").read_text()
    assert "Traceback" in text
    assert "seed = 3" in text
    assert marked(marks) == Counter({k: 1 for k in range(6) if k != 3})
    assert "no good at seed 3" in write_report(tmp_path / "s").read_text()

    assert run_sweep(folder, Here, task=Task(partial(failing, marks, -1)))["failed"] == 1
    said = run_sweep(folder, Here, again=True, task=Task(partial(failing, marks, -1)))
    assert (said["done"], said["failed"]) == (6, 0)
    assert marked(marks) == Counter(range(6))
    assert not list((tmp_path / "s" / "failures").iterdir())


def test_another_study_a_newer_store_and_a_damaged_one_are_refused(tmp_path):
    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(2)))
    assert SweepFolder.start(tmp_path / "s", Study.build(seeds(2))).study == folder.study
    with pytest.raises(ValueError, match="holds another study"):
        SweepFolder.start(tmp_path / "s", Study.build(seeds(3)))
    (tmp_path / "mine").mkdir()
    with pytest.raises(ValueError, match="is left alone"):
        SweepFolder.start(tmp_path / "mine", Study.build(seeds(2)))
    file = tmp_path / "s" / "sweep.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps(said | {"wstar": "0.0.1"}))
    with pytest.raises(ValueError, match=r"begun by wstar 0\.0\.1"):
        run_sweep(SweepFolder.open(tmp_path / "s"), Here)
    file.write_text(json.dumps(said | {"format": 99, "wstar": "9.9"}))
    with pytest.raises(ValueError, match=r"wstar 9\.9 in format 99"):
        SweepFolder.open(tmp_path / "s")
    file.write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        SweepFolder.open(tmp_path / "s")


def test_the_axes_are_numbered_by_their_order(tmp_path):
    one = {"experiment": "truncate", "grid": {"dim": [2, 3], "width": [4, 8]}}
    SweepFolder.start(tmp_path / "s", Study.build(one))
    with pytest.raises(ValueError, match="holds another study"):
        SweepFolder.start(tmp_path / "s", Study.build(one | {"grid": {"width": [4, 8], "dim": [2, 3]}}))


def test_one_process_leads_and_a_dead_one_is_forgotten(tmp_path):
    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(2)))
    folder.lead_file.write_text("dead process 4000000 on nowhere\n")
    with folder.lead() as word:
        assert folder.lead_file.read_text().startswith(word)
        with pytest.raises(ValueError, match=f"being run by process {os.getpid()} on "), folder.lead():
            pass
    with folder.lead() as other:
        assert other != word


def test_workers_of_a_process_that_no_longer_leads_stop(tmp_path):
    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(2)))
    folder.left_behind()
    work = Work(Task(partial(marking, tmp_path / "marks", 0.0)), folder.path, "old")
    with folder.lead() as word:
        assert work(Chunk("a", ((0, {"seed": 0}),))) == []
        assert len(Work(work.task, folder.path, word)(Chunk("b", ((1, {"seed": 1}),)))) == 1
    assert marked(tmp_path / "marks") == Counter([1])
    with pytest.raises(RuntimeError, match=r"the sweep is of 9\.9"):
        Work(work.task, folder.path, "old", version="9.9")(Chunk("a", ()))


def test_a_worker_that_does_not_see_the_folder_leaves_writing_to_the_leader(tmp_path):
    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(5)))

    def blind(work):
        return Here(Work(work.task, tmp_path / "elsewhere", work.word))

    run_sweep(folder, blind, task=Task(partial(marking, tmp_path / "marks", 0.0)))
    assert [record["summary"]["twice"] for record in folder.records().values()] == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_chunk_that_was_begun_goes_on_where_it_was(tmp_path):
    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(3)))
    folder.left_behind()
    chunk = Chunk("a", tuple((k, {"seed": k}) for k in range(3)))
    with folder.lead() as word:
        work = Work(Task(partial(marking, tmp_path / "marks", 0.0)), folder.path, word)
        first = work(Chunk("a", chunk.runs[:2]))
        # the process was killed as it wrote the third
        with (folder.chunks / "a.jsonl").open("a") as file:
            file.write('{"run": 2, "sta')
        again = work(chunk)
    assert again[:2] == first
    assert marked(tmp_path / "marks") == Counter(range(3))
    # and what nobody took over is found by the next leader
    said = run_sweep(folder, Here, task=work.task)
    assert said["done"] == 3
    assert marked(tmp_path / "marks") == Counter(range(3))
    assert folder.left_behind() == []


def test_the_log_takes_all_of_a_batch_or_none(tmp_path, monkeypatch):
    with LineLog(tmp_path / "log") as log:
        log.append([{"run": 1}])
        whole = os.write

        def full(file, data):
            if len(data) < 30:
                raise OSError(28, "No space left on device")
            return whole(file, data[:25])

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            log.append([{"run": 2, "words": "many"}, {"run": 3, "words": "more"}])
        monkeypatch.undo()
        log.append([{"run": 4}])
    assert [record["run"] for record in read_lines(tmp_path / "log")] == [1, 4]


def test_a_grid_larger_than_memory_costs_nothing_until_it_is_run():
    axis = {"start": 0.01, "stop": 1.0, "num": 1_000_000_000, "spacing": "log"}
    began = time.perf_counter()
    study = Study.build({"experiment": "truncate", "grid": {"learning_rate": axis, "dim": [2, 3]}, "repeats": 5})
    assert study.n_runs == 10**10
    assert study.fields(10**10 - 1) == {"learning_rate": 1.0, "dim": 3, "seed": 4}
    assert time.perf_counter() - began < 5.0


@pytest.mark.parametrize(
    ("study", "says"),
    [
        ('kind = "truncate"\n[grid]\nwidht = [1]', "truncate has no field 'widht'; did you mean 'width'?"),
        ('kind = "truncate"\n[grid]\nwidth = [4, -3]', "[grid] width: width=-3"),
        ('kind = "truncate"\n[grid]\nwidth = {start=1, stop=3, num=9}', "not different as whole numbers"),
        ('kind = "truncate"\n[grid]\nlearning_rate = {start=0, stop=3, num=9, spacing="log"}', "start=0 must be above"),
        ('kind = "truncate"\n[grid]\nwidth = {start=1, stpo=3, num=2}', "did you mean 'stop'?"),
        ('kind = "truncate"\n[grid]\nwidth = 3', "put what is fixed into [base]"),
        ('kind = "truncate"\n[grid]\nwidth = [4, 4]', "each once"),
        ('kind = "truncate"\n[base]\ndim = 0', "[base]: dim=0"),
        ('kind = "truncate"\n[base]\nwidth = 3\n[grid]\nwidth = [4]', "width is in [base] and in [grid]"),
        ('kind = "truncate"\n[random]\nwidth = {low=1, high=2}', "n=None"),
        ('kind = "truncate"\n[random]\nn = 3\nwidth = {low=2, high=1}', "low=2 is above high=1"),
        ('kind = "truncate"\n[random]\nn = 3\n[grid]\nwidth = [1]', "[grid] and [random] exclude each other"),
        ('kind = "truncate"\nrepeats = 2\n[grid]\nseed = [1]', "seed is in [grid] and counted by repeats=2"),
        ('kind = "truncate"\n[[runs]]\ndim = 2\n[[runs]]\ndim = "x"', "[[runs]] 2: dim='x'"),
        ('kind = "lmz"', "'lmz' cannot be swept; choose one of recover, fit, truncate"),
        ('kind = "trunkate"', "did you mean 'truncate'?"),
        ("repeats = 2", "kind is missing"),
        ('kind = "truncate"\ngird = 1', "unknown key 'gird'; did you mean 'grid'?"),
        ('kind = "truncate"\nrepeats = 20000', "20,000 runs: make it smaller, or add --yes"),
        ('kind = "truncate"\n[grid]\nlearning_rate = {start=1, stop=2, num=1000000000}', "1,000,000,000 runs"),
    ],
)
def test_a_bad_study_is_one_line_and_leaves_nothing(tmp_path, study, says, monkeypatch, capsys, as_shipped):
    (tmp_path / "study.toml").write_text(study)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["wstar", "sweep", "study.toml"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.strip().splitlines()) == 1
    assert says in printed.err
    assert [p.name for p in tmp_path.iterdir()] == ["study.toml"]


# ---------------------------------------------------------------------- real processes


def test_a_killed_worker_takes_only_its_run_with_it(tmp_path):
    marks, killed = tmp_path / "marks", []

    def kill(progress):
        if progress.ended >= 3 and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(12)))
    task = Task(partial(marking, marks, 0.2))
    said = run_sweep(folder, partial(LocalPool, size=2), task=task, on_progress=kill)
    assert killed
    assert (said["done"], said["failed"]) == (12, 0)
    # a run of 0.2 s is killed between its mark and its record, tenths of a millisecond apart, once in a thousand times
    assert marked(marks) == Counter(range(12))
    assert multiprocessing.active_children() == []


def test_a_run_that_always_kills_its_worker_is_given_up(tmp_path):
    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(4)))
    said = run_sweep(folder, partial(LocalPool, size=1), task=Task(partial(deadly, tmp_path / "marks", 2)))
    assert (said["done"], said["failed"]) == (3, 1)
    assert "killed by signal 9 (SIGKILL), 3 times in a row" in said["failures"][0]["error"]
    assert marked(tmp_path / "marks") == Counter([0, 1, 3])


def test_an_exception_outside_of_runs_ends_the_sweep():
    with LocalPool(reciprocal, 1) as pool:
        wait_for(lambda: pool.wait(0.1) == [] and pool.room)
        pool.submit(0)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            wait_for(lambda: pool.wait(1.0))
    with pytest.raises(ValueError, match="workers=0"):
        LocalPool(reciprocal, 0)


def test_processes_compute_on_one_thread_and_this_one_is_left_alone():
    before = dict(os.environ)
    with LocalPool(threads, 1) as pool:
        wait_for(lambda: pool.wait(0.1) == [] and pool.room)
        pool.submit(None)
        found = []
        wait_for(lambda: found.extend(pool.wait(1.0)) or found)
    assert found[0].result == ("1", True)
    assert dict(os.environ) == before


def leader(*arguments):
    """A process that leads a sweep as :func:`sweep_tasks.lead` says."""
    return subprocess.Popen(
        [sys.executable, str(TESTS / "sweep_tasks.py"), *map(str, arguments)],
        env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_killed_client_loses_nothing_and_a_second_one_is_refused_while_it_lives(tmp_path):
    folder, marks = tmp_path / "s", tmp_path / "marks"
    first = leader(folder, marks, 20, 0.2)
    wait_for(lambda: len(marked(marks)) >= 4 or first.poll() is not None)
    second = SweepFolder.open(folder)
    with pytest.raises(ValueError, match=f"being run by process {first.pid} on "):
        run_sweep(second, Here)
    assert 0 < second.describe()["done"] < 20
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    said = run_sweep(second, partial(LocalPool, size=2), task=Task(partial(marking, marks, 0.01)))
    assert said["done"] == 20
    # as above, once in a thousand times for each of two workers
    assert marked(marks) == Counter(range(20))


def test_what_a_full_disk_did_not_take_is_there_once_it_does(tmp_path):
    """Files may not grow beyond 4 kB: the log of the sweep comes to that after some forty of a hundred runs."""
    folder, marks = tmp_path / "s", tmp_path / "marks"
    full = leader(folder, marks, 100, 0.0, "", 4096)
    assert full.wait(timeout=120) == 1
    assert "OSError" in full.stderr.read()
    kept = SweepFolder.open(folder).records()
    assert 20 < len(kept) < 100
    run_sweep(SweepFolder.open(folder), Here, task=Task(partial(marking, marks, 0.0)))
    after = SweepFolder.open(folder).records()
    assert {run: after[run] for run in kept} == kept
    # the disk was full for the log alone: what workers had done was safe in files of their own
    assert marked(marks) == Counter(range(100))


def test_the_command_says_what_failed_and_how_to_go_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "study.toml").write_text(
        'kind = "truncate"\nrepeats = 3\n[base]\ndim = 2\nwidth = 4\nn_steps = 10\n[grid]\nlambda_1 = [0.01, 1e-310]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wstar.cli.sweep._pool", lambda workers, scheduler, work: Here(work))

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["wstar", "sweep", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    with monkeypatch.context() as full:
        full.setattr(LineLog, "append", no_space)
        code, out, error = call("study.toml")
    assert (code, out) == (2, "")
    assert len(error.strip().splitlines()) == 1
    assert "No space left on device; what is done is kept" in error
    code, out, _ = call("study.toml")
    assert code == 1
    *_, page, last = out.strip().splitlines()
    assert page == f"page: {Path('runs') / 'study' / 'report.html'}"
    assert "3 runs failed, the first with ValueError: lambda_1=1e-310" in last
    assert str(Path("runs") / "study" / "failures" / "3.txt") in last
    code, out, _ = call("retry", str(Path("runs") / "study"), "--json")
    said = json.loads(out)
    assert (code, said["done"], said["failed"]) == (1, 3, 3)
    assert call("--workers", "1", "--scheduler", "x", "study.toml")[0] == 2


def no_space(*_):
    raise OSError(28, "No space left on device")


def test_status_and_collect_say_what_there_is(tmp_path, monkeypatch, capsys):
    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(3)))

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["wstar", "sweep", *arguments, str(tmp_path / "s")])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().out

    assert call("status") == (
        0,
        f"{folder.path}: 3 runs of truncate, 0 done, 0 failed, 3 pending; 0\u00a0s of work in them\n",
    )
    run_sweep(folder, Here, task=Task(partial(failing, tmp_path / "marks", 1)))
    code, out = call("status", "--json")
    said = json.loads(out)
    assert (code, said["done"], said["failed"], said["pending"]) == (0, 2, 1, 0)
    (tmp_path / "s" / "summaries.parquet").unlink()
    assert call("collect")[0] == 0
    table = pd.read_parquet(tmp_path / "s" / "summaries.parquet")
    assert table.status.tolist() == ["done", "failed", "done"]
    assert table.twice.tolist()[::2] == [0.0, 4.0]
    assert np.isnan(table.twice[1])


def test_tables_of_a_sweep_that_goes_on_have_gaps(tmp_path):
    study = Study.build({"experiment": "truncate", "base": TINY | {"dim": 2}, "grid": {"learning_rate": [0.1, 0.2]}})
    folder = SweepFolder.start(tmp_path / "s", study)
    with folder.log() as log:
        log.append([{"run": 1, "status": "done", "seconds": 1.0, "summary": {"loss": 0.5, "warm": None}}])
    collect(folder)
    found = xr.open_zarr(tmp_path / "s" / "results.zarr")
    np.testing.assert_array_equal(found.loss.values.ravel(), [np.nan, 0.5])
    assert found.status.values.ravel().tolist() == [0, 1]
    assert pd.read_parquet(tmp_path / "s" / "summaries.parquet").status.tolist() == ["pending", "done"]


# ---------------------------------------------------------------------- a cluster


def test_without_a_scheduler_there_is_one_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("distributed")
    monkeypatch.setattr("wstar.experiments.study.cluster._TIMEOUT", 0.5)
    SweepFolder.start(tmp_path / "s", Study.build(seeds(2)))
    monkeypatch.setattr(sys, "argv", ["wstar", "sweep", "retry", str(tmp_path / "s"), "--scheduler", "127.0.0.1:9"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "no scheduler answers at 127.0.0.1:9" in error
    assert len(error.strip().splitlines()) == 1


@contextmanager
def running_cluster(folder, *options):
    """Address of a scheduler with two workers of one thread each, and the processes."""
    distributed = pytest.importorskip("distributed")
    file, processes = folder / "scheduler.json", []

    def start(what, *more):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(file), *more]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes.append(subprocess.Popen(command, env=ENVIRONMENT, cwd=folder, **quiet))

    try:
        start("scheduler", "--port", "0", "--no-dashboard")
        wait_for(file.exists)
        for _ in range(2):
            start("worker", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0", *options)
        address = json.loads(file.read_text())["address"]
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
        yield address, processes
    finally:
        # the scheduler, which is the first, last of all
        for process in processes[::-1]:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def mortal_cluster(tmp_path):
    """Workers that are gone when they are killed."""
    with running_cluster(tmp_path, "--no-nanny") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Workers that come back when they are killed."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def test_a_cluster_may_lose_a_worker_the_client_and_its_scheduler(tmp_path, mortal_cluster):
    (address, (scheduler, worker, _)), folder, marks = mortal_cluster, tmp_path / "s", tmp_path / "marks"
    first = leader(folder, marks, 60, 0.1, address)
    wait_for(lambda: len(marked(marks)) >= 6 or first.poll() is not None)
    worker.kill()
    wait_for(lambda: len(marked(marks)) >= 12 or first.poll() is not None)
    first.kill()
    assert first.wait() == -signal.SIGKILL
    # a chunk that still ran is waited for
    second = leader(folder, marks, 60, 0.1, address)
    wait_for(lambda: len(marked(marks)) >= 25 or second.poll() is not None)
    scheduler.kill()
    assert second.wait(timeout=60) == 1
    assert f"the scheduler at {address} is gone" in second.stderr.read()
    said = run_sweep(SweepFolder.open(folder), partial(LocalPool, size=1), task=Task(partial(marking, marks, 0.0)))
    assert (said["done"], said["failed"]) == (60, 0)
    # as above, once in a thousand times for the worker and for each client
    assert marked(marks) == Counter(range(60))


@pytest.mark.parametrize("name", ["python", "distributed", "wstar"])
def test_a_worker_of_another_version_is_refused(cluster, monkeypatch, name):
    address, _ = cluster
    found, asked = cluster_module._versions, []

    def ours_is_newer(said):
        asked.append(said)
        return found(said) | ({name: "9.9"} if len(asked) == 1 else {})

    monkeypatch.setattr(cluster_module, "_versions", ours_is_newer)
    with pytest.raises(ValueError, match=rf"the worker at tcp://.* has {name} .*, here it is 9\.9: make them the same"):
        ClusterPool(str, address)


def test_a_run_that_kills_workers_of_a_cluster_is_given_up_in_silence(tmp_path, cluster, caplog):
    address, _ = cluster
    folder = SweepFolder.start(tmp_path / "s", Study.build(seeds(6)))
    task = Task(partial(deadly, tmp_path / "marks", 2))
    said = run_sweep(folder, lambda work: ClusterPool(work, address), task=task)
    assert (said["done"], said["failed"]) == (5, 1)
    assert "times in a row, while it made this run" in said["failures"][0]["error"]
    assert marked(tmp_path / "marks") == Counter([0, 1, 3, 4, 5])
    assert caplog.text == ""
