"""The expected size of a file is a lower bound of the right order."""

from msbgen.data.profiles import Profiles
from msbgen.data.schema import all_contexts
from msbgen.data.store import write_blocks
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings
from msbgen.engine.generate.size import expected_size

QUICK = ProgressSettings(bins=50, segments=5, deconvolutions=1)


def test_files_come_out_at_least_as_large_as_expected(measured, tmp_path):
    model, query = fit_profiles(measured, QUICK), all_contexts(measured)
    for options in ({"kind": "mean", "times": 0.001}, {"kind": "sample", "n_samples": 40}):
        write_blocks(model.stream(query, **options), tmp_path / "a.nc", overwrite=True)
        expected = expected_size(Profiles.of(measured), len(query), **options)
        assert expected < (tmp_path / "a.nc").stat().st_size < 20 * expected + 50_000
