"""``wstar predict``."""

import sys
from pathlib import Path

import click

from wstar.experiments.store import RunFolder
from wstar.experiments.table.predict import predict_table

_SUFFIXES = (".csv", ".parquet")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="File to write, .csv or .parquet.  [standard output]")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def predict(run: Path, table: Path, out: Path | None, force: bool) -> None:
    """Predict for the rows of TABLE by the finished fit RUN.

    Writes TABLE with one more column; what was unusual in its rows is said on standard error.
    """
    if out is not None and out.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"--out {out}: predictions are written to .csv and .parquet files")
    if out is not None and out.exists() and not force:
        raise ValueError(f"{out} exists: choose another --out, or --force to replace it")
    found = predict_table(RunFolder.open(run), table)
    for note in found.notes:
        click.echo(note, err=True)
    if out is None:
        found.frame.to_csv(sys.stdout, index=False)
        return
    try:
        if out.suffix.lower() == ".csv":
            found.frame.to_csv(out, index=False)
        else:
            found.frame.to_parquet(out)
    except OSError as error:
        raise ValueError(f"cannot write {out}: {error.strerror or error}") from None
