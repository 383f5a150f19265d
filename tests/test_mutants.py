"""Known errors put back into the kernels, one at a time: each must be caught by a named test.

The mutant build (`make mutants`, BART_MUTANTS=1) holds them all and takes one by its id from BART_MUTANT; the normal
build has no such switch. With id 0 the mutant build must pass every test named here.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ONE_STEP = "test_one_step.py::test_particle_gibbs_leaves_the_posterior_invariant"
TWIN = "test_twins_compiled.py::test_from_enumerated_trees"
LOCAL = "test_one_step.py::test_local_moves_leave_the_posterior_invariant"
TRANSPOSE = "test_one_step.py::test_a_transpose_has_the_enumerated_law"
OPTIMAL = "test_one_step.py::test_optimal_and_subtree_moves_leave_the_posterior_invariant"
WITHIN = "test_one_step.py::test_a_sweep_from_an_exact_draw_of_tree_and_values"
LEVELS = "test_levels.py::test_the_law_is_that_of_the_prior_along_the_shifts"
JOINT = "test_joint_leaves.py::test_moments_are_those_of_the_joint_law"
HYPER = "test_hyperpriors.py::test_one_step_given_split_probabilities"
WEIGHTS = "test_kernel_weights.py::"
SLIDE = "test_slide.py::test_slides_from_an_exact_draw_of_tree_and_values"
OWN_LOOP = "test_compose.py::test_an_ensemble_makes_the_trees_of_an_own_loop"

MUTANTS = {
    1: ("reference outside the resampling pool", f"{ONE_STEP}[pg-2-multinomial-None-plain-plane]"),
    2: ("C sorted draws, one overwritten", f"{ONE_STEP}[pg-3-multinomial-None-plain-plane]"),
    3: ("clamped particle finished a stage early", f"{ONE_STEP}[pg-2-multinomial-None-plain-grid]"),
    4: ("unsplittable nodes cost no stage in free particles", f"{ONE_STEP}[pg-2-multinomial-None-plain-ties]"),
    5: ("#prunable before the move instead of after", f"{LOCAL}[growprune-weighted]"),
    6: ("sigma_mu for sigma_mu^2", f"{LOCAL}[growprune-long_line]"),
    7: ("#prunable always one more", f"{LOCAL}[growprune-plane]"),
    8: ("root always split", f"{ONE_STEP}[pg-2-multinomial-None-plain-shallow]"),
    9: ("prior of the subtree left out of change", f"{LOCAL}[cgm-plane]"),
    10: ("weights not reset on copy", f"{ONE_STEP}[pg-2-multinomial-None-plain-plane]"),
    11: ("killing without the shift", f"{ONE_STEP}[pg-3-killing-None-plain-plane]"),
    12: ("midpoints of the node's own gap", f"{LOCAL}[cgm-plane]"),
    13: ("change counts its own rule's prior", f"{LOCAL}[cgm-plane]"),
    14: ("stop probability of unsplittable children", f"{LOCAL}[growprune-ties]"),
    # Exact, but never accepted: only the twin sees it.
    15: ("swap of one child where both carry the rule", f"{TWIN}[cgm-square]"),
    16: ("forced move with the inverted ratio", f"{ONE_STEP}[pg-5-multinomial-0.0-forced-weighted]"),
    17: ("stop weight one under optimal proposals", f"{OPTIMAL}[pg-optimal-2-line]"),
    18: ("subset not conditioned on the clamped one", f"{OPTIMAL}[pg-optimal-2-subset-2-cube]"),
    19: ("rotate draws a parent, then one of its edges", f"{LOCAL}[rotate-long_line]"),
    20: ("rotate always accepted", f"{LOCAL}[rotate-line]"),
    21: ("perturb without mass(old) / mass(new)", f"{LOCAL}[perturb-line]"),
    22: ("perturb's interval moves with the old code", f"{LOCAL}[perturb-weighted]"),
    23: ("local move without the children's stops", f"{OPTIMAL}[local-line]"),
    24: ("weight of the cell for the exact ratio", f"{OPTIMAL}[pg-optimal-2-cells-line]"),
    25: ("share of the gap in its cell ignored", f"{OPTIMAL}[local-cells-line]"),
    26: ("depths of a subtree from 0", f"{OPTIMAL}[pg-subtree-optimal-3-line]"),
    27: ("path that leaves the tree drawn again", f"{OPTIMAL}[pg-subtree-optimal-3-line]"),
    28: ("unit of the histograms from the residual", f"{WITHIN}[local]"),
    29: ("splice leaves depths as they were", f"{LOCAL}[splice-long_line]"),
    31: ("splice counts one side of a new node", f"{LOCAL}[splice-line]"),
    32: ("recut without r(old cell) / r(new cell)", f"{OPTIMAL}[recut-line]"),
    33: ("recut weighs the leaves' present rows", f"{OPTIMAL}[recut-weighted]"),
    34: ("recut's subset without the present column", f"{OPTIMAL}[recut-subset-2-cube]"),
    35: ("what levels sum to taken off each tree alike", f"{LEVELS}[leaves0-options0]"),
    36: ("transpose without the ratio of its proposals", f"{OPTIMAL}[transpose-plane]"),
    37: ("transpose back through the wrong child", f"{TRANSPOSE}[None]"),
    38: ("rejected transpose not turned back", "test_twins_compiled.py::test_transpose_of_lattices[40-3]"),
    40: ("columns of a stop's subset not by their weights", f"{HYPER}[local-1-plain]"),
    41: ("reroute does not count internal nodes", f"{LOCAL}[reroute-line]"),
    42: ("reroute counts places after the new node", f"{LOCAL}[reroute-weighted]"),
    43: ("masses of the cells left out of reroute", f"{LOCAL}[reroute-line]"),
    60: ("old leaf values kept after the target was formed", f"{OWN_LOOP}[pg then local]"),
    61: ("target not formed after leaves were joined", f"{OWN_LOOP}[twice]"),
    62: ("diagonal of the joint factor taken twice", f"{JOINT}[1.0]"),
    70: ("counts for weights in the mean of a leaf value", f"{WEIGHTS}test_leaf_values_follow_their_posterior"),
    71: ("counts for weights in log L", f"{LOCAL}[growprune-precise_ties]"),
    72: ("weights left out of the sum of squares", f"{WEIGHTS}test_joint_law_is_the_prior[growprune-1]"),
    73: ("counts for weights in the joint law", f"{WEIGHTS}test_moments_of_joint_leaves[1.0]"),
    74: ("window of a slide begins at its cut", f"{SLIDE}[terrace]"),
    75: ("prior below a slide left out", f"{SLIDE}[line]"),
    76: ("masses of the gaps left out of a slide", f"{SLIDE}[terrace]"),
    77: ("residual of rows that a slide moves stays", f"{SLIDE}[line]"),
    78: ("row weights left out of a slide", f"{SLIDE}[weights]"),
    79: ("all rows that a slide moves in one leaf", f"{SLIDE}[quantile]"),
    30: ("candidates of the local move not counted after it", f"{OPTIMAL}[local-line]"),
}


def run(tests, mutant):
    """Exit code and output of tests run against the mutant build."""
    library = os.environ.get("BART_MUTANT_BUILD")
    if not library:
        if os.environ.get("CI"):
            pytest.fail("BART_MUTANT_BUILD names no mutant build; `make test` makes one", pytrace=False)
        pytest.skip("BART_MUTANT_BUILD names no mutant build; `make mutants` makes one")
    here = Path(__file__).parent
    environment = dict(os.environ, BART_MUTANT=str(mutant), BART_TEST_LIB=library, PYTHONPATH=library,
                       PYTEST_ADDOPTS="")
    command = [Path(sys.executable).parent / "pytest", "-q", "-p", "no:cacheprovider", "-m", "",
               *(str(here / test) for test in tests)]
    done = subprocess.run(command, env=environment, cwd=here, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{i}: {name}" for i, (name, _) in MUTANTS.items()])
def test_mutant_is_caught(mutant):
    code, output = run([MUTANTS[mutant][1]], mutant)
    assert code == 1 and "1 failed" in output, f"mutant {mutant} survives:\n{output}"


def test_mutant_build_without_a_mutant_passes():
    code, output = run(sorted({test for _, test in MUTANTS.values()}), 0)
    assert code == 0, output


def test_normal_build_has_no_switch():
    """The switch is read from the environment by name; the normal build does not hold the name."""
    kernels = Path(__import__("bart.kernels").__file__).parent / "kernels"
    for built in [*kernels.glob("*.so"), *kernels.glob("*.pyd")]:
        assert b"BART_MUTANT" not in built.read_bytes(), built
