"""One chain of one BART package in a process of its own; needs numpy and that package, nothing else.

    PYTHON benchmarks/peer_runs.py '{"system": "bartz", "data": "data.npz", "seed": 1, ...}'

`peers.py` starts it with the package's own interpreter and talks to it in lines of JSON: a request such as
``{"do": "sweeps", "n": 10}`` on standard input, its answer on standard output. A sweep is one update of every tree.
All values are in scaled units (y in [-0.5, 0.5]).
"""

import json
import math
import os
import platform
import sys
import time
from importlib import metadata

import numpy as np

# Records between two looks at the clock.
CHUNK = 20


class Run:
    """A chain that can be continued, from stumps. Subclasses define `start`, `sweep`, `state` and `held_out`.

    Parameters
    ----------
    task : dict
        system, data (an .npz file with X, y, y_scaled, X_test), seed, n_particles, and the prior: n_trees, alpha, beta,
        leaf_var, nu, lam; sigma2, where the chain starts; model, the arguments of `bart.Model` that give this prior.
    """

    packages = ()
    compiles = False    # whether the first sweep compiles: it is then made, but not counted

    def __init__(self, task):
        self.task = task
        with np.load(task["data"]) as data:
            self.X, self.X_test = data["X"], data["X_test"]
            self.y, self.y_scaled = data["y"], data["y_scaled"]
        # 1 / sigma2 is Gamma with this shape and rate.
        self.noise = (0.5 * task["nu"], 0.5 * task["nu"] * task["lam"])
        self._sigma2, self._ssr, self._f = [], [], []
        self.start()

    def start(self):
        """Make the first state."""
        raise NotImplementedError

    def sweep(self, n):
        """n sweeps; returns when they are done."""
        raise NotImplementedError

    def end_burn_in(self):
        """For a package that adapts during the burn-in."""

    def state(self):
        """(sigma2, residual) as they are now."""
        raise NotImplementedError

    def held_out(self):
        """f at X_test, or what `f_draws` makes it of."""
        raise NotImplementedError

    def mean_leaves(self):
        """Leaves a tree, as it is now."""
        raise NotImplementedError

    def end_chunk(self):
        """After each call of `advance`; its time is not counted."""

    def record(self):
        """Keep sigma2, the sum of squared residuals, and f at X_test."""
        sigma2, residual = self.state()
        self._sigma2.append(float(sigma2))
        self._ssr.append(float(np.square(residual, dtype=np.float64).sum()))
        self._f.append(self.held_out())

    def f_draws(self, kept):
        """f at X_test at each record, (n_records, n_points)."""
        return np.array(kept, dtype=np.float64)

    def advance(self, n, n_records):
        """So many records, each after n sweeps: (CPU seconds, wall seconds) of the sweeps alone."""
        cpu = wall = 0.0
        for _ in range(n_records):
            times = timed(self, n)
            cpu, wall = cpu + times[0], wall + times[1]
            self.record()
        return cpu, wall

    def traces(self):
        """Traces of the records: sigma and log_likelihood (n_records,), f (n_records, n_points)."""
        sigma2, ssr = np.array(self._sigma2), np.array(self._ssr)
        log_likelihood = -0.5 * len(self.y) * np.log(2 * np.pi * sigma2) - 0.5 * ssr / sigma2
        return {"sigma": np.sqrt(sigma2), "log_likelihood": log_likelihood, "f": self.f_draws(self._f)}


class Ours(Run):
    """bart.Ensemble; its interpreter is that of `peers.py`."""

    packages = ("numpy", "scipy", "pgbart")

    def start(self):
        from bart.kernels.forest import ForestStore

        import bart

        from . import measure

        self.model = bart.Model(self.X, self.y, **self.task["model"])
        sampler = measure.SAMPLERS[self.task["system"]]()
        self.ensemble = bart.Ensemble(self.model, sampler, measure.generator(self.task["seed"]))
        self.store = ForestStore(self.model.n_trees)
        self.unit = measure.Pass(self.model.codes, self.ensemble.residual)

    def sweep(self, n):
        self.store.clear()
        self.n_leaves = int(self.ensemble.run(n, store=self.store, store_every=n)["n_leaves"][-1])

    def state(self):
        return self.ensemble.sigma2, self.ensemble.residual

    def held_out(self):
        from bart.kernels.forest import predict_draws

        f = np.empty((1, len(self.X_test)))
        predict_draws(self.X_test, self.store.nodes, self.store.starts, self.model.n_trees, 0, 1, f)
        return f[0]

    def mean_leaves(self):
        return self.n_leaves / self.model.n_trees


