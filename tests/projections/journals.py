"""Random journals of a quota tree: every entry decided by the product's own functions, as events in order."""

from hypothesis import strategies as st

from bus.clock import SECOND_US
from tests.quota_trees import CPU, Books

ROOT = "biz/q"
#: Parent of each quota.
PARENTS = {"q": "", "a": "q", "b": "q"}
UIDS = ("u", "v", "w")


class Recorded(Books):
    """A tree whose journal is kept."""

    def __init__(self):
        super().__init__()
        self.events = []

    def store(self, *facts, at=0):
        for fact in facts:
            id = f"{self.tree.name}/{fact.number}"
            self.events.append(
                fact.event(cluster="c1", key=ROOT, id=id, source="test", time_us=at * SECOND_US)
            )
        super().store(*facts, at=at)


@st.composite
def journals(draw):
    """A tree after some life, with all its entries."""
    books = Recorded()
    for at in range(0, draw(st.integers(0, 12)) * 30, 30):
        quota = draw(st.sampled_from(sorted(PARENTS)))
        amount = draw(st.integers(0, 12))
        uid = draw(st.sampled_from(UIDS))
        demand = {CPU: amount, "requests.memory": draw(st.integers(0, 3))}
        step = draw(st.sampled_from(STEPS))
        step(books, quota, {CPU: amount}, uid, demand, at)
    return books


def _propose(books, quota, hard, uid, demand, at):
    books.propose(quota, hard, PARENTS[quota], at=at)


def _show_quota(books, quota, hard, uid, demand, at):
    books.show_quota(quota, hard, PARENTS[quota], at=at)


def _lose_quota(books, quota, hard, uid, demand, at):
    books.show_quota(quota, None, PARENTS[quota], at=at)


def _ask(books, quota, hard, uid, demand, at):
    books.ask(uid, demand, quota, at=at, namespace=f"ns-{uid}")


def _show(books, quota, hard, uid, demand, at):
    books.show(uid, demand, quota, at=at)


def _lose(books, quota, hard, uid, demand, at):
    books.show(uid, 0, quota, at=at, is_gone=True)


STEPS = (_propose, _show_quota, _show_quota, _lose_quota, _ask, _ask, _ask, _show, _show, _lose)
