"""From recipe and changes to the settings of a run."""

import pytest

from patchprint.common.errors import UserError
from patchprint.training import resolve


def test_another_network_takes_the_options_that_it_knows():
    assert resolve("hynet", network="tfeat").network_options == {}
    assert resolve("hynet", network="hardnet", network_options={"width": 8}).network_options == {
        "dropout": 0.3,
        "width": 8,
    }
    assert resolve("hardnet-gor", loss="hynet", loss_settings={"alpha": 3.0}).loss_settings == {"alpha": 3.0}
    assert resolve("sdgmnet-shipped", batcher="pairs").batcher_options == {}
    with pytest.raises(UserError, match="network 'tfeat' has no option 'dropout'"):
        resolve("hynet", network="tfeat", network_options={"dropout": 0.1})
    with pytest.raises(UserError, match="loss 'hynet' has no option 'gor'"):
        resolve("hardnet-gor", loss="hynet", loss_settings={"gor": 0.5})


def test_unknown_recipe_gets_a_suggestion():
    with pytest.raises(ValueError, match="did you mean sdgmnet"):
        resolve("sdgmnett")
