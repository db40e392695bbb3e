"""The parts of `bursar why` about queues and reactors."""
