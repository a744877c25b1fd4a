"""Specs: every key has a default, and what makes no sense is a sentence."""

import sys

import pytest

from msbgen.core.errors import ProfileError
from msbgen.kernels.measure.architectures import ARCHITECTURES
from msbgen.kernels.measure.campaign import Campaign, read_campaign


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "spec.toml"
        path.write_text(text)
        return read_campaign(path)

    return read


def test_an_empty_file_is_every_default(read, tmp_path):
    given = read("")
    assert given.networks == tuple(ARCHITECTURES)
    assert given == Campaign(folder=str(tmp_path))


def test_what_is_given_is_taken(read):
    given = read(
        'networks = ["resnet18", "mine:build"]\nimages = [[2, 64]]\nrandom = 0\nthreads = [2, 1]\n'
        'quotas = [50, 100.0]\nsessions = 3\npatience = "500ms"\nseed = 4\ncores = [0, 1]\n'
    )
    assert given.networks == ("resnet18", "mine:build")
    assert (given.images, given.random, given.threads) == (((2, 64),), 0.0, (1, 2))
    assert (given.quotas, given.sessions, given.patience, given.seed) == ((50, 100), 3, 0.5, 4)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('networks = ["resnet81"]', "'resnet81' is not known, nor 'module:function'; did you mean"),
        ("networks = []", "'networks' is []; a list of distinct names is wanted."),
        ("images = [[1, 16]]", "pairs of batch (1 to 4096) and side (32 to 4096), each once, are"),
        ("images = [[1, 64], [1, 64]]", "'images' is [[1, 64], [1, 64]]; pairs"),
        ("images = 3", "'images' is 3; pairs"),
        ("random = -1", "'random' is -1; a number ≥ 0 is wanted."),
        ("threads = [0]", "'threads' is [0]; distinct whole numbers ≥ 1 are wanted."),
        ("threads = []", "'threads' is []; distinct whole numbers ≥ 1 are wanted."),
        ("quotas = [50, 50]", "'quotas' is [50, 50]; distinct numbers"),
        ("sessions = 0", "'sessions' is 0; a whole number from 1"),
        ("patience = 0", "'patience' is 0; a time of 0.001 s or more"),
        ("netwroks = []", "'netwroks' is no known key; did you mean 'networks'?"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(read, line, sentence):
    with pytest.raises(ProfileError) as caught:
        read(line)
    assert str(caught.value).startswith("spec.toml: ")
    assert sentence in str(caught.value)


def test_a_session_gets_exactly_what_was_read(read):
    given = read('networks = ["vgg11"]\nquotas = [50]\nthreads = [1, 2]\n')
    spec = given.spec()
    assert spec.command[:3] == (sys.executable, "-m", "msbgen.kernels.measure.session")
    assert Campaign.from_json(spec.command[3]) == given
    assert [(r.name, r.by, r.levels) for r in spec.resources] == [
        ("threads", "threads", (1.0, 2.0)),
        ("cpu_quota", "quota", (50.0,)),
    ]


def test_another_campaign_is_another_sweep(read):
    one, other = read("").spec(), read("repetitions = 16").spec()
    assert one.digest([[1.0]], [1]) != other.digest([[1.0]], [1])
    assert one.digest([[1.0]], [1]) == read("").spec().digest([[1.0]], [1])


def test_bursts_are_for_quotas_that_stop_something():
    campaign = Campaign()
    assert campaign.burst(1, None) == campaign.burst(2, 200) == campaign.burst(1, 150) == 0.0
    assert campaign.burst(2, 100) == campaign.burst(1, 50) > 0
