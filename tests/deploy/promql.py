"""Prometheus queries, as far as our alerts and dashboards use them, on samples of a test.

Selectors, `rate` and `increase`, `sum`, `max` and `min` with `by`, `absent`, `histogram_quantile`, `time`, `or`, arithmetic and
comparisons that filter. Anything else is an error. Two things are left out: extrapolation to the edges of a range, and
staleness, so a test leaves the series of a process that is gone out of its samples.

Source: Prometheus, "Querying Prometheus".
"""

import operator
import re
from collections import defaultdict

_TOKEN = re.compile(
    r'\s*(\d+(?:\.\d+)?|[a-zA-Z_:][\w:]*|"[^"]*"|\[\d+[smhd]\]|==|!=|>=|<=|[-+*/(){},=<>])'
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_EITHER = {"or"}
_SUM = {"+": operator.add, "-": operator.sub}
_PRODUCT = {"*": operator.mul, "/": lambda a, b: a / b if b else float("nan")}
_OVER = {"sum": sum, "max": max, "min": min}


class Query:
    """One query, read once; `used` has (metric, is a rate, labels) of each selector."""

    def __init__(self, text):
        self._tokens = [*_TOKEN.findall(text), ""]
        assert "".join(self._tokens) == re.sub(r"\s", "", text), f"not read whole: {text}"
        self.used = []
        self._labels = []
        self._tree = self._binary()
        assert self._next() == "", text

    def run(self, samples, at):
        """A number, or values by labels. `samples`: name to labels to [(time, value)]."""
        return self._tree(samples, at)

    def _next(self, *wanted):
        token = self._tokens.pop(0)
        assert not wanted or token in wanted, (token, wanted)
        return token

    def _binary(self, levels=(_EITHER, _COMPARE, _SUM, _PRODUCT)):
        if not levels:
            return self._alone()
        left = self._binary(levels[1:])
        while self._tokens[0] in levels[0]:
            sign = self._next()
            if sign in _EITHER:
                left = _either(left, self._binary(levels[1:]))
                continue
            left = _calculated(left, self._binary(levels[1:]), levels[0][sign], sign in _COMPARE)
        return left

    def _alone(self):
        token = self._next()
        if token == "(":
            inner = self._binary()
            self._next(")")
            return inner
        if token[0].isdigit():
            return lambda samples, at: float(token)
        if token == "time":
            self._next("("), self._next(")")
            return lambda samples, at: float(at)
        if token in _OVER:
            return self._aggregated(_OVER[token])
        if token == "absent":
            return self._absent()
        if token in ("rate", "increase"):
            return self._rising(token == "rate")
        if token == "histogram_quantile":
            return self._quantile()
        return self._selector(token)

    def _names(self):
        self._next("(")
        found = []
        while (token := self._next()) != ")":
            found += [token] if token != "," else []
        return found

    def _aggregated(self, over):
        names = self._names() if self._tokens[0] == "by" and self._next() else []
        self._labels.append(names)
        self._next("(")
        inner = self._binary()
        self._next(")")
        self._labels.pop()

        def run(samples, at):
            groups = defaultdict(list)
            for labels, value in inner(samples, at).items():
                groups[frozenset((k, v) for k, v in labels if k in names)].append(value)
            return {labels: over(values) for labels, values in groups.items()}

        return run

    def _absent(self):
        self._next("(")
        inner = self._selector(self._next())
        self._next(")")
        return lambda samples, at: {} if inner(samples, at) else {frozenset(): 1.0}

    def _rising(self, is_rate):
        self._next("(")
        name = self._next()
        window = self._next()
        seconds = int(window[1:-2]) * _SECONDS[window[-2]]
        self._next(")")
        self._use(name, is_counted=True)

        def run(samples, at):
            found = {}
            for labels, points in samples.get(name, {}).items():
                inside = [value for time, value in points if at - seconds <= time <= at]
                if len(inside) > 1:
                    found[labels] = (inside[-1] - inside[0]) / (seconds if is_rate else 1)
            return found

        return run

    def _quantile(self):
        self._next("(")
        share = float(self._next())
        self._next(",")
        inner = self._binary()
        self._next(")")

        def run(samples, at):
            buckets = sorted(
                (float(dict(labels)["le"]), value) for labels, value in inner(samples, at).items()
            )
            total = buckets[-1][1] if buckets else 0
            bounds = [bound for bound, value in buckets if total and value >= share * total]
            return {frozenset(): bounds[0]} if bounds else {}

        return run

    def _selector(self, name):
        self._use(name, is_counted=False)
        return lambda samples, at: {
            labels: [value for time, value in points if time <= at][-1]
            for labels, points in samples.get(name, {}).items()
        }

    def _use(self, name, *, is_counted):
        assert re.fullmatch(r"bursar_[a-z_]+", name), name
        self.used.append((name, is_counted, {label for names in self._labels for label in names}))


def _either(left, right):
    """What is on the left, and what is on the right alone, by all labels."""
    return lambda samples, at: right(samples, at) | left(samples, at)


def _calculated(left, right, function, is_filter):
    """Vectors match by all labels; a comparison keeps what it holds for."""

    def run(samples, at):
        a, b = left(samples, at), right(samples, at)
        if not isinstance(a, dict) and not isinstance(b, dict):
            return function(a, b)
        keys = (
            a.keys() & b.keys()
            if isinstance(a, dict) and isinstance(b, dict)
            else (a if isinstance(a, dict) else b)
        )
        pairs = {
            k: (a[k] if isinstance(a, dict) else a, b[k] if isinstance(b, dict) else b)
            for k in keys
        }
        if is_filter:
            return {k: one for k, (one, other) in pairs.items() if function(one, other)}
        return {k: function(one, other) for k, (one, other) in pairs.items()}

    return run
