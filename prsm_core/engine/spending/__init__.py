"""Budgets of a run and of each subtree: reserved before a launch, settled at the end.

budgets    what may still be spent, and by whom; what is told of it
scopes     one scope, its holds and its use
"""
