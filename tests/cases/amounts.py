"""Numbers of the case files as exact thousandths."""

from fractions import Fraction


def milli(number):
    """Thousandths of a number or a decimal text; it must have no finer part."""
    exact = Fraction(str(number)) * 1000
    assert exact.denominator == 1, number
    return exact.numerator
