"""Numbers printed in the paper.

Source: B. Lakshminarayanan, D. M. Roy, Y. W. Teh, "Particle Gibbs for Bayesian Additive Regression Trees",
AISTATS 2015, tables 1 to 5.
"""

SAMPLERS = ("cgm", "growprune", "pg")
SAMPLER_NAMES = {"cgm": "CGM", "growprune": "GrowPrune", "pg": "PG"}

# Footnote of section 4.1: beta_s by dimension of the hypercube.
HYPERCUBE_BETA = {2: 1.0, 3: 0.5, 4: 0.4, 5: 0.3, 7: 0.25}

# Table 1.
HYPERCUBE_ESS = {
    2: {"cgm": 751.66, "growprune": 473.57, "pg": 259.11},
    3: {"cgm": 762.96, "growprune": 285.2, "pg": 666.71},
    4: {"cgm": 14.01, "growprune": 11.76, "pg": 686.79},
    5: {"cgm": 2.92, "growprune": 1.35, "pg": 667.27},
    7: {"cgm": 1.16, "growprune": 1.78, "pg": 422.96},
}

# Table 2.
HYPERCUBE_ESS_PER_SECOND = {
    2: {"cgm": 157.67, "growprune": 114.81, "pg": 7.69},
    3: {"cgm": 93.01, "growprune": 26.94, "pg": 11.025},
    4: {"cgm": 0.961, "growprune": 0.569, "pg": 5.394},
    5: {"cgm": 0.130, "growprune": 0.071, "pg": 1.673},
    7: {"cgm": 0.027, "growprune": 0.039, "pg": 0.273},
}

# Table 3: rows for training, rows for testing, features.
REAL_SHAPES = {
    "CaliforniaHouses": (2000, 5000, 6),
    "YearPredictionMSD": (2000, 51630, 90),
    "CTslices": (2000, 24564, 384),
}

# Table 4.
REAL_ESS = {
    "CaliforniaHouses": {"cgm": 18.956, "growprune": 34.849, "pg": 76.819},
    "YearPredictionMSD": {"cgm": 29.215, "growprune": 21.656, "pg": 76.766},
    "CTslices": {"cgm": 2.511, "growprune": 5.025, "pg": 11.838},
}

# Table 5.
REAL_ESS_PER_SECOND = {
    "CaliforniaHouses": {"cgm": 1.967e-3, "growprune": 48.799e-3, "pg": 16.743e-3},
    "YearPredictionMSD": {"cgm": 2.018e-3, "growprune": 7.029e-3, "pg": 14.070e-3},
    "CTslices": {"cgm": 0.080e-3, "growprune": 0.615e-3, "pg": 2.115e-3},
}


def columns(ess, ess_per_second, problem, sampler):
    """What the paper says of a sampler on a problem, from a pair of its tables; None where it says nothing.

    Parameters
    ----------
    ess, ess_per_second : dict
        `HYPERCUBE_ESS` and `HYPERCUBE_ESS_PER_SECOND`, or `REAL_ESS` and `REAL_ESS_PER_SECOND`.
    problem : int or str
    sampler : str

    Returns
    -------
    dict
        ``paper_ess``, ``paper_ess_per_second`` and their quotient ``paper_run_seconds``.
    """
    value, rate = (table.get(problem, {}).get(sampler) for table in (ess, ess_per_second))
    seconds = value / rate if value else None
    return {"paper_ess": value, "paper_ess_per_second": rate, "paper_run_seconds": seconds}
