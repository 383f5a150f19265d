"""Settings of the paper and of its authors' scripts, and the profiles of a run."""

from dataclasses import asdict, dataclass

import bart

from .paper import HYPERCUBE_BETA

__all__ = ["AUTHORS", "PAPER", "PROFILES", "SETTINGS", "Profile", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Everything that defines an experiment, problem and computing effort apart.

    Attributes
    ----------
    alpha, k, nu, q : float
        Priors of trees, leaf values and noise.
    sigma_hat : str
        "sd" or "ols".
    noise_shape : str
        "half": sigma^2 has gamma shape nu / 2; "full": nu, as in the authors' scripts.
    threshold : str
        "uniform" in a gap, or its "midpoint".
    tree_order : str
        "sequential" or "random".
    label_noise : float
        Noise standard deviation of hypercube labels.
    n_particles : int
    resampling, final : str
        Of particle Gibbs: the paper resamples after every stage, multinomially, and draws the last index
        by weight.
    bookkeeping : str
        "canonical" (exact) or "authors" (not quite invariant, for comparison with published traces only).
    move_probs : tuple of float
        Of CGM: grow, prune, change, swap.
    real_trees, real_beta : int, float
        Trees and beta on real data; the hypercubes have one tree and the beta of the paper's footnote.
    """

    name: str
    alpha: float = 0.95
    k: float = 2.0
    nu: float = 3.0
    q: float = 0.9
    sigma_hat: str = "sd"
    noise_shape: str = "half"
    threshold: str = "uniform"
    tree_order: str = "sequential"
    label_noise: float = 0.01
    n_particles: int = 10
    resampling: str = "multinomial"
    final: str = "plain"
    bookkeeping: str = "canonical"
    move_probs: tuple = (0.25, 0.25, 0.25, 0.25)
    real_trees: int = 200
    real_beta: float = 2.0

    def model(self, problem):
        """The Model of a problem under these settings."""
        return bart.Model(
            problem.X_train,
            problem.y_train,
            n_trees=problem.n_trees or self.real_trees,
            alpha=self.alpha,
            beta=self.real_beta if problem.beta is None else problem.beta,
            k=self.k,
            nu=self.nu,
            q=self.q,
            sigma_hat=self.sigma_hat,
            noise_shape=self.noise_shape,
            threshold=self.threshold,
        )

    def sampler(self, name):
        """The sampler "cgm", "growprune" or "pg" under these settings."""
        if name == "cgm":
            return bart.CGM(move_probs=self.move_probs, bookkeeping=self.bookkeeping)
        if name == "growprune":
            return bart.GrowPrune(bookkeeping=self.bookkeeping)
        if name == "pg":
            return bart.ParticleGibbs(
                n_particles=self.n_particles,
                resampling=self.resampling,
                final=self.final,
                bookkeeping=self.bookkeeping,
            )
        raise ValueError(f"name: expected cgm, growprune or pg, got {name!r}")

    def as_dict(self):
        """Plain values, for the files."""
        return asdict(self)


PAPER = Settings("paper")

AUTHORS = Settings(
    "authors",
    noise_shape="full",
    threshold="midpoint",
    tree_order="random",
    label_noise=0.0,
    bookkeeping="authors",
)

SETTINGS = {"paper": PAPER, "authors": AUTHORS}


@dataclass(frozen=True)
class Profile:
    """How much is computed.

    Attributes
    ----------
    n_sweeps, n_burn : int
        Of each chain on the hypercube.
    dims : tuple of int
        Hypercubes.
    data_seeds : tuple of int
        One data set each.
    n_chains : int
        Chains a data set and sampler, started from different kinds.
    n_reference : int
        Chains started at the true tree, half of them CGM, half GrowPrune.
    real_splits : tuple of int
        Training sets of the real data.
    real_chains, real_sweeps, real_burn : int
        Likewise on real data.
    real_every : int
        Test predictions use every so many draws.
    figure_dim : int
        Hypercube of figure 3.
    """

    name: str
    n_sweeps: int = 2000
    n_burn: int = 1000
    dims: tuple = (2, 3, 4)
    data_seeds: tuple = (1, 2, 3)
    n_chains: int = 4
    n_reference: int = 4
    real_splits: tuple = (1,)
    real_chains: int = 4
    real_sweeps: int = 2000
    real_burn: int = 1000
    real_every: int = 10
    figure_dim: int = 4

    def as_dict(self):
        """Plain values, for the files."""
        return asdict(self)


PROFILES = {
    "quick": Profile("quick"),
    "full": Profile("full", dims=tuple(HYPERCUBE_BETA), real_splits=(1, 2, 3), real_every=1),
    "tiny": Profile(
        "tiny",
        n_sweeps=60,
        n_burn=20,
        dims=(2,),
        data_seeds=(1,),
        n_chains=2,
        n_reference=2,
        real_chains=2,
        real_sweeps=12,
        real_burn=4,
        real_every=4,
        figure_dim=2,
    ),
}