class Bartz(Run):
    """A compiled loop over bartz.mcmcstep.step, as bartz.mcmcloop.run_mcmc has it, on a state with our prior.

    A call from Python costs as much as a sweep at N = 2000, so records are made inside the loop, and their time (some
    1 %) counts.
    """

    packages = ("bartz", "jax", "jaxlib", "numpy")
    compiles, _loop = True, None

    def start(self):
        import jax
        import jax.numpy as jnp
        from bartz.mcmcstep import Wishart, init, make_p_nonterminal
        from bartz.prepcovars import UniqueQuantileBinner

        task = self.task
        self.key, key = jax.random.split(jax.random.key(task["seed"]))
        X = jnp.asarray(self.X.T, jnp.float32)
        self.binner = binner = UniqueQuantileBinner(X, key=key)
        self.codes_test, Bartz._loop = self.codes_of(self.X_test), Bartz._loop or self._compiled()
        self.wait = jax.block_until_ready
        rate = task["nu"] * task["lam"]
        self.mcmc = init(
            X=binner.bin(X), y=jnp.asarray(self.y_scaled, jnp.float32), offset=0.0, max_split=binner.max_split,
            num_trees=task["n_trees"], p_nonterminal=make_p_nonterminal(6, task["alpha"], task["beta"]),
            leaf_prior_cov_inv=Wishart(nu=None, rate=None, value=1.0 / task["leaf_var"]),
            error_cov_inv=Wishart(nu=task["nu"], rate=rate, value=1.0 / task["sigma2"]))

    def codes_of(self, X):
        return self.binner.bin(np.asarray(X.T, np.float32))

    @staticmethod
    def _compiled():
        """loop(key, state, codes_test, n, n_records), for all chains of the process; no number is compiled in."""
        import jax
        import jax.numpy as jnp
        from bartz.grove import evaluate_forest
        from bartz.mcmcstep import step

        def one_sweep(_, carry):
            key, state = carry
            key, use = jax.random.split(key)
            return key, step(use, state)

        def loop(key, state, codes_test, n, n_records):
            def one_record(i, carry):
                key, state, kept = carry
                key, state = jax.lax.fori_loop(0, n, one_sweep, (key, state))
                ssr = jnp.sum(jnp.square(state.resid * state.resid_unit))
                f = evaluate_forest(codes_test, state.forest, sum_batch_axis=0)
                row = jnp.concatenate([jnp.stack([1.0 / state.error_cov_inv.value, ssr]), f])
                return key, state, kept.at[i].set(row)

            kept = jnp.zeros((CHUNK, 2 + codes_test.shape[1]))
            return jax.lax.fori_loop(0, n_records, one_record, (key, state, kept))

        return jax.jit(loop, donate_argnums=1)

    def sweep(self, n, n_records=1):
        self.key, self.mcmc, self.kept = self.wait(Bartz._loop(self.key, self.mcmc, self.codes_test, n, n_records))

    def advance(self, n, n_records):
        cpu, wall = time.process_time(), time.perf_counter()
        self.sweep(n, n_records)
        times = time.process_time() - cpu, time.perf_counter() - wall
        kept = np.asarray(self.kept, dtype=np.float64)[:n_records]
        self._sigma2 += kept[:, 0].tolist()
        self._ssr += kept[:, 1].tolist()
        self._f += list(kept[:, 2:])
        return times

    def mean_leaves(self):
        return 1.0 + float((np.asarray(self.mcmc.forest.split_tree) != 0).sum()) / self.task["n_trees"]


