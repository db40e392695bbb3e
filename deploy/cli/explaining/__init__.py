"""The parts of `bursar why` that tell of queues and of reactors."""
