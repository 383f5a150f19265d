"""What all tests share: seeds from the test's id, the data folder, and a guard on global random state."""

import hashlib
import importlib.util
import os
import random
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # for `experiments`; last: the build under test comes before the source tree


def pytest_addoption(parser):
    parser.addoption("--seeds", type=int, default=1, metavar="K", help="run every seeded test with K seeds")


def pytest_report_header(config):
    return f"bart from: {_package_folder()}"


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:      # a shell starts background jobs so, and children inherit
        signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = os.environ.get("BART_TEST_LIB")
    if wanted and _package_folder().parent != Path(wanted).resolve():
        raise pytest.UsageError(f"the tests would import {_package_folder()}, not the build in {wanted}")


def pytest_generate_tests(metafunc):
    """With --seeds K, run each test that uses `seed` or `rng` K times, the first as without the option."""
    count = metafunc.config.getoption("seeds")
    if "seed" in metafunc.fixturenames and count > 1:
        metafunc.parametrize("seed", range(count), indirect=True, ids=[f"seed{i}" for i in range(count)])


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name.startswith("test_kernel"):
            item.add_marker(pytest.mark.kernel)


def _package_folder():
    spec = importlib.util.find_spec("bart")
    if spec is None:
        raise pytest.UsageError("no package `bart` to test: start pytest as `make test` does")
    return Path(list(spec.submodule_search_locations)[0]).resolve()


def seed_of(nodeid, repeat=0):
    """A seed that depends on the test's id and the repeat alone, not on order, worker or platform."""
    plain = re.sub(r"\[seed\d+\]|-seed\d+(?=[-\]])|(?<=\[)seed\d+-", "", nodeid)
    return int.from_bytes(hashlib.sha256(f"{plain}#{repeat}".encode()).digest()[:8], "little")


@pytest.fixture
def seed(request):
    """An integer seed made from the test's id."""
    return seed_of(request.node.nodeid, getattr(request, "param", 0))


@pytest.fixture
def rng(seed):
    """A numpy Generator seeded from the test's id."""
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def _global_random_state_untouched():
    """No code under test may read or write the global generators of numpy and random."""
    before = _global_random_state()
    yield
    assert _global_random_state() == before, "the test changed the global state of numpy.random or random"


def _global_random_state():
    kind, keys, *rest = np.random.get_state()
    return kind, keys.tobytes(), tuple(rest), random.getstate()


def _required_folder(path, why):
    if path is not None and path.is_dir():
        return path
    if os.environ.get("CI"):
        pytest.fail(f"{why}; continuous integration must have it", pytrace=False)
    pytest.skip(why)


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real data sets that PGBART_DATA names. Without it: skip, or fail where CI is set."""
    value = os.environ.get("PGBART_DATA")
    why = f"PGBART_DATA names no folder ({value})" if value else "PGBART_DATA is not set"
    return _required_folder(Path(value) if value else None, why)


@pytest.fixture(scope="session")
def reference_dir(data_dir):
    """The folder of reference values, beside the data folder."""
    path = Path(os.path.join(data_dir, "..", "reference"))
    return _required_folder(path, f"there is no folder `reference` beside PGBART_DATA ({data_dir})")
