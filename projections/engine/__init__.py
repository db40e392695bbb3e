"""The machinery of every projection: contract, fold of a batch, SQL store, runner, replay. Independent of any
single projection.
"""
