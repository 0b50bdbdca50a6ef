"""The checks behind `prsm doctor`, none of which changes anything.

examination  all of them, in order   finding  what a check says
folders      who may enter, what room is left
values       settings that name what is not there
"""
