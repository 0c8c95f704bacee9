"""Settings of the experiments as pydantic models, read from and written to TOML."""

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError

Settings = TypeVar("Settings", bound="Config")


class Config(BaseModel):
    """Base of all experiment settings: unknown keys are refused with the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def build(cls: type[Settings], values: dict[str, Any], where: str = "options") -> Settings:
        """Validated settings.

        Raises:
            ValueError: one line naming the first key that is unknown or out of range, what came and what is expected.
        """
        for key in values:
            if key not in cls.model_fields:
                near = get_close_matches(key, cls.model_fields, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(cls.model_fields)}"
                raise ValueError(f"{where}: unknown key {key!r}; {hint}")
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"]) or "settings"
            raise ValueError(f"{where}: {name}={first['input']!r}: {first['msg'].lower()}") from None

    @classmethod
    def read(cls: type[Settings], path: str | Path, overrides: dict[str, Any] | None = None) -> Settings:
        """Settings from a TOML file, with ``overrides`` on top; the table [versions] and the key kind are skipped.

        Raises:
            ValueError: no such file, not TOML, or as :meth:`build`.
        """
        values = read_toml(path)
        values = {key: value for key, value in values.items() if key not in ("kind", "versions")}
        return cls.build(values | (overrides or {}), str(path))

    def to_toml(self, kind: str, versions: dict[str, str]) -> str:
        """All settings (those that are None are left out) with the kind of run and the versions that ran it."""
        document = tomlkit.document()
        document.add("kind", tomlkit.item(kind))
        for key, value in self.model_dump(mode="json", exclude_none=True).items():
            document.add(key, tomlkit.item(value))
        document.add("versions", tomlkit.item(versions))
        return tomlkit.dumps(document)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The contents of a TOML file.

    Raises:
        ValueError: no such file, or not TOML.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"config file {path} does not exist")
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"config file {path} is not valid TOML: {error}") from None


class TrainingConfig(Config):
    """Settings of Algorithm 1 that every experiment on it shares."""

    width: int = Field(400, ge=2, description="student neurons at the start (even)")
    n_epochs: int = Field(12, ge=0, le=60, description="epochs of Stage 3; weight decay halves after each")
    seed: int = Field(0, ge=0, description="of every random draw")
    stage2: Literal["lars", "subgradient"] = Field("lars", description="LARS path or the paper's subgradient steps")
    affine: Literal["fitted", "trained"] = Field("fitted", description="bias and linear part: optimal, or by steps")
    learning_rate: float | None = Field(
        None, gt=0.0, description="Stage 3 step size; chosen from the problem if absent"
    )
    tolerance: float = Field(0.1, gt=0.0, description="an epoch ends at gradient norm ≤ tolerance·λ^1.5")
    max_steps: int = Field(100_000, ge=1, description="steps an epoch may take")


class RecoverConfig(TrainingConfig):
    """``wstar recover``: draw or read a teacher, train on its population risk or on samples from it."""

    dim: int = Field(50, ge=1, description="input dimension d")
    rank: int = Field(3, ge=1, description="dimension r of the span of the teacher neurons")
    teacher_width: int = Field(4, ge=1, description="hidden neurons m*")
    min_angle: float = Field(0.3, ge=0.0, le=1.5708, description="smallest angle between teacher neurons, rad")
    min_kappa: float = Field(0.1, ge=0.0, description="smallest |eigenvalue| of H in its span")
    signs: Literal["mixed", "positive", "negative"] = Field("mixed", description="signs of the teacher's outputs")
    teacher: str | None = Field(None, description="a .npz or .toml file with the teacher, instead of drawing one")
    weight_decay: float | None = Field(
        None, gt=0.0, description="λ of Stage 2 and of the first epoch; 0.02, with samples chosen from their noise"
    )
    n_epochs: int | None = Field(  # type: ignore[assignment]
        None, ge=0, le=60, description="epochs of Stage 3; 12, with samples chosen from their noise"
    )
    max_steps: int | None = Field(  # type: ignore[assignment]
        None, ge=1, description="steps an epoch may take; 100,000, with samples 2,000"
    )
    solver: Literal["descent", "newton", "flow"] = Field(
        "descent", description="Stage 3 by gradient descent, Newton's method or gradient flow"
    )
    certify: bool | None = Field(
        None, description="compare with the best network of any width at each λ; by default where that is cheap"
    )
    repair: bool = Field(False, description="insert neurons where an epoch ends in a local optimum")
    samples: int | None = Field(None, ge=1, description="train on this many samples instead of the population")
    noise: float = Field(0.0, ge=0.0, description="standard deviation of label noise, with samples")
    within_angle: float = Field(0.01, gt=0.0, le=1.5708, description="mass nearer than this to a teacher is gathered")


class FitConfig(Config):
    """``wstar fit``: a column of a table from the others, by few directions beside a linear part."""

    table: str = Field(description="a .csv or .parquet file")
    target: str = Field(min_length=1, description="column to predict")
    leave_out: list[str] = Field([], description="column to leave out; may be given several times")
    test_size: float = Field(0.2, ge=0.0, lt=1.0, description="share of rows held back to score the fit")
    missing: Literal["impute", "drop", "refuse"] = Field(
        "impute", description="NaN, infinite or empty cells: filled with the training rows' median, or rows dropped"
    )
    categories: Literal["onehot", "drop", "refuse"] = Field("onehot", description="text columns")
    dates: Literal["parts", "drop", "refuse"] = Field(
        "parts", description="dates: days, time of the year and of the day, day of the week"
    )
    folds: int = Field(5, ge=2, description="folds of the cross-validation that chooses the weight decay λ")
    rule: Literal["min", "one-se"] = Field(
        "min", description="least error, or the simplest model within one standard error of it"
    )
    robust: bool = Field(False, description="weigh rows with large residuals down")
    resamples: int = Field(50, ge=0, description="resampled tables for bands and stability; 0 for none")
    seed: int = Field(0, ge=0, description="of every random draw")


class TruncateConfig(Config):
    """``wstar truncate``: LMZ's Algorithm 1 on a target ``Σ a_i |w*_i·x|``, on the population or on samples."""

    dim: int = Field(30, ge=1, description="input dimension d, and number of target neurons unless read from a file")
    width: int = Field(100, ge=1, description="student neurons m")
    teacher: str | None = Field(None, description="a .npz or .toml file with the target, instead of making one")
    directions: Literal["axes", "rotated", "random"] = Field(
        "axes", description="w*: coordinate axes, a random rotation of them, or random directions (not orthonormal)"
    )
    kappa: float = Field(1.0, ge=1.0, description="κ ≥ 1: a_i log-uniform in [1/(κd), κ/d], then brought to sum 1")
    target_activation: Literal["abs", "relu"] = Field("abs", description="of the target; ReLU gets the even part above")
    activation: Literal["abs", "relu"] = Field("abs", description="of the student (simulations: abs, theory: relu)")
    samples: int | None = Field(None, ge=1, description="train on this many samples instead of the population")
    noise: float = Field(0.0, ge=0.0, description="standard deviation of label noise, with samples")
    n_steps: int | None = Field(None, ge=0, description="steps of both stages; by formula if absent")
    learning_rate: float = Field(0.1, gt=0.0, description="η, per particle")
    lambda_0: float | None = Field(None, gt=0.0, description="λ of Stage 1: neurons stop at ‖w‖² = 1/(2λ); 1/(2d²)")
    lambda_1: float | None = Field(None, gt=0.0, description="λ of Stage 2, at most that of Stage 1; 1/(2d⁴)")
    stage_one: str = Field(
        "formula", pattern=r"^(formula|detect|\d+)$", description='"formula", "detect" or a number of steps'
    )
    remove_linear: bool = Field(False, description="take the regression on x off the labels first (ReLU targets)")
    normalise: bool = Field(False, description="train on labels scaled so that the a_i sum to one")
    tolerance: float = Field(0.0, ge=0.0, description="stop when the gradient norm falls to it")
    seed: int = Field(0, ge=0, description="of every random draw")


