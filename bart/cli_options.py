"""Flags of the command line. Those that were not given are left out, so that the library's defaults hold."""

import argparse

__all__ = ["AUTHORS_FLAGS", "add_commands", "options_of"]

# Option of the scripts that the paper's authors published, and what to write here.
AUTHORS_FLAGS = (
    ("--mcmc_type cgm|growprune|pg", "--sampler cgm|growprune|pg"),
    ("--n_particles C", "--sampler 'pg(n_particles=C)'"),
    ("--resample multinomial|systematic", "--sampler 'pg(resampling=systematic)'"),
    ("--ess_threshold S", "--sampler 'pg(ess_threshold=S)' for S < 1; their 1, after every stage, is the default"),
    ("--proposal prior", "--sampler 'pg(proposal=prior)', the default; there is also optimal"),
    ("--min_size 1", "always: no leaf is empty; larger ones are not offered"),
    ("--m_bart M", "--n-trees M (200 by default, theirs is 1)"),
    ("--alpha_split A, --beta_split B", "--alpha A, --beta B (beta is 2 by default, theirs .5)"),
    ("--alpha_bart NU", "--nu NU"),
    ("--k_bart K, --q_bart Q", "--k K, --q Q"),
    ("--init_pg empty|smc", "--init empty|smc"),
    ("--init_mcmc empty|random", "--init empty|prior"),
    ("--init_id I", "--seed I"),
    ("--n_iterations N", "--n-burn 0 --n-draws N; every sweep is kept in the traces"),
    ("--n_run_avg, --store_every_iteration", "--thin T, predict: predictions come from the saved trees"),
    ("--store_all_stats 0|1", "--no-trees leaves out the trees; traces are always stored"),
    ("--dataset, --data_path", "the file of data"),
    ("--save 1, --op_dir, --tag", "--out FILE"),
    ("--verbose, --debug", "--quiet"),
    ("--sample_y 0", "not an option: the joint test is tests/test_kernel_geweke.py"),
    ("(what they do without a flag)", "--sigma-hat sd --noise-shape full --threshold midpoint --tree-order random,"
                                      " bookkeeping=authors in --sampler"),
)  # fmt: skip
_MODEL = ("n_trees", "alpha", "beta", "k", "nu", "q", "sigma_hat", "sigma", "leaf_mean", "leaf_var", "scale",
          "threshold", "cuts", "n_cuts", "dim_weights", "noise_shape", "outcome", "offset", "weights")  # fmt: skip
_SAMPLE = ("n_burn", "n_draws", "n_chains", "seed", "init", "init_leaves", "thin", "tree_order", "keep_trees",
           "executor", "n_threads", "checkpoint", "checkpoint_every", "time_limit")  # fmt: skip


def options_of(args, kind):
    """Given options as keyword arguments of `Model` ("model") or `sample` ("sample")."""
    names = {"model": _MODEL, "sample": _SAMPLE}[kind]
    found = {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}
    if kind == "sample" and args.quiet:
        found["progress"] = False
    return found


def authors_table():
    """The table of the authors' options as text."""
    width = max(len(theirs) for theirs, _ in AUTHORS_FLAGS)
    lines = ["options of the scripts of the paper's authors, and what to write here:", ""]
    return "\n".join([*lines, *(f"  {theirs:<{width}}  {ours}" for theirs, ours in AUTHORS_FLAGS)])


def add_commands(parser, commands):
    """Add the subcommands.

    Parameters
    ----------
    parser : argparse.ArgumentParser
    commands : dict of str to callable
        What runs each command, given its arguments; its docstring's text is the help.
    """
    kinds = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, run in commands.items():
        text = run.__doc__.split(": ", 1)[1]
        extra = {"epilog": authors_table()} if name == "fit" else {}
        command = kinds.add_parser(name, help=text, description=text, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter, **extra)  # fmt: skip
        _ADD[name](command)
        command.add_argument("--json", action="store_true", help="print one JSON object to stdout instead of text")
        flags = {action.dest: action.option_strings[-1] for action in command._actions if action.option_strings}
        if name in ("fit", "resume"):
            flags |= {"stop_when": "--stop-r-hat, --stop-ess, --stop-names", "seed": "--seed"}
            flags.pop("checkpoint", None)       # a folder of another run is no wrong usage
        if name == "fit":
            flags["every"] = "--swap-every"
        command.set_defaults(run=run, flags=flags)


