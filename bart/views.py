"""What a Posterior answers beside traces and predictions; each method hands on to the module that computes it."""

from __future__ import annotations

from .dependence import individual_dependence, partial_dependence
from .inclusion import count_splits, find_interactions, measure_inclusion
from .inputs import check_count, check_flag
from .interop import arviz_object, log_likelihood_blocks, pointwise_log_likelihood, write_coda
from .permutation import measure_importance
from .stored import node_table, stored_forest
from .trees import column_label

__all__ = ["PosteriorViews"]


class PosteriorViews:
    """Methods of a Posterior that look at its stored trees, and those that hand it to other programs."""

    # ------------------------------------------------------------------------------------------------------ the trees

    def trees(self, chain, draw, burn=False):
        """The trees of one draw, in the units of x and y: to print, to draw, as arrays or as JSON.

        Parameters
        ----------
        chain, draw : int
            From 0.
        burn : bool
            A stored draw of the burn-in instead of a kept one.

        Returns
        -------
        bart.Forest
            A sequence of `bart.trees.Tree`. ``print(forest[0])``, ``forest.to_json()``, ``forest.nodes``.

        Raises
        ------
        RuntimeError
            The run stored no trees.
        IndexError
            There is no such chain or draw.
        """
        forests = self._forests(check_flag(burn, "burn"))
        for name, value, end in (("chain", chain, len(forests)), ("draw", draw, None)):
            value = check_count(value, name, 0)
            if end is None:
                end = (len(forests[chain].starts) - 1) // self.header["n_trees"]
            if value >= end:
                raise IndexError(f"{name} is {value}, but there are {end} (from 0)")
        return stored_forest(forests[chain], self.header, draw)

    def nodes(self, every=1, burn=False):
        """All nodes of all trees as one table.

        Parameters
        ----------
        every : int
            Use only every so many draws.
        burn : bool
            The stored draws of the burn-in instead of the kept ones.

        Returns
        -------
        structured ndarray, shape (n_nodes,)
            Fields chain, draw, tree, node (number within the tree, 0 the root, parents first), parent, depth, dim (-1
            at a leaf), threshold (units of x; NaN at a leaf), left, right, value (units of y; NaN but at a leaf).
            f is the sum of a draw's leaf values plus ``post.header["y_mid"]``. 56 bytes a node.
        """
        check_count(every, "every")
        return node_table(self._forests(check_flag(burn, "burn")), self.header, every)

    def to_frame(self, every=1, burn=False):
        """`nodes` as a pandas DataFrame, with the name of the column that is split in "column" (None at a leaf).

        Parameters
        ----------
        every, burn
            As in `nodes`.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            Without pandas.
        """
        try:
            import pandas
        except ImportError as error:
            message = "this needs pandas, which the extra 'frames' brings: pip install 'pgbart[frames]'"
            raise ImportError(message) from error
        table = self.nodes(every, burn)
        frame = pandas.DataFrame({name: table[name] for name in table.dtype.names})
        labels = [column_label(self.header["column_names"], dim) for dim in range(self.header["n_dims"])]
        names = [None if dim < 0 else labels[dim] for dim in table["dim"].tolist()]
        frame.insert(frame.columns.get_loc("dim") + 1, "column", pandas.Series(names, dtype=object))
        return frame

    # ------------------------------------------------------------------------------------------- columns in the trees

    def split_counts(self, every=1, burn=False):
        """How many nodes split each column, over all trees of a draw.

        Parameters
        ----------
        every : int
            Use only every so many draws.
        burn : bool
            The stored draws of the burn-in instead of the kept ones.

        Returns
        -------
        ndarray of int64, shape (n_chains, n_draws, n_dims)
        """
        check_count(every, "every")
        forests = self._forests(check_flag(burn, "burn"))
        return count_splits(forests, self.header["n_trees"], self.header["n_dims"], every)

    def inclusion(self, kind="splits", model=None, null=None, n_prior=None, seed=None, every=1):
        """How often each column is split.

        Parameters
        ----------
        kind : {"splits", "trees", "any"}
            "splits": share of a draw's splits, its mean over draws (Chipman, George and McCulloch 2010, v_i); 0 in a
            draw without a split. "trees": share of its trees that split the column at all. "any": whether any does,
            the mean being a posterior probability.
        model : Model, optional
            That of the run: the shares under the prior of its trees on its training codes stand beside, from
            simulated forests. Without data in y, columns with few or uneven values are split less often or more.
        null : PermutationNull, optional
            Of `bart.permutation_null`, with the same kind: shares where y has nothing to do with X.
        n_prior : int, optional
            Forests simulated from the prior, 100 if not given. Only with `model`.
        seed : int or sequence of int, optional
            Of that simulation.
        every : int
            Use only every so many draws.

        Returns
        -------
        bart.inclusion.Inclusion

        Raises
        ------
        RuntimeError
            The run stored no trees.
        ImportError
            Without ArviZ, which gives the Monte Carlo errors; `split_counts` does without.
        ValueError, TypeError
            A bad argument, or the model of another run.
        """
        forests = self._forests(burn=False)
        return measure_inclusion(forests, self.header, kind, every, model, n_prior, seed, null)

    def interactions(self, kind="splits", every=1):
        """Pairs of columns of which one is split below the other in the same tree.

        Parameters
        ----------
        kind : {"splits", "trees"}
            "splits": of all pairs of nodes of a draw of which one is above the other, the share that splits these two
            columns; 0 in a draw without any. "trees": the share of its trees with such a pair of nodes.
        every : int
            Use only every so many draws.

        Returns
        -------
        bart.inclusion.Interactions

        Notes
        -----
        A sum of trees may model an additive function with such pairs, too: compare their shares with those of pairs
        that are known not to interact.
        """
        return find_interactions(self._forests(burn=False), self.header, kind, every)

    def permutation_importance(self, X, y, n_repeats=5, metric="mse", every=1, seed=None, n_threads=1, progress=False,
                               offset=None, weights=None):  # fmt: skip
        """How much worse predictions of y become when one column of X is permuted.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)
            Best rows that were not fitted; at least 2.
        y : array-like, shape (n,)
        n_repeats : int
            Permutations of each column.
        metric : {"mse", "log_score"}
            Mean squared error of the posterior mean (units of y, squared; for probit of P(y = 1), the Brier score), or
            mean log posterior predictive density.
        every : int
            Use only every so many draws.
        seed : int or sequence of int, optional
            Of the permutations.
        n_threads : int
        progress : bool
        offset : float or array-like, shape (n,), optional
            As in `predict`; it stays with its row.
        weights : array-like, shape (n,), optional
            Of the rows, with metric="log_score": as in `log_likelihood_blocks`.

        Returns
        -------
        bart.permutation.Importance
        """
        return measure_importance(self, X, y, n_repeats, metric, every, seed, n_threads, progress, offset, weights)

    # ------------------------------------------------------------------------------------------------------ dependence

    def partial_dependence(self, X, columns, grid=None, n_grid=20, interval=0.9, centred=False, every=1, n_threads=1,
                           progress=False):  # fmt: skip
        """f as one column, or two, are set to the values of a grid, averaged over rows (Friedman 2001). Offsets of rows
        are not in it.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)
            Rows to average over.
        columns : int or str, or a pair of them
            By number, or by name in the training frame.
        grid : array-like, or a pair of them for two columns, optional
            Increasing. Without it the distinct values of the column in X; where they are more than `n_grid`, those at
            quantiles and those nearest to equal steps, half each.
        n_grid : int
            Most points of a grid that is not given; at least 3.
        interval : float in (0, 1)
            Probability of the pointwise central credible interval.
        centred : bool
            Subtract the value at the first point of the grid, in each draw, so that the band is about differences.
        every : int
            Use only every so many draws.
        n_threads : int
        progress : bool

        Returns
        -------
        bart.dependence.Dependence

        Notes
        -----
        In memory: one number a draw and point of the grid, a copy of X and a block of predictions.
        """
        options = (grid, n_grid, interval, centred, every, n_threads, progress)
        return partial_dependence(self, X, columns, *options)

    def individual_dependence(self, X, column, grid=None, n_grid=20, interval=0.9, centred=False, every=1, n_threads=1,
                              progress=False):  # fmt: skip
        """f of each row as one column is set to the values of a grid: ICE (Goldstein et al. 2015), with credible bands.
        Offsets of rows are not in it.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)
            One curve a row.
        column : int or str
        grid, n_grid, interval, centred, every, n_threads, progress
            As in `partial_dependence`; centred curves are those called c-ICE.

        Returns
        -------
        bart.dependence.IndividualDependence

        Notes
        -----
        In memory: three numbers a row and point of the grid, and all draws of a block of rows.
        """
        options = (grid, n_grid, interval, centred, every, n_threads, progress)
        return individual_dependence(self, X, column, *options)

    # -------------------------------------------------------------------------------------------------- other programs

    def log_likelihood_blocks(self, X=None, y=None, model=None, every=1, n_threads=1, offset=None, weights=None):
        """Iterate over `pointwise_log_likelihood` in blocks of bounded memory.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)
        y : array-like, shape (n,)
        model : Model
            That of the run, in place of X and y: its training data.
        every : int
            Use only every so many draws.
        n_threads : int
        offset : float or array-like, shape (n,), optional
            Of the rows of X, as in `predict`; `model` has its own.
        weights : array-like, shape (n,), optional
            Of the rows of X, for Gaussian outcomes; 1 by default, whatever those of the run were. `model` has its own.

        Yields
        ------
        Block
            As `predict_blocks` does.
        """
        return log_likelihood_blocks(self, X, y, model, every, n_threads, offset, weights)

    def pointwise_log_likelihood(self, X=None, y=None, model=None, every=1, n_threads=1, out=None, offset=None,
                                 weights=None):  # fmt: skip
        """log N(y[n] | f(x_n), sigma^2 / weights[n]) of each row and draw, in the units of y; for probit
        log P(y[n] | f(x_n)), the latent variables integrated out.

        Parameters
        ----------
        X, y, model, every, n_threads, offset, weights
            As in `log_likelihood_blocks`.
        out : ndarray of floats, shape (n_chains, n_draws, n), optional
            Written to block by block; a numpy.memmap keeps it out of memory.

        Returns
        -------
        ndarray, shape (n_chains, n_draws, n)
            `out` if it was given.
        """
        return pointwise_log_likelihood(self, X, y, model, every, n_threads, out, offset, weights)

    def to_arviz(self, X=None, y=None, model=None, log_likelihood=False, n_threads=1, offset=None, weights=None):
        """As an ArviZ object: InferenceData (ArviZ 0.x) or DataTree (ArviZ 1.x).

        Parameters
        ----------
        X, y : array-like, optional
            Data, which the run does not keep; X only with `log_likelihood`.
        model : Model, optional
            That of the run, in place of X and y: its training data.
        log_likelihood : bool
            Add the pointwise log-likelihood, which ``arviz.loo`` needs: ``n_chains * n_draws * n`` numbers.
        n_threads : int
            Threads that predict for it.
        offset : float or array-like, shape (n,), optional
            Of the rows of X, as in `predict`; `model` has its own.
        weights : array-like, shape (n,), optional
            As in `log_likelihood_blocks`.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Group "posterior" with sigma, total_log_likelihood (ArviZ keeps the plain name for pointwise
            values), n_leaves and depth, and where they have priors k, theta and split_probabilities;
            "sample_stats" with tree_changed, root_changed, row_visits and seconds; and the same of the burn-in in
            "warmup_posterior" and "warmup_sample_stats". With data, "observed_data" with y; with `log_likelihood` a
            group of that name with y.

        Raises
        ------
        ImportError
            Without ArviZ, naming the extra to install.
        ValueError, TypeError
            Bad or missing data, or the model of another run.
        """
        return arviz_object(self, X, y, model, check_flag(log_likelihood, "log_likelihood"), n_threads, offset, weights)

    def to_coda(self, folder, names=None, stem=""):
        """Write the traces of the kept draws as text files that R's coda reads.

        Parameters
        ----------
        folder : str or os.PathLike
            Made if missing.
        names : sequence of str, optional
            Traces; all of them by default.
        stem : str
            How the files' names begin.

        Returns
        -------
        list of str
            The files: ``CODAindex.txt`` with a line "name first last" for each trace, and for each chain
            ``CODAchain1.txt``, ... with a line "sweep value" for each draw, trace after trace. Values
            keep all their digits. In R: ``read.coda("CODAchain1.txt", "CODAindex.txt")`` or, for all chains, with
            the folder as working directory, ``read.openbugs(stem)``.
        """
        return write_coda(self, folder, names, stem)
