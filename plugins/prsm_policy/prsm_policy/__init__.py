"""Judges shell commands: reads bash, and knows what is safe and what is dangerous.

plugin           what the package registers
policy           the verdict on a shell command
rules            how rules are compared with commands
allowed_by_rule  which commands a rule to allow covers
extent           … which words behind the rule's
lookups, builds  the classes of what services tell, and of what builds the project
parts            the parts of a plain text, each where it runs
safe             commands that need no rule
danger           commands that are always asked about
understood       programs whose arguments are understood
staying          which commands surely write in the workspace alone
renamed          programs under other names
offers           rules that answers make
guarded          folders that nobody reads as a whole without asking
by_text          what the text of a command alone says
places           where a command may run, and which paths are ordinary there
expansion, tree  what patterns stand for; what lies below a folder, kept
shell            what a text runs under bash
command          `prsm policy`
recorded         the commands of recorded runs
replay           … judged by other rules, and the rules that approvals suggest
"""
