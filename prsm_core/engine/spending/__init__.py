"""Budgets of a run and of each subtree: reserved before a launch, settled at the end.

budgets    what may still be spent, and by whom       scopes    one scope, its holds and its use
allowance  when a turn ends whose budget is used up
alerts     tells when much is spent, when all is       prices    what tokens cost, as a person says
"""