def _names(text):
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"names separated by commas, not {text!r}")
    return found


def _numbers(text):
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"numbers separated by commas, not {text!r}") from None


def _dim_weights(text):
    return text if text == "dirichlet" else _numbers(text)


def _k(text):
    if text == "chi":
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"chi or a number, not {text!r}") from None


def _sigma_hat(text):
    if text in ("ols", "sd"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"ols, sd or a number, not {text!r}") from None


def _init(text):
    kinds = _names(text)
    return kinds[0] if len(kinds) == 1 else kinds


def _delimiter(text):
    text = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(text) != 1 or text in '"\r\n':
        raise argparse.ArgumentTypeError(f"one character, not {text!r}")
    return text


def _add_table(command):
    command.add_argument("--exclude", type=_names, default=[], metavar="A,B", help="columns to leave out")
    command.add_argument("--delimiter", type=_delimiter, default=",", metavar="C",
                         help="what separates cells: one character, or tab [,]")  # fmt: skip


def _add_running(command):
    add = command.add_argument
    add("--out", required=True, metavar="RUN.npz", help="file for the run")
    add("--n-draws", type=int, metavar="N", help="kept draws of each chain [1000]")
    add("--n-chains", type=int, metavar="N", help="chains [4]")
    add("--n-jobs", dest="executor", type=int, metavar="N", help="threads over which the chains are spread [1]")
    add("--n-threads", type=int, metavar="N", help="threads of each chain, for 65 536 rows or more [1]")
    add("--checkpoint-every", type=float, metavar="S", help="seconds between two checkpoints of a chain [60]")
    add("--time-limit", type=float, metavar="S", help="end after so many seconds, with the draws that there are")
    add("--stop-r-hat", type=float, metavar="R", help="end when R-hat is at most this, and ...")
    add("--stop-ess", type=float, metavar="E", help="... the bulk ESS at least this, with --n-draws at the most")
    add("--stop-names", type=_names, metavar="A,B", help="... of these traces [sigma,log_likelihood, and k and theta]")
    add("--quiet", action="store_true", help="no progress bar")


