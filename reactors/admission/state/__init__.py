"""The state of admission: observed objects, pending charges and the evidence for each charge."""
