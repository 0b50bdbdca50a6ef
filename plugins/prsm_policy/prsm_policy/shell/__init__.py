"""What a text runs under bash, told without running it: a reader that knows no agents.

reading            a text as all that it runs
words              what quotes and backslashes mean
grammar            parsing, its limits, its differences
plain              texts that need no grammar
literals           the text of leaves and words
lists              lists and pipelines as bash groups them
reader             a syntax tree as simple commands
script             what was read
nested             what a command runs beside its own program
find_nested        … found: in shells and behind wrappers
exit_codes         which commands of a text have succeeded if it has
program_arguments  … found: in the arguments of other programs
wrappers           tables of what runs other programs
runners            a table of what programs run; its rows: runner_rows, language_rows
inline             code given to interpreters
data_shells        what shells of data bases do beside queries
sed                scripts of sed
awk, jq            programs of awk and jq that only print
agreed             characters that all their implementations read alike
may_contain        whether a text that cannot be read may contain words
tree, structure    the structure of a text; a syntax tree as such a structure
children           the nodes in a node

Other packages may use the names of this module: a permission check that reads what a command does
asks `read_script`. Import it with the first command: it loads a grammar.
"""

from prsm_policy.shell.reading import read_script
from prsm_policy.shell.script import Assignment, Command, Script
from prsm_policy.shell.words import Word

__all__ = ["Assignment", "Command", "Script", "Word", "read_script"]