class LmzConfig(Config):
    """``wstar reproduce lmz``: sizes and seeds of every part of the reproduction."""

    quick: bool = Field(False, description="sizes are small: for a look, not for the record")
    seeds: list[int] = Field(min_length=1, description="of Figure 2: start and rows are drawn anew for each")
    dim: int = Field(ge=2, description="d of Figure 2")
    samples: int = Field(ge=1, description="N of Figure 2")
    learning_rate: float = Field(gt=0.0, description="η, per particle, in every part")
    wide: int = Field(ge=1, description="m of Figure 2 left")
    wide_steps: int = Field(ge=1, description="steps of Figure 2 left")
    narrow: int = Field(ge=1, description="m of Figure 2 right")
    narrow_steps: int = Field(ge=1, description="steps of Figure 2 right")
    dims: list[int] = Field(min_length=4, description="d of stage times and final loss: a fit needs four")
    dim_seeds: list[int] = Field(min_length=1, description="runs at each d")
    width_factor: int = Field(ge=1, description="m/d of these runs")
    baseline_dims: list[int] = Field(min_length=1, description="d of the comparison with kernels and frozen features")
    samples_per_square: int = Field(ge=1, description="N/d² of the comparison")
    features: int = Field(ge=1, description="random features of the baselines that have them")
    limit_dim: int = Field(ge=2, description="d of the comparison with the infinite width")
    limit_particles: int = Field(ge=1, description="particles of the infinite width, before sign flips")
    limit_widths: list[int] = Field(min_length=4, description="m that are compared with it")


