"""How well a fit predicts, beside ridge regression and the mean: on the rows it saw and on those held back."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

_PENALTIES = np.logspace(-3.0, 6.0, 37)
# draws of a bootstrap; fewer where rows are many
_DRAWS, _LEAST_DRAWS, _CELLS = 2000, 200, 10**8
LEVEL = 0.9


def r_squared(observed: Float[np.ndarray, " n"], predicted: Float[np.ndarray, " n"]) -> float | None:
    """``1 − Σ(y − ŷ)²/Σ(y − ȳ)²``; None where the observed values do not vary."""
    total = float(np.sum((observed - observed.mean()) ** 2)) if len(observed) > 1 else 0.0
    return 1.0 - float(np.sum((observed - predicted) ** 2)) / total if total > 0.0 else None


def ridge_and_mean(
    X_train: Float[np.ndarray, "n d"],
    y_train: Float[np.ndarray, " n"],
    X: Float[np.ndarray, "k d"],
    limits: tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Predictions for X of ridge regression (penalty by leave-one-out) and of the mean, from the training rows.

    ``limits``: lowest and highest value of each column, to which X is moved as the fit's inputs are.
    """
    ridge = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES)).fit(X_train, y_train)
    return ridge.predict(np.clip(X, *limits)), np.full(len(X), y_train.mean())


def score(observed: Float[np.ndarray, " n"], predicted: Float[np.ndarray, " n"]) -> dict[str, float | None] | None:
    """R², root mean squared error and mean absolute error; None without rows."""
    if not len(observed):
        return None
    errors = observed - predicted
    return {
        "r2": r_squared(observed, predicted),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "mae": float(np.mean(np.abs(errors))),
    }


def certainty(
    observed: Float[np.ndarray, " n"],
    predicted: Float[np.ndarray, " n"],
    rival: Float[np.ndarray, " n"],
    seed: int,
) -> dict[str, Any] | None:
    """Limits of R² and share of draws that prefer the fit to its rival, over unseen rows drawn with replacement.

    None where there are fewer than 8 rows or they do not vary. Source: Efron's percentile bootstrap.
    """
    if len(observed) < 8 or np.ptp(observed) == 0.0:
        return None
    rng, n = np.random.default_rng([seed, 5]), len(observed)
    centred = observed - observed.mean()
    squares = np.column_stack([(observed - predicted) ** 2, (observed - rival) ** 2, centred**2, centred])
    draws = int(np.clip(_CELLS / n, _LEAST_DRAWS, _DRAWS))
    # one draw at a time: all of them would be a matrix of draws × rows
    sums = np.array([rng.multinomial(n, np.full(n, 1.0 / n)) @ squares for _ in range(draws)])
    own, other, total = sums[:, 0], sums[:, 1], sums[:, 2] - sums[:, 3] ** 2 / n
    scores = 1.0 - own / np.where(total > 0.0, total, np.inf)
    low, high = np.quantile(scores, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL])
    return {
        "level": LEVEL,
        "r2_low": float(low),
        "r2_high": float(high),
        "better_than_ridge": float(np.mean(own < other) + 0.5 * np.mean(own == other)),
    }
