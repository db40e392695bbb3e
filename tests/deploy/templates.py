"""Go templates as far as our chart uses them: `if`, `else`, `end`, `eq`, `ne`, `has`, `and`, `or`, `quote` and values.

Anything else is an error, so that the chart does not grow beyond what is tested. Source: Go, package text/template; Sprig.
"""

import json
import re

_ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*\}\}", re.S)
_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[()]|[^\s()]+)')
_FUNCTIONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "has": lambda one, many: one in many,
    "and": lambda *all_of: all(all_of),
    "or": lambda *any_of: any(any_of),
}


def render(template, values):
    """The text of a template for values."""
    written, shown, place = [], [True], 0
    for action in _ACTION.finditer(template):
        space, trims, words = action.groups()
        if shown[-1]:
            written.append(template[place : action.start()] + ("" if trims else space))
        place = action.end()
        name, _, rest = words.partition(" ")
        if name == "if":
            shown.append(shown[-1] and bool(_value(rest, values)))
        elif name == "else":
            shown[-1] = shown[-2] and not shown[-1]
        elif name == "end":
            shown.pop()
        elif shown[-1]:
            written.append(_piped(words, values))
    assert shown == [True]
    return "".join(written) + template[place:]


def _piped(words, values):
    expression, _, function = words.partition(" | ")
    assert function in ("", "quote"), words
    found = str(_value(expression, values))
    return json.dumps(found) if function else found


def _value(expression, values):
    words = _WORD.findall(expression)
    found = _parsed(words, values)
    assert not words, expression
    return found


def _parsed(words, values):
    """A call, or a value alone."""
    name = words.pop(0)
    if name not in _FUNCTIONS:
        return _alone(name, words, values)
    arguments = []
    while words and words[0] != ")":
        arguments.append(_alone(words.pop(0), words, values))
    return _FUNCTIONS[name](*arguments)


def _alone(word, words, values):
    if word == "(":
        found = _parsed(words, values)
        assert words.pop(0) == ")"
        return found
    if word.startswith('"'):
        return json.loads(word)
    assert word.startswith(".Values."), word
    return values[word.removeprefix(".Values.")]
