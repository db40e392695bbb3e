"""CPUs: the exclusive CPUs of pods on their nodes."""
