"""The autocorrelations behind the choice of "auto": right on series of known law, and the script from end to end."""

import numpy as np
import pytest

from experiments import mixing_relaxation as relaxation


def test_rho_of_autoregressions(rng):
    """Of AR(1) series with coefficient a the autocorrelation after k records is a^k; n_points stand for f."""
    n, a = 200_000, np.array([0.5, 0.9, 0.97, 0.97])
    noise = rng.standard_normal((4, n, 4)) * np.sqrt(1 - a**2)
    series = np.empty_like(noise)
    series[:, 0] = rng.standard_normal((4, 4))
    for t in range(1, n):
        series[:, t] = a * series[:, t - 1] + noise[:, t]
    for lag in (0.002, 0.02):
        found = relaxation.rho(list(series), 0.001, np.ones(4), lag)
        np.testing.assert_allclose(found, a[:3] ** round(lag / 0.001), atol=0.02)   # 6 standard errors or more
    assert np.isnan(relaxation.rho(list(series), 0.001, np.ones(4), 150.0)).all()


def test_chains_that_stand_apart_are_not_forgotten():
    """The variance is that of all chains together: each alone is white noise."""
    series = [np.full((100, 3), 10.0 * number) + np.resize([1.0, -1.0], (100, 1)) for number in range(4)]
    variance = np.concatenate(series).var(axis=0)
    assert relaxation.rho(series, 1.0, variance, 1.0).min() > 0.98


def test_the_script(tmp_path, capsys):
    options = ["--problems", "friedman-2000-10", "--seconds", "0.3", "--long", "0.3", "--out", str(tmp_path)]
    assert relaxation.main([*options, "--systems", "growprune", "local(subset=1) + recut"]) == 0
    text = (tmp_path / "mixing_relaxation.txt").read_text()
    assert text in capsys.readouterr().out + "\n" and text.count("friedman-2000-10") == 2
    for bad in (["--systems", "nonsense"], ["--reference", "nonsense"], ["--systems", "bartz"]):
        with pytest.raises(SystemExit, match=f"error: .*{bad[1]}"):
            relaxation.main([*options, *bad])


def test_the_states_are_those_of_the_sampler_named(tmp_path, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(relaxation, "states", lambda *arguments: seen.append(arguments[-1]) or [])
    monkeypatch.setattr(relaxation, "relax", lambda *_: (np.zeros((len(relaxation.LAGS), 3)), 1.0))
    options = ["--problems", "friedman-2000-10", "--systems", "growprune", "--out", str(tmp_path)]
    for reference in ("cgm + slide", None):
        assert relaxation.main([*options, *(["--reference", reference] if reference else [])]) == 0
        assert f"states that {seen[-1]} has reached" in " ".join(capsys.readouterr().out.split())
    assert seen == ["cgm + slide", relaxation.REFERENCE]
