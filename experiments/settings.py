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
    ess_threshold : float or None
        Resample only where the particles' effective number falls below this share of them.
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
    ess_threshold: float | None = None
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
                ess_threshold=self.ess_threshold,
                final=self.final,
                bookkeeping=self.bookkeeping,
            )
        raise ValueError(f"name: expected cgm, growprune or pg, got {name!r}")

    def describe(self):
        """What is common to all problems, for the notes of a table."""
        return (
            f"k = {self.k:g}, nu = {self.nu:g} (noise shape '{self.noise_shape}'), q = {self.q:g}, sigma_hat by"
            f" '{self.sigma_hat}', thresholds '{self.threshold}', trees in {self.tree_order} order; PG:"
            f" {self.n_particles} particles, {self.resampling} resampling after every stage, bookkeeping"
            f" '{self.bookkeeping}'"
        )

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
        Of each chain on the hypercubes.
    dims : tuple of int
        Hypercubes.
    data_seeds : tuple of int
        One data set of each dimension for each; a chain of each sampler from each kind of start.
    trace_dims : tuple of int
        Hypercubes of the figures with traces: figure 3 and the two of the supplement.
    real_splits : tuple of int
        Training sets of the real data.
    real_chains : int
        Chains of each sampler on each of them; the kinds of start are taken in turn.
    real_sweeps, real_burn : int
        Likewise on real data.
    ablation_dims, ablation_seeds, ablation_particles : tuple of int
        Hypercubes, data sets and numbers of particles of the ablation tables.
    ablation_sweeps, ablation_burn : int
        On Friedman's function with many trees, in the ablation tables.
    authors_seeds : int
        Data sets of each dimension in the comparison with the authors' scripts.
    """

    name: str
    n_sweeps: int = 2000
    n_burn: int = 1000
    dims: tuple = tuple(HYPERCUBE_BETA)
    data_seeds: tuple = tuple(range(1, 11))
    trace_dims: tuple = (4, 2, 3)
    real_splits: tuple = (1, 2, 3)
    real_chains: int = 12
    real_sweeps: int = 2000
    real_burn: int = 1000
    ablation_dims: tuple = (3, 4, 5)
    ablation_seeds: tuple = tuple(range(1, 6))
    ablation_particles: tuple = (2, 5, 10, 20, 50)
    ablation_sweeps: int = 2000
    ablation_burn: int = 1000
    authors_seeds: int = 100

    def as_dict(self):
        """Plain values, for the files."""
        return asdict(self)


PROFILES = {
    "full": Profile("full"),
    "quick": Profile(
        "quick",
        data_seeds=(1, 2, 3),
        real_splits=(1,),
        real_chains=4,
        ablation_dims=(4,),
        ablation_seeds=(1, 2),
        ablation_particles=(2, 10, 50),
        ablation_sweeps=400,
        ablation_burn=200,
        authors_seeds=20,
    ),
    "tiny": Profile(
        "tiny",
        n_sweeps=60,
        n_burn=20,
        dims=(2, 3),
        data_seeds=(1,),
        trace_dims=(2, 2, 3),
        real_splits=(1,),
        real_chains=4,
        real_sweeps=12,
        real_burn=4,
        ablation_dims=(2,),
        ablation_seeds=(1,),
        ablation_particles=(2, 10),
        ablation_sweeps=12,
        ablation_burn=4,
        authors_seeds=2,
    ),
}
