"""A lock that a test loses, and a cluster that does not answer."""

import sqlalchemy as sa


class Looks:
    """A clock, and a look at a lock."""

    def __init__(self, *, is_lost=False):
        self.seconds, self.number, self.is_lost = 0.0, 0, is_lost

    def __call__(self):
        self.number += 1
        if self.is_lost:
            raise sa.exc.OperationalError("select 1", {}, Exception("gone"))

    def clock(self):
        return self.seconds


def kubeconfig(folder):
    """Of a cluster that does not answer."""
    path = folder / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}],"
        " users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}"
    )
    return path
