"""GPU packing: the node, and its cards, that leave the least room unusable for later pods."""
