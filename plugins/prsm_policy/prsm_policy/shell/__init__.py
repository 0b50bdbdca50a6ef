"""What a text runs under bash, told without running it: a reader that knows no agents.

reading            a text as all that it runs; the plainest without a grammar
words              what quotes and backslashes mean
grammar            parsing, its limits, its differences
literals           the text of leaves and words
lists              lists and pipelines as bash groups them
script             what was read
nested             what a command runs beside its own program
find_nested        … found: in shells and behind wrappers
program_arguments  … found: in the arguments of other programs
wrappers           tables of what runs other programs
runners            a table of what programs run
inline             code given to interpreters
data_shells        what shells of data bases do beside queries
sed                scripts of sed
awk, jq            programs of awk and jq that only print
agreed             characters that all their implementations read alike
tree, structure    the structure of a text; a syntax tree as such a structure
children           the nodes in a node

Other packages may use the names of this module: a permission check that reads what a command does
asks `read_script`. Import it with the first command: it loads a grammar.
"""

from prsm_policy.shell.reading import read_script
from prsm_policy.shell.script import Assignment, Command, Script
from prsm_policy.shell.words import Word

__all__ = ["Assignment", "Command", "Script", "Word", "read_script"]
