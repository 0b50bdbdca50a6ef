"""The checks behind `prsm doctor`, none of which changes anything.

finding       what a check says                setup      configuration, trust, plugins
system        Python, packages, terminal       providers  the vendors' programs
folders       who may enter, what room is left engines    ledger, sessions, processes
values     settings that name what is not there
examination   all of them, in order
"""