class StochTree(Run):
    """stochtree's low-level interface, the loop that its BARTModel runs; grow/prune, or grow-from-root."""

    packages = ("stochtree", "numpy")
    from_root = False

    def start(self):
        from stochtree import config, data, forest, sampler

        task, self.sampler = self.task, sampler
        n_dims, n_trees = self.X.shape[1], task["n_trees"]
        self.train, self.test = data.Dataset(), data.Dataset()
        self.train.add_covariates(self.X)
        self.test.add_covariates(self.X_test)
        self.residual = data.Residual(self.y_scaled)
        self.rng = sampler.RNG(task["seed"])
        self.globals = config.GlobalModelConfig(global_error_variance=task["sigma2"])
        self.config = config.ForestModelConfig(
            num_trees=n_trees, num_features=n_dims, num_observations=len(self.y), alpha=task["alpha"],
            beta=task["beta"], feature_types=np.zeros(n_dims, dtype=int), min_samples_leaf=1, max_depth=-1,
            variable_weights=np.full(n_dims, 1.0 / n_dims), leaf_model_type=0,
            leaf_model_scale=np.array([[task["leaf_var"]]]), num_features_subsample=n_dims)
        self.kernel = sampler.ForestSampler(self.train, self.globals, self.config)
        self.variance = sampler.GlobalVarianceModel()
        self.kept, self.forest = forest.ForestContainer(n_trees, 1, True, False), forest.Forest(n_trees, 1, True, False)
        self.kernel.prepare_for_sampler(self.train, self.residual, self.forest, 0, np.array([0.0]))

    def sweep(self, n):
        for _ in range(n):
            self.kernel.sample_one_iteration(self.kept, self.forest, self.train, self.residual, self.rng, self.globals,
                                             self.config, False, self.from_root, 1)
            sigma2 = self.variance.sample_one_iteration(self.residual, self.rng, *self.noise)
            self.globals.update_global_error_variance(sigma2)

    def state(self):
        return self.globals.get_global_error_variance(), self.residual.get_residual()

    def held_out(self):
        return self.forest.predict(self.test)

    def mean_leaves(self):
        return self.forest.num_forest_leaves() / self.task["n_trees"]


class GrowFromRoot(StochTree):
    from_root = True


class PyMCBart(Run):
    """The step method of pymc-bart on a PyMC model; sigma2 is drawn from its conditional law after each step.

    A step updates a tenth of the trees, the next ones in turn (its default batch); a sweep is as many steps as update
    m trees. It adapts the scale of its leaf values until `end_burn_in`.
    """

    packages = ("pymc-bart", "bartrs", "pymc", "pytensor", "numba", "numpy")
    batch = 0.1

    def start(self):
        import pymc as pm
        import pymc_bart
        from bartrs import PGBART

        task, (shape, rate) = self.task, self.noise
        with pm.Model() as model:
            sigma2 = pm.InverseGamma("sigma2", shape, rate)
            f = pymc_bart.BART("f", self.X, self.y_scaled, m=task["n_trees"], alpha=task["alpha"], beta=task["beta"])
            pm.Normal("y", f, pm.math.sqrt(sigma2), observed=self.y_scaled)
            self.kernel = PGBART([f], num_particles=task["n_particles"], batch=(self.batch, self.batch))
        self.point = model.initial_point()
        self.point["sigma2_log__"] = np.asarray(math.log(task["sigma2"]))
        self.rng = np.random.Generator(np.random.PCG64DXSM(task["seed"]))
        self.steps_a_sweep, self.n_kept_steps = round(1 / self.batch), 0

    def sweep(self, n):
        shape, rate = self.noise[0] + 0.5 * len(self.y), self.noise[1]
        for _ in range(n * self.steps_a_sweep):
            self.point, _ = self.kernel.step(self.point)
            residual = self.state()[1]
            sigma2 = (rate + 0.5 * residual @ residual) / self.rng.standard_gamma(shape)
            self.point["sigma2_log__"] = np.asarray(math.log(sigma2))
        self.n_kept_steps += 0 if self.kernel.tune else n * self.steps_a_sweep

    def end_burn_in(self):
        self.kernel.stop_tuning()

    def state(self):
        return math.exp(self.point["sigma2_log__"]), self.y_scaled - self.point["f"]

    def held_out(self):
        return self.n_kept_steps - 1

    def f_draws(self, kept):
        from pymc_bart.pymc_bart import PosteriorSampler

        kernel, X = self.kernel.pg_bart, np.ascontiguousarray(self.X_test)
        forests = PosteriorSampler.from_history(kernel.all_batches, kernel.baseline_forest, self.task["n_trees"], 1)
        return forests.sample_posterior(X, [int(draw) for draw in kept], None)[:, 0, :]

    def mean_leaves(self):
        """Also checks that a sweep updates m trees."""
        batches = [trees for _, trees in self.kernel.pg_bart.all_batches[-self.steps_a_sweep:]]
        sizes = [tree.size for trees in batches for tree in trees]
        if len(sizes) != self.task["n_trees"]:
            raise RuntimeError(f"{self.steps_a_sweep} steps updated {len(sizes)} trees, not {self.task['n_trees']}")
        return float(np.mean([(size + 1) / 2 for size in sizes]))


