"""What a text runs under bash, told without running it: a reader that knows no agents.

`reading` makes a `script` of a text by a tree-sitter `grammar`. `find_nested` finds what shells,
`wrappers`, `runners`, interpreters (`inline`) and `data_shells` run beside that. `structure` gives
a text as a `tree` of steps.

Other packages may use the names of this module: a permission check that reads what a command does
asks `read_script`. Import it with the first command: it loads a grammar.
"""

from prsm_policy.shell.reading import read_script
from prsm_policy.shell.script import Assignment, Command, Script
from prsm_policy.shell.words import Word

__all__ = ["Assignment", "Command", "Script", "Word", "read_script"]
