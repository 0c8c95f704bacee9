"""The scikit-learn estimator: a two-layer network with few neurons beside a ridge-penalised linear part."""
