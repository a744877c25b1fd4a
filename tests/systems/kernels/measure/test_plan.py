"""Plans: the networks' kernels, and as many at random; networks of users, too."""

import pytest

from msbgen.core.errors import ProfileError
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.plan import make_plan, open_network
from needing import needs_torch

pytestmark = needs_torch
SMALL = Campaign(networks=("squeezenet",), images=((1, 64), (2, 64)), random=1.0)
MINE = """
from torch import nn
def build():
    return nn.Sequential(nn.Conv2d(3, 5, 1), nn.Dropout(0.5), nn.Sigmoid())
"""


def test_half_are_of_networks_and_half_at_random():
    plan = make_plan(SMALL)
    assert [one.name for one in plan.passes] == ["squeezenet-1x64", "squeezenet-2x64"]
    seen = {point for trace in plan.traces for point in trace.launches}
    assert set(plan.points[: -plan.drawn]) == seen
    assert len(set(plan.points)) == len(plan.points)
    assert plan.drawn >= len(seen)


def test_equal_campaigns_make_equal_plans_and_seeds_others():
    again = make_plan(SMALL)
    assert again.digest == make_plan(SMALL).digest
    other = make_plan(Campaign(**{**vars(SMALL), "seed": 1}))
    assert other.digest != again.digest
    assert other.points[: -other.drawn] == again.points[: -again.drawn]


def test_a_network_of_the_users_is_traced_as_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", ["/nowhere"])
    (tmp_path / "mynets.py").write_text(MINE)
    own = Campaign(networks=("mynets:build",), images=((2, 32),), random=0.0, folder=str(tmp_path))
    plan = make_plan(own)
    assert plan.passes[0].name == "mynets.build-2x32"
    (point,) = plan.points
    assert point.parameters["filters"] == 5
    assert plan.traces[0].others == {"sigmoid": 1}  # dropout is off


def test_networks_that_cannot_be_imported_are_refused_by_name(tmp_path):
    with pytest.raises(ProfileError, match=r"'nomodule:build' cannot be imported \(No module"):
        open_network("nomodule:build", str(tmp_path))
    with pytest.raises(ProfileError, match="network 'json:build' cannot be imported"):
        open_network("json:build", str(tmp_path))


def test_images_that_are_too_small_are_refused_with_the_reason():
    small = Campaign(networks=("inception_v3",), images=((1, 32),), random=0.0)
    with pytest.raises(ProfileError) as caught:
        make_plan(small)
    message = str(caught.value)
    assert message.startswith(
        "network 'inception_v3' does not run with 1 images of 32 × 32 pixels ("
    )
    assert message.endswith("); larger images, or another network, are wanted.")
