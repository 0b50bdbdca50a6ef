"""Judges shell commands: reads bash, and knows what is safe and what is dangerous.

`policy` gives the verdict, by rules (`rules`, `allowed_by_rule`) and by what is known of commands:
`safe` needs no rule, `danger` is always asked about, `classes` are covered by one rule each.
`shell` says what a text runs, `places` and `tree` what is where it runs, `by_text` what the text
alone says. `offers` makes rules of answers. `command` is `prsm policy`, with `recorded` runs that
`replay` judges again.
"""
