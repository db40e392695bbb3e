"""The synchronous way in: AdmissionReview ⇄ Review and Answer, TLS, certificates, registration at the API server.

It makes no decisions: it calls the given `Handler`, and its substitute after a failure.
"""

from reactors.webhook.application import Application, ApplicationState, Handler
from reactors.webhook.failure import Failure
from reactors.webhook.review import Answer, Review

__all__ = ["Answer", "Application", "ApplicationState", "Failure", "Handler", "Review"]