PEERS = {"bartz": Bartz, "stochtree": StochTree, "stochtree GFR": GrowFromRoot, "pymc-bart": PyMCBart}


# ------------------------------------------------------------------------------------------------------ requests
def timed(run, n):
    """CPU seconds of the whole process, all its threads, and wall seconds of n sweeps."""
    cpu, wall = time.process_time(), time.perf_counter()
    run.sweep(n)
    return time.process_time() - cpu, time.perf_counter() - wall


def warm_up(run, n, seconds):
    """At least 2 and at most n sweeps, until so many CPU seconds are spent, the first two not counted: they compile."""
    run.sweep(1)
    run.sweep(1)
    done, spent = 2, 0.0
    while done < n and spent < seconds:
        spent += timed(run, 1)[0]
        done += 1
    run.end_burn_in()
    return {"n_sweeps": done}


def sweeps(run, n):
    cpu, wall = timed(run, n)
    return {"cpu": cpu, "wall": wall}


def one_pass(run):
    return {"seconds": run.unit.seconds()}


def leaves(run):
    return {"mean_leaves": run.mean_leaves()}


def chain(run, burn, kept, n_records, out=None, chunk_seconds=math.inf):
    """A burn-in and kept sweeps of so many CPU seconds each; sweeps are counted, records are not; traces go to `out`.

    Some `n_records` records, equally spaced in sweeps, at least one sweep apart; `end_chunk` every so many seconds.
    """
    n_burn, spent, n = 0, 0.0, 1
    if run.compiles:
        run.sweep(1)
    while spent < burn:
        took = timed(run, n)[0]
        spent, n_burn, pace = spent + took, n_burn + n, max(took, 1e-9) / n
        n = max(1, min(int(0.05 * burn / pace), int((burn - spent) / pace)))
    run.end_burn_in()
    n = max(1, math.ceil(kept / pace / n_records))
    chunk = max(1, int(min(CHUNK, chunk_seconds / pace / n)))
    n_kept, cpu, wall = 0, 0.0, 0.0
    while cpu < kept:
        n_more = max(1, min(chunk, math.ceil((kept - cpu) / pace / n)))
        times = run.advance(n, n_more)
        cpu, wall, n_kept = cpu + times[0], wall + times[1], n_kept + n * n_more
        run.end_chunk()
    if out:
        np.savez(out, **run.traces())
    return {"n_burn": n_burn, "burn_cpu": spent, "n_sweeps": n_kept, "sweeps_a_record": n, "cpu": cpu, "wall": wall}


REQUESTS = {"warm_up": warm_up, "sweeps": sweeps, "pass": one_pass, "leaves": leaves, "chain": chain}


def serve(task):
    """Answer requests until standard input ends."""
    # Whatever the package prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    began = time.perf_counter()
    run = PEERS.get(task["system"], Ours)(task)
    versions = {"python": platform.python_version(), **{name: metadata.version(name) for name in run.packages}}
    print(json.dumps({"setup_seconds": time.perf_counter() - began, "versions": versions}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(REQUESTS[request.pop("do")](run, **request)), file=answers, flush=True)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
