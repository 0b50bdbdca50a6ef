"""What a command policy is, and what one may know of the machine's paths.

port           a policy, the records that it takes and gives, and how one is registered
own_state      PRSM's own paths; trespass  whether a text leads to one
names          names and places of secrets, and what nobody writes unasked
patterns       what patterns may stand for
written        what agents may have written of the project's environment
within         whether a path is below a folder
tables         how tables of names are written
rule_classes   rules that stand for a class of commands

Plugins may use the names of this module. They are imported when they are used.
"""

from prsm_core import attach

_HOMES = {
    "names": (
        "HOME_PLACES KEY_SUFFIXES SECRET_NAMES SYSTEM_PLACES moved_places protected_part "
        "secret_part"
    ),
    "own_state": "OwnState Trespass",
    "patterns": "Part UntoldError part_of",
    "port": (
        "CommandPart CommandPolicy CommandPolicySpec CommandRules CommandSetting Judgement "
        "UnaskedError Words"
    ),
    "rule_classes": "BUILDS LOOK_UPS RULE_CLASSES",
    "tables": "word_set",
    "trespass": "NamedPaths Walk why_not_command",
    "within": "has_second_name is_within",
    "written": (
        "ENVIRONMENT HOOK_MANIFESTS PYTHON_MANIFESTS Written environment_part may_be_named names_of"
    ),
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
