"""The synchronous way in: AdmissionReview ⇄ Review and Answer, TLS, certificates, registration at the API server.

What is decided here is nothing: the decision is a `Handler` that is given, and so is the answer for when it fails.
"""

from reactors.webhook.application import Application, ApplicationState, Handler
from reactors.webhook.failure import Failure
from reactors.webhook.review import Answer, Review

__all__ = ["Answer", "Application", "ApplicationState", "Failure", "Handler", "Review"]
