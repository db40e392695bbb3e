"""The machinery under every projection: contract, fold of a batch, SQL store, runner, replay. Knows no question of its own."""
