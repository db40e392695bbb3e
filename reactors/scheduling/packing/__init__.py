"""GPU packing: the choice of a node and its cards with the least unusable room left for later pods."""