class ZgConfig(Config):
    """``wstar reproduce zg``: sizes and seeds of every experiment that ZG's statements call for."""

    quick: bool = Field(False, description="sizes are small: for a look, not for the record")
    dim: int = Field(ge=2, description="input dimension d wherever a network is trained on the population")
    rank: int = Field(ge=1, description="r of Theorem 2 end to end and of the phase diagrams that do not vary it")
    teacher_width: int = Field(ge=2, description="m* of the same")
    min_angle: float = Field(gt=0.0, le=1.5708, description="least separation Δ of random teachers, rad")
    min_kappa: float = Field(ge=0.0, description="least κ of random teachers")
    width: int = Field(ge=2, description="student neurons m at the start, even, where it does not vary")
    weight_decay: float = Field(gt=0.0, description="first λ, lowered to what the local regime of a teacher allows")
    n_epochs: int = Field(ge=4, le=40, description="epochs; λ halves after each")
    seeds: list[int] = Field(min_length=1, description="of Theorem 2 end to end: teacher and start drawn anew for each")
    max_steps: int = Field(ge=1, description="gradient steps an epoch may take")
    net_ranks: list[int] = Field(min_length=1, description="r of the ε₀-net after one step, at infinite d")
    net_dims: list[int] = Field(description="finite d of the ε₀-net, at the second of the ranks")
    net_widths: list[int] = Field(min_length=4, description="directions of the ε₀-net: m/2 of a symmetric start")
    net_draws: int = Field(ge=3, description="teachers and starts for each")
    frozen_ranks: list[int] = Field(min_length=1, description="r of frozen first layers beside trained ones")
    frozen_widths: list[int] = Field(min_length=4, description="neurons of these")
    frozen_draws: int = Field(ge=3, description="teachers and starts for each")
    sample_dims: list[int] = Field(min_length=4, description="d of the first step from samples")
    sample_ratios: list[float] = Field(min_length=3, description="N/d² of it")
    sample_draws: int = Field(ge=3, description="data sets for each")
    learn_dims: list[int] = Field(min_length=1, description="d of whole runs from samples")
    learn_ratios: list[float] = Field(min_length=2, description="N/d² of these")
    learn_draws: int = Field(ge=1, description="data sets for each")
    phase_widths: list[int] = Field(min_length=2, description="m of the phase diagrams, even")
    phase_angles: list[float] = Field(min_length=2, description="separations Δ of a pair of teacher neurons, rad")
    phase_ranks: list[int] = Field(min_length=2, description="r of the phase diagram in r and m")
    phase_decays: list[float] = Field(min_length=2, description="first λ of the phase diagram in λ and m")
    phase_decay: float = Field(gt=0.0, description="first λ of the other phase diagrams and of hard teachers")
    last_decay: float = Field(gt=0.0, description="λ at which every run of these has ended")
    phase_draws: int = Field(ge=3, description="teachers and starts for each cell")
    hard_angles: list[float] = Field(min_length=2, description="angles of nearly parallel pairs, rad")
    hard_kappas: list[float] = Field(min_length=2, description="κ of nearly degenerate H")
    hard_draws: int = Field(ge=3, description="teachers and starts for each hard geometry")
