"""GPU packing: which node, and which of its cards, leaves the least that later pods cannot use."""