def _add_fit(command):
    add = command.add_argument
    add("data", metavar="DATA.csv", help="numeric columns below a header row; - reads stdin")
    add("--target", required=True, metavar="NAME", help="column to be explained")
    add("--columns", type=_names, metavar="A,B", help="columns that explain it [all others]")
    add("--weights", metavar="NAME", help="column of relative precisions: noise variance sigma^2 / weight [all 1]")
    _add_table(command)
    model = command.add_argument_group("model")
    add = model.add_argument
    add("--n-trees", type=int, metavar="M", help="trees [200]")
    add("--alpha", type=float, help="a node at depth d splits with probability alpha (1 + d)^-beta [.95]")
    add("--beta", type=float, help="[2]")
    add("--k", type=_k, metavar="K|chi", help="leaf values have standard deviation .5 / (k sqrt(M)) of the range of y;"
        " chi: a prior of k, drawn with the trees [2]")  # fmt: skip
    add("--nu", type=float, help="degrees of freedom of the noise prior [3]")
    add("--q", type=float, help="its probability of a noise below sigma-hat [.9]")
    add("--sigma-hat", type=_sigma_hat, metavar="ols|sd|S", help="rough estimate of the noise [ols]")
    add("--sigma", type=float, metavar="S", help="fixes the noise's standard deviation")
    add("--leaf-mean", type=float, metavar="X", help="mean of a leaf value, units of y [0]")
    add("--leaf-var", type=float, metavar="V", help="variance of a leaf value, in place of --k")
    add("--no-scale", dest="scale", action="store_const", const=False, help="leave y as it is")
    add("--threshold", choices=("uniform", "midpoint"), help="where in its gap a threshold lies [uniform]")
    add("--cuts", choices=("width", "grid", "quantile"), help="prior of cut points [width]")
    add("--n-cuts", type=int, metavar="N", help="cut points of a column, with grid and quantile [100]")
    add("--dim-weights", type=_dim_weights, metavar="W,W|dirichlet",
        help="relative probabilities of the columns, or a sparse prior of them [equal]")
    add("--noise-shape", choices=("half", "full"), help="gamma shape nu/2, or nu as in the authors' scripts [half]")
    add("--outcome", choices=("gaussian", "probit"), help="probit: the target is 0 or 1 [gaussian]")
    add("--offset", type=float, metavar="Z", help="known part of the mean, with probit of the latent outcomes")
    add("--offset-column", metavar="NAME", help="that of each row: a column that is no explaining one")
    chains = command.add_argument_group("sampling")
    add = chains.add_argument
    add("--sampler", default="auto", metavar="TEXT", help="auto, pg, cgm, growprune, local, or such a text as"
        " 'pg(n_particles=20) + growprune' [auto]")  # fmt: skip
    add("--n-rungs", type=int, metavar="K", help="parallel tempering, with so many temperatures [8, where one of the"
        " next two is given]")  # fmt: skip
    add("--t-min", type=float, metavar="T", help="its last temperature [0.05]")
    add("--swap-every", type=int, metavar="N", help="sweeps between its swaps [1]")
    add("--n-burn", type=int, metavar="N", help="sweeps before the first kept draw [1000]")
    add("--thin", type=int, metavar="N", help="sweeps a kept draw [1]")
    add("--seed", type=int, metavar="I", help="the same seed gives the same draws")
    add("--init", type=_init, metavar="KIND", help="dispersed, empty, prior, overgrown, smc, grow, or several in turn,"
        " separated by commas [dispersed]")  # fmt: skip
    add("--init-leaves", type=int, metavar="N", help="leaves of an overgrown tree [4]")
    add("--tree-order", choices=("sequential", "random"), help="[sequential]")
    add("--no-trees", dest="keep_trees", action="store_const", const=False, help="traces alone: no predictions")
    add("--checkpoint", metavar="FOLDER", help="folder for checkpoints; continues the run that is in it")
    _add_running(chains)


def _add_resume(command):
    command.add_argument("path", metavar="FOLDER", help="what was given as --checkpoint")
    _add_running(command)


def _add_predict(command):
    add = command.add_argument
    add("run_file", metavar="RUN.npz", help="a saved run")
    add("data", metavar="NEW.csv", help="rows to predict; columns are found by name; - reads stdin")
    _add_table(command)
    add("--interval", type=float, metavar="P", help="probability of a central interval")
    add("--quantiles", type=_numbers, metavar="Q,Q", help="quantiles")
    add("--kind", choices=("mean", "outcome", "probability"),
        help="what is predicted: the mean f, a new outcome, noise included, or of a probit run the probability of 1"
             " [mean, of a probit run probability]")
    add("--offset-column", dest="offset", metavar="NAME", help="offsets of the rows, where fit had such a column")
    add("--weights", metavar="NAME", help="relative precisions of the rows, with --kind outcome: a column [all 1]")
    add("--every", type=int, default=1, metavar="N", help="use only every so many draws [1]")
    add("--n-threads", type=int, default=1, metavar="N", help="threads [1]")
    add("--out", metavar="PRED.csv", help="file for the predictions [stdout]")
    add("--quiet", action="store_true", help="no progress bar")


def _add_diagnose(command):
    add = command.add_argument
    add("run_file", metavar="RUN.npz", help="a saved run")
    add("--names", type=_names, metavar="A,B", help="traces [sigma,log_likelihood,n_leaves,depth, and k and theta]")
    add("--r-hat", type=float, default=1.05, metavar="R", help="largest R-hat that counts as converged [1.05]")
    add("--ess", type=float, default=400.0, metavar="E", help="least bulk ESS [400]")
    add("--strict", action="store_true", help="exit code 1 where it is not converged")


_ADD = {"fit": _add_fit, "resume": _add_resume, "predict": _add_predict, "diagnose": _add_diagnose}
